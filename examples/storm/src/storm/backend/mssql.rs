//! SQL Server and compatible servers: records and ledger in a schema for each run.

use idem_core::BoxError;
use idem_mssql::tiberius::{Query, Row};
use idem_mssql::{Config, Manager, MssqlStore, Pool, Transaction, Transactions};

use super::database::transactional;
use super::{Backend, Entry, Location};

#[derive(Debug)]
pub(super) struct Mssql {
    store: MssqlStore,
    schema: String,
}

impl Mssql {
    pub(super) fn boxed(location: &Location) -> Result<Box<dyn Backend>, BoxError> {
        let pool = Pool::builder(Manager::from_url(&location.url)?)
            .max_size(location.connections as usize)
            .build()?;
        let schema = location.namespace.clone();
        let config = Config::new().with_schema(&schema)?;
        let store = MssqlStore::with_config(pool, config);
        Ok(Box::new(Self { store, schema }))
    }

    fn transactions(&self) -> Transactions {
        Transactions::new(&self.store)
    }

    async fn run(&self, sql: &str) -> Result<Vec<Row>, BoxError> {
        let mut connection = self.store.pool().get().await?;
        let results = connection.run_script(sql).await?;
        Ok(results.into_iter().flatten().collect())
    }

    async fn product(&self) -> Result<String, BoxError> {
        let rows = self.run("SELECT @@VERSION;").await?;
        // `Microsoft SQL Server 2022 (RTM) - 16.0.1000.6 (X64) …`, and more lines.
        let line = rows
            .first()
            .and_then(text)
            .and_then(|text| text.lines().next());
        Ok(line.unwrap_or_default().trim().to_owned())
    }

    async fn create_ledger(&self) -> Result<(), BoxError> {
        let columns = "n bigint IDENTITY PRIMARY KEY, entry nvarchar(max) NOT NULL";
        let create = format!("CREATE TABLE [{}].[ledger] ({columns});", self.schema);
        self.run(&create).await?;
        Ok(())
    }

    async fn remove_all(&self) -> Result<(), BoxError> {
        let schema = &self.schema;
        let tables = [
            "ledger",
            "idem_records",
            "idem_records_watermarks",
            "idem_records_version",
        ];
        let drop = tables.map(|table| format!("DROP TABLE IF EXISTS [{schema}].[{table}];\n"));
        self.run(&format!(
            "SET LOCK_TIMEOUT 20000;\n{}DROP SCHEMA IF EXISTS [{schema}];",
            drop.concat()
        ))
        .await?;
        self.store.pool().close();
        Ok(())
    }

    async fn insert(&self, transaction: &mut Transaction, entry: &Entry) -> Result<(), BoxError> {
        let schema = &self.schema;
        let insert = format!("INSERT INTO [{schema}].[ledger] (entry) VALUES (@P1);");
        let mut query = Query::new(insert);
        query.bind(entry.receipt());
        query.execute(transaction).await?;
        Ok(())
    }

    async fn entries(&self) -> Result<Vec<Entry>, BoxError> {
        let select = format!("SELECT entry FROM [{}].[ledger] ORDER BY n;", self.schema);
        let rows = self.run(&select).await?;
        let entry = |row| Entry::read(text(row).unwrap_or_default().as_bytes());
        rows.iter().map(entry).collect()
    }
}

/// Returns the text in a row's only column.
fn text(row: &Row) -> Option<&str> {
    row.get(0)
}

transactional!(Mssql);
