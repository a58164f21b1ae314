//! The bare statements.

use std::sync::Arc;

use idem_core::{BoxError, Bytes};

use super::Operation;
use crate::ids::text;
use crate::{Arena, Backend, Share, Statements};

/// The connections that bare statements use, for each caller of an operation.
#[derive(Clone)]
pub(crate) struct Connections {
    backend: Arc<dyn Backend>,
    namespace: Arc<str>,
    share: Share,
    /// The connection of all callers.
    shared: Option<Arc<dyn Statements>>,
}

impl Connections {
    /// Returns each caller's own connections; `None` if the backend has no bare statements.
    pub(crate) async fn held(arena: &Arena) -> Result<Option<Self>, BoxError> {
        let backend = arena.backend();
        let Some(share) = backend.share() else {
            return Ok(None);
        };
        let shared = match share {
            Share::One => Some(backend.held(arena.namespace()).await?),
            Share::Each(_) => None,
        };
        Ok(Some(Self {
            backend: Arc::clone(backend),
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
        let pool = held.backend.pooled(arena.namespace()).await?;
        let pooled = pool.map(|pool| Self {
            share: Share::One,
            shared: Some(pool),
            ..held.clone()
        });
        let pooled = pooled.map(|pooled| ("bare pooled", pooled));
        Ok([("bare held", held)].into_iter().chain(pooled).collect())
    }

    async fn statements(&self) -> Result<Arc<dyn Statements>, BoxError> {
        match &self.shared {
            Some(shared) => Ok(Arc::clone(shared)),
            None => self.new_statements().await,
        }
    }

    /// Opens bare statements on a new connection.
    async fn new_statements(&self) -> Result<Arc<dyn Statements>, BoxError> {
        self.backend.held(&self.namespace).await
    }

    fn tasks(&self, callers: usize) -> usize {
        match self.share {
            Share::Each(most) => callers.min(most),
            Share::One => callers,
        }
    }
}

/// An insert of a fresh key.
pub(crate) struct BareClaims {
    pub(crate) connections: Connections,
    /// The response for an update after the insert, if there is one.
    pub(crate) response: Option<Bytes>,
}

impl Operation for BareClaims {
    type Connection = Arc<dyn Statements>;

    fn tasks(&self, callers: usize) -> usize {
        self.connections.tasks(callers)
    }

    async fn connect(&self) -> Result<Self::Connection, BoxError> {
        self.connections.statements().await
    }

    async fn step(&self, statements: &mut Self::Connection, id: &str) -> Result<(), BoxError> {
        let id = text(id);
        statements.insert(&id).await?;
        match &self.response {
            Some(response) => statements.update(&id, response).await,
            None => Ok(()),
        }
    }
}

/// A select by primary key.
pub(crate) struct BareSelect(pub(crate) Connections);

impl Operation for BareSelect {
    type Connection = Arc<dyn Statements>;

    fn tasks(&self, callers: usize) -> usize {
        self.0.tasks(callers)
    }

    async fn connect(&self) -> Result<Self::Connection, BoxError> {
        self.0.statements().await
    }

    async fn step(&self, statements: &mut Self::Connection, id: &str) -> Result<(), BoxError> {
        statements.select(&text(id)).await.map(drop)
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
