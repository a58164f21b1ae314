//! PostgreSQL: records and ledger in a schema for each run.

use idem_core::BoxError;
use idem_postgres::PostgresStore;
use idem_postgres::sqlx::{Connection, PgConnection};
use idem_stores::{Adapter, ServerUrl};

use super::Location;
use super::database::sql_database;
use super::server::reach;
use crate::storm::stop::{OrStop, Stop};

#[derive(Debug)]
pub(super) struct Postgres {
    adapter: idem_stores::Postgres,
    store: PostgresStore,
    schema: String,
    ledger: String,
}

impl Postgres {
    pub(super) async fn open(location: &Location) -> Result<Self, Stop> {
        let url = ServerUrl::from(&*location.url).with("application_name", "idem-storm");
        let adapter = idem_stores::Postgres::new(url).with_pool(location.connections);
        let options = adapter
            .options()
            .or_stop("--store: the URL cannot be read")?;
        let (host, port) = (options.get_host(), options.get_port());
        let connect = async { Ok::<_, BoxError>(adapter.connect().await?.close().await?) };
        let server = format!("PostgreSQL at {host}:{port}");
        reach(&server, "role, password and database", connect).await?;
        let schema = location.namespace.clone();
        Ok(Self {
            store: adapter.store(&schema).await.or_stop("--store")?,
            adapter,
            ledger: format!("{schema}.ledger"),
            schema,
        })
    }

    async fn product(&self) -> Result<String, BoxError> {
        let (product, version) = self.adapter.product().await?;
        Ok(format!("{product} {version}"))
    }

    async fn remove_all(&self) -> Result<(), BoxError> {
        self.adapter.destroy(&self.schema).await?;
        self.store.pool().close().await;
        Ok(())
    }
}

sql_database!(
    Postgres,
    idem_postgres,
    PgConnection,
    "bigint GENERATED ALWAYS AS IDENTITY",
    "text",
    "$1"
);
