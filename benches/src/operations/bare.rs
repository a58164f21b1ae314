//! The bare statements.

use std::sync::Arc;

use idem_core::BoxError;

use super::{Call, Life, Operation};
use crate::arena::Arena;
use crate::ids::text;
use crate::{Baseline, Statements};

/// The connections that bare statements use, for each caller of an operation.
#[derive(Clone)]
pub(crate) struct Connections {
    arena: Arena,
    baseline: Arc<dyn Baseline>,
    /// The connection, or the pool, of all callers.
    shared: Option<Arc<dyn Statements>>,
}

impl Connections {
    /// Returns the bare statements at their best; `None` if the backend has none.
    pub(crate) async fn held(arena: &Arena) -> Result<Option<Self>, BoxError> {
        let Some(baseline) = arena.baseline() else {
            return Ok(None);
        };
        let shared = match baseline.most_connections() {
            None => Some(baseline.held(arena.namespace()).await?),
            Some(_) => None,
        };
        Ok(Some(Self {
            arena: arena.clone(),
            baseline: Arc::clone(baseline),
            shared,
        }))
    }

    /// Returns the bare statements at their best, then through the driver's pool, each with its
    /// name.
    pub(crate) async fn all(arena: &Arena) -> Result<Vec<(&'static str, Self)>, BoxError> {
        let Some(held) = Self::held(arena).await? else {
            return Ok(Vec::new());
        };
        let mut all = vec![("bare held", held.clone())];
        if let Some(pool) = held.baseline.pooled(arena.namespace()).await? {
            let shared = Some(pool);
            all.push(("bare pooled", Self { shared, ..held }));
        }
        Ok(all)
    }

    /// Opens bare statements on a new connection.
    async fn new_statements(&self) -> Result<Arc<dyn Statements>, BoxError> {
        self.baseline.held(self.arena.namespace()).await
    }
}

/// The bare statements for one key.
pub(crate) struct Bare(pub(crate) Connections, pub(crate) Life);

impl Operation for Bare {
    type Connection = Arc<dyn Statements>;

    fn most_tasks(&self) -> usize {
        let connections = self.0.baseline.most_connections();
        let each = connections.filter(|_| self.0.shared.is_none());
        each.unwrap_or(usize::MAX)
    }

    async fn connect(&self) -> Result<Self::Connection, BoxError> {
        match &self.0.shared {
            Some(shared) => Ok(Arc::clone(shared)),
            None => self.0.new_statements().await,
        }
    }

    async fn step(&self, statements: &mut Self::Connection, id: &str) -> Result<(), BoxError> {
        let id = text(id);
        match &self.1 {
            Life::Claim => statements.insert(&id).await,
            Life::Complete(response) => {
                statements.insert(&id).await?;
                statements.update(&id, response.body()).await
            }
            Life::Replay => statements.select(&id).await.map(drop),
        }
    }
}

/// Connecting, and an insert of a fresh key.
pub(crate) struct BareStart(pub(crate) Connections);

impl Call for BareStart {
    async fn call(&self, id: &str) -> Result<(), BoxError> {
        let statements = self.0.new_statements().await?;
        statements.insert(&text(id)).await
    }
}
