//! The bare statements.

use std::sync::Arc;

use idem_core::{BoxError, Bytes, Response};

use super::Operation;
use crate::ids::text;
use crate::{Arena, Backend, Baseline, Share, Statements};

/// The connections that bare statements use, for each caller of an operation.
#[derive(Clone)]
pub(crate) struct Connections {
    backend: Backend,
    namespace: Arc<str>,
    share: Share,
    /// The connection of all callers.
    shared: Option<Arc<dyn Statements>>,
}

impl Connections {
    /// Returns each caller's own connections; `None` if the backend has no bare statements.
    pub(crate) async fn held(arena: &Arena) -> Result<Option<Self>, BoxError> {
        let Some(baseline) = arena.backend().baseline() else {
            return Ok(None);
        };
        let share = baseline.share();
        let shared = match share {
            Share::One => Some(baseline.held(arena.namespace()).await?),
            Share::Each(_) => None,
        };
        Ok(Some(Self {
            backend: arena.backend().clone(),
            namespace: arena.namespace().into(),
            share,
            shared,
        }))
    }

    /// Returns the bare statements at their best, then through the driver's pool, each with its
    /// name.
    pub(crate) async fn all(arena: &Arena) -> Result<Vec<(&'static str, Self)>, BoxError> {
        let Some(held) = Self::held(arena).await? else {
            return Ok(Vec::new());
        };
        let pool = held.baseline()?.pooled(arena.namespace()).await?;
        let pooled = pool.map(|pool| Self {
            share: Share::One,
            shared: Some(pool),
            ..held.clone()
        });
        let pooled = pooled.map(|pooled| ("bare pooled", pooled));
        Ok([("bare held", held)].into_iter().chain(pooled).collect())
    }

    fn baseline(&self) -> Result<&dyn Baseline, BoxError> {
        let baseline = self.backend.baseline();
        baseline.ok_or_else(|| "there are no bare statements".into())
    }

    async fn statements(&self) -> Result<Arc<dyn Statements>, BoxError> {
        match &self.shared {
            Some(shared) => Ok(Arc::clone(shared)),
            None => self.new_statements().await,
        }
    }

    /// Opens bare statements on a new connection.
    async fn new_statements(&self) -> Result<Arc<dyn Statements>, BoxError> {
        self.baseline()?.held(&self.namespace).await
    }

    fn tasks(&self, callers: usize) -> usize {
        match self.share {
            Share::Each(most) => callers.min(most),
            Share::One => callers,
        }
    }
}

/// The statements of one key.
enum Call {
    Insert,
    /// The update writes this response.
    InsertUpdate(Bytes),
    /// By primary key.
    Select,
}

/// Bare statements, one key after the other.
pub(crate) struct Bare {
    connections: Connections,
    call: Call,
}

impl Bare {
    /// Inserts a fresh key.
    pub(crate) fn fresh(connections: Connections) -> Self {
        let call = Call::Insert;
        Self { connections, call }
    }

    /// Inserts a fresh key, and writes the response with an update.
    pub(crate) fn completed(connections: Connections, response: &Response) -> Self {
        let call = Call::InsertUpdate(response.body().clone());
        Self { connections, call }
    }

    /// Selects keys by the same connections.
    pub(crate) fn selects(self) -> Self {
        let call = Call::Select;
        Self { call, ..self }
    }
}

impl Operation for Bare {
    type Connection = Arc<dyn Statements>;

    fn tasks(&self, callers: usize) -> usize {
        self.connections.tasks(callers)
    }

    async fn connect(&self) -> Result<Self::Connection, BoxError> {
        self.connections.statements().await
    }

    async fn step(&self, statements: &mut Self::Connection, id: &str) -> Result<(), BoxError> {
        let id = text(id);
        match &self.call {
            Call::Insert => statements.insert(&id).await,
            Call::InsertUpdate(response) => {
                statements.insert(&id).await?;
                statements.update(&id, response).await
            }
            Call::Select => statements.select(&id).await.map(drop),
        }
    }
}

/// Connecting, and an insert of a fresh key.
pub(crate) struct BareStart(pub(crate) Connections);

impl Operation for BareStart {
    type Connection = ();

    async fn connect(&self) -> Result<(), BoxError> {
        Ok(())
    }

    async fn step(&self, (): &mut (), id: &str) -> Result<(), BoxError> {
        let statements = self.0.new_statements().await?;
        statements.insert(&text(id)).await
    }
}
