//! The same by hand.

use std::sync::Arc;

use idem_core::{BoxError, Bytes};

use crate::ids::text;
use crate::{Arena, Bare, Ids, Operation, Share, Statements, Way};

/// Where bare statements go, for each caller of an operation.
#[derive(Clone)]
pub struct Connections {
    bare: Arc<dyn Bare>,
    namespace: Arc<str>,
    /// By all callers.
    shared: Option<Arc<dyn Statements>>,
}

impl Connections {
    /// To the arena's namespace; none where its subject is compared with nothing, or not in this way.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub async fn of(arena: &Arena, way: Way) -> Result<Option<Self>, BoxError> {
        let Some(bare) = arena.subject().bare() else {
            return Ok(None);
        };
        let shared = match (way, bare.share()) {
            (Way::Pooled, _) => match bare.pooled(arena.namespace()).await? {
                None => return Ok(None),
                pool => pool,
            },
            (Way::Held, Share::One) => Some(bare.held(arena.namespace()).await?),
            (Way::Held, Share::Each(_)) => None,
        };
        Ok(Some(Self {
            bare: Arc::clone(bare),
            namespace: arena.namespace().into(),
            shared,
        }))
    }

    /// What everybody shares, or a connection of the caller's own.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub async fn statements(&self) -> Result<Arc<dyn Statements>, BoxError> {
        match &self.shared {
            Some(shared) => Ok(Arc::clone(shared)),
            None => self.bare.held(&self.namespace).await,
        }
    }

    fn tasks(&self, callers: usize) -> usize {
        match (&self.shared, self.bare.share()) {
            (None, Share::Each(most)) => callers.min(most),
            _ => callers,
        }
    }
}

impl std::fmt::Debug for Connections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connections")
            .field("shared", &self.shared.is_some())
            .finish_non_exhaustive()
    }
}

/// A caller that inserts keys.
type Inserter = (Arc<dyn Statements>, Ids);

/// The insert.
#[derive(Debug)]
pub struct BareInsert(pub Connections);

impl Operation for BareInsert {
    type Caller = Inserter;

    fn tasks(&self, callers: usize) -> usize {
        self.0.tasks(callers)
    }

    async fn caller(&self, _: usize) -> Result<Inserter, BoxError> {
        Ok((self.0.statements().await?, Ids::series()))
    }

    async fn step(&self, (statements, ids): &mut Inserter) -> Result<(), BoxError> {
        statements.insert(&text(&ids.next_id())).await
    }
}

/// The insert, then the update with the response.
#[derive(Debug)]
pub struct BareLife {
    /// Where.
    pub connections: Connections,
    /// With what.
    pub response: Bytes,
}

impl Operation for BareLife {
    type Caller = Inserter;

    fn tasks(&self, callers: usize) -> usize {
        self.connections.tasks(callers)
    }

    async fn caller(&self, _: usize) -> Result<Inserter, BoxError> {
        Ok((self.connections.statements().await?, Ids::series()))
    }

    async fn step(&self, (statements, ids): &mut Inserter) -> Result<(), BoxError> {
        let id = text(&ids.next_id());
        statements.insert(&id).await?;
        statements.update(&id, &self.response).await
    }
}

/// The select by primary key, of many keys in turns.
#[derive(Debug)]
pub struct BareSelect {
    connections: Connections,
    ids: Arc<[String]>,
}

impl BareSelect {
    /// Inserts so many keys with a response, of which each is selected then.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub async fn prepared(
        connections: Connections,
        keys: usize,
        response: Bytes,
    ) -> Result<Self, BoxError> {
        let life = BareLife {
            connections,
            response,
        };
        let mut caller = life.caller(0).await?;
        let next = caller.1.clone();
        for _ in 0..keys {
            life.step(&mut caller).await?;
        }
        let mut ids = next;
        Ok(Self {
            connections: life.connections,
            ids: (0..keys).map(|_| text(&ids.next_id())).collect(),
        })
    }
}

impl Operation for BareSelect {
    type Caller = (Arc<dyn Statements>, usize);

    fn tasks(&self, callers: usize) -> usize {
        self.connections.tasks(callers)
    }

    async fn caller(&self, number: usize) -> Result<Self::Caller, BoxError> {
        Ok((self.connections.statements().await?, number))
    }

    async fn step(&self, (statements, next): &mut Self::Caller) -> Result<(), BoxError> {
        *next += 1;
        let id = &self.ids[*next % self.ids.len()];
        statements.select(id).await.map(drop)
    }
}

/// A new connection, and its first insert.
#[derive(Debug)]
pub struct BareStart(pub Connections);

impl Operation for BareStart {
    type Caller = Ids;

    async fn caller(&self, _: usize) -> Result<Ids, BoxError> {
        Ok(Ids::series())
    }

    async fn step(&self, ids: &mut Ids) -> Result<(), BoxError> {
        let statements = self.0.bare.held(&self.0.namespace).await?;
        statements.insert(&text(&ids.next_id())).await
    }
}
