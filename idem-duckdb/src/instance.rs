//! [`Instance`]: an open database, and its connections.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use duckdb::Connection;
use idem_core::Result;
use idem_sql::schema::misconfigured;

use crate::error::{Access, classify};
use crate::held::HeldKeys;
use crate::registry::{self, Found};

/// How many connections wait for their next use.
const MAX_IDLE: usize = 16;

/// How many statements each connection keeps prepared: all single ones, and a few batches.
const MAX_PREPARED: usize = 64;

/// An open database. It is closed with its last handle, on a thread that may wait.
pub(crate) struct Instance {
    /// The name of the database in statements.
    database: String,
    path: Option<PathBuf>,
    pub(crate) held: Arc<HeldKeys>,
    /// `None` only while it is dropped.
    connections: Mutex<Option<Connections>>,
}

struct Connections {
    /// The others are clones of it.
    first: Connection,
    idle: Vec<Connection>,
}

impl Instance {
    /// Opens the file, or finds its instance; `None` while another thread opens or closes it.
    pub(crate) fn open(path: &Path) -> Result<Option<Arc<Self>>> {
        let at = |error| classify(error, Access::Read);
        if path == Path::new(":memory:") {
            let instance = Self::new(Connection::open_in_memory().map_err(at)?)?;
            return Ok(Some(Arc::new(instance)));
        }
        match registry::find(path)? {
            None => Ok(None),
            Some(Found::Open(instance)) => Ok(Some(instance)),
            Some(Found::Free(place)) => {
                let instance = Self::new(Connection::open(place.path()).map_err(at)?)?;
                Ok(Some(place.opened(instance)))
            }
        }
    }

    /// Adopts the instance of a caller's connection.
    pub(crate) fn of(connection: Connection) -> Result<Arc<Self>> {
        let path = "SELECT path FROM duckdb_databases() WHERE database_name = current_database()";
        let path: Option<String> = connection
            .query_row(path, [], |row| row.get(0))
            .map_err(|error| classify(error, Access::Read))?;
        let instance = Self::new(connection)?;
        let Some(path) = path else {
            return Ok(Arc::new(instance));
        };
        match registry::find(Path::new(&path))? {
            Some(Found::Free(place)) => Ok(place.opened(instance)),
            _ => Err(misconfigured(
                "this process has the file open already, perhaps in another instance of DuckDB, \
                 and two instances would damage it; share one `DuckDbPool`",
            )),
        }
    }

    fn new(first: Connection) -> Result<Self> {
        let database = first.query_row("SELECT current_database()", [], |row| row.get(0));
        let database = database.map_err(|error| classify(error, Access::Read))?;
        Ok(Self {
            database,
            path: None,
            held: Arc::default(),
            connections: Mutex::new(Some(Connections {
                first,
                idle: Vec::new(),
            })),
        })
    }

    /// Sets the path that the registry has.
    pub(crate) fn at(mut self, path: PathBuf) -> Self {
        self.path = Some(path);
        self
    }

    /// Returns the name of the database in statements.
    pub(crate) fn database(&self) -> &str {
        &self.database
    }

    /// Returns a connection for the statements of the store, or for a caller.
    pub(crate) fn lease(self: &Arc<Self>, whose: Whose) -> Result<Lease, duckdb::Error> {
        let mut connections = self.connections();
        let Some(connections) = connections.as_mut() else {
            return Err(duckdb::Error::InvalidQuery);
        };
        let idle = match whose {
            Whose::Store => connections.idle.pop(),
            Whose::Caller => None,
        };
        let connection = match idle {
            Some(connection) => connection,
            None => {
                let connection = connections.first.try_clone()?;
                connection.set_prepared_statement_cache_capacity(MAX_PREPARED);
                connection
            }
        };
        Ok(Lease {
            connection,
            instance: Arc::clone(self),
        })
    }

    fn connections(&self) -> MutexGuard<'_, Option<Connections>> {
        let connections = self.connections.lock();
        connections.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // The last connection closes the database. Until then the registry opens no other.
        drop(self.connections().take());
        if let Some(path) = &self.path {
            registry::closed(path);
        }
    }
}

/// Who uses a connection. A caller may leave settings behind, so its connection is not used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    Store,
    Caller,
}

/// A connection in use. Dropped, it is closed, which rolls an open transaction back.
pub(crate) struct Lease {
    // Closed before the instance is given up.
    pub(crate) connection: Connection,
    instance: Arc<Instance>,
}

impl Lease {
    /// Keeps the connection for the store's next statement. It has no open transaction.
    pub(crate) fn give_back(self) {
        let Self {
            connection,
            instance,
        } = self;
        let mut connections = instance.connections();
        if let Some(connections) = connections.as_mut()
            && connections.idle.len() < MAX_IDLE
        {
            connections.idle.push(connection);
        } else {
            drop(connections);
            drop(connection);
        }
    }
}
