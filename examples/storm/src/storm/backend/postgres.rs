//! PostgreSQL: records and ledger in a schema for each run.

use idem_core::BoxError;
use idem_postgres::PostgresStore;
use idem_postgres::sqlx::PgConnection;
use idem_stores::{Adapter, ServerUrl};

use super::database::{on_a_server, sql_database};
use super::{Backend, Location};

#[derive(Debug)]
pub(super) struct Postgres {
    adapter: idem_stores::Postgres,
    store: PostgresStore,
    namespace: String,
    ledger: String,
}

impl Postgres {
    pub(super) async fn boxed(location: &Location) -> Result<Box<dyn Backend>, BoxError> {
        let url = ServerUrl::from(&*location.url).with("application_name", "idem-storm");
        let adapter = idem_stores::Postgres::new(url).with_pool(location.connections);
        let namespace = location.namespace.clone();
        Ok(Box::new(Self {
            store: adapter.store(&namespace).await?,
            adapter,
            ledger: format!("{namespace}.ledger"),
            namespace,
        }))
    }
}

on_a_server!(Postgres);
sql_database!(
    Postgres,
    idem_postgres,
    PgConnection,
    "bigint GENERATED ALWAYS AS IDENTITY",
    "text",
    "$1"
);
