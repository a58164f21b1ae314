//! [`Opener`]: makes connections.

use std::fmt;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};

use sqlx::{Connection, Database};

type OptionsOf<DB> = <<DB as Database>::Connection as Connection>::Options;

type SetUp<DB> = dyn for<'c> Fn(&'c mut <DB as Database>::Connection) -> Ready<'c> + Send + Sync;

/// The future of a new connection's set-up.
pub type Ready<'c> = Pin<Box<dyn Future<Output = Result<(), sqlx::Error>> + Send + 'c>>;

/// Opens the connections of a store.
pub struct Opener<DB: Database> {
    options: OptionsOf<DB>,
    first: Mutex<Option<OptionsOf<DB>>>,
    set_up: Option<Box<SetUp<DB>>>,
}

impl<DB: Database> Opener<DB> {
    /// Creates an opener of connections with these options.
    #[must_use]
    pub fn new(options: OptionsOf<DB>) -> Self {
        Self {
            options,
            first: Mutex::new(None),
            set_up: None,
        }
    }

    /// Sets other options for the first connection. Default: none.
    #[must_use]
    pub fn with_first(self, options: OptionsOf<DB>) -> Self {
        let first = Mutex::new(Some(options));
        Self { first, ..self }
    }

    /// Opens a connection, and sets it up.
    pub(super) async fn open(&self) -> Result<DB::Connection, sqlx::Error> {
        let first = self.first.lock();
        let first = first.unwrap_or_else(PoisonError::into_inner).take();
        let options = first.as_ref().unwrap_or(&self.options);
        let mut connection = DB::Connection::connect_with(options).await?;
        if let Some(set_up) = &self.set_up {
            set_up(&mut connection).await?;
        }
        Ok(connection)
    }

    /// Sets what is done on each new connection before it is used. Default: nothing.
    #[must_use]
    pub fn with_set_up(
        self,
        set_up: impl for<'c> Fn(&'c mut DB::Connection) -> Ready<'c> + Send + Sync + 'static,
    ) -> Self {
        let set_up = Some(Box::new(set_up) as Box<SetUp<DB>>);
        Self { set_up, ..self }
    }
}

/// Shows no options: they hold the password.
impl<DB: Database> fmt::Debug for Opener<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opener").finish_non_exhaustive()
    }
}
