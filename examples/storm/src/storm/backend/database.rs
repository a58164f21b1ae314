//! Records and ledger in one database, whose transactions hold both.

/// Implements [`Backend`](super::Backend) for a database.
///
/// It has a field `store` and these methods of its own: `transactions`; `product`; `create_ledger`;
/// `remove_all`, which also closes the store; `insert`, which writes an effect in a transaction;
/// and `entries`, which returns all effects in the order in which they were written.
macro_rules! transactional {
    ($database:ty) => {
        const _: () = {
            use std::sync::Arc;

            use idem_core::{BoxError, ErrorKind, IdempotencyStore, Response};

            use $crate::storm::backend::{Backend, Entry, RETENTION, Settlement};
            use $crate::storm::protocol::Point;

            impl $database {
                /// Writes the effect in a transaction, which also completes the settlement's claim.
                async fn write(
                    &self,
                    entry: &Entry,
                    settlement: Option<&Settlement>,
                ) -> Result<(), BoxError> {
                    let mut attempts = self.transactions().attempts();
                    loop {
                        let mut transaction = attempts.begin().await?;
                        let writes = async {
                            self.insert(&mut transaction, entry).await?;
                            if let Some(settled) = settlement {
                                let (claim, response) = (&settled.claim, &settled.response);
                                self.store
                                    .complete_in(&mut transaction, claim, response, RETENTION)
                                    .await?;
                                settled.probe.pass(Point::Uncommitted).await;
                            }
                            Ok::<_, BoxError>(())
                        };
                        let written = writes.await;
                        if let Some(result) = attempts.finish(transaction, written).await {
                            return result;
                        }
                    }
                }
            }

            #[async_trait::async_trait]
            impl Backend for $database {
                fn store(&self) -> Arc<dyn IdempotencyStore> {
                    Arc::new(self.store.clone())
                }

                async fn product(&self) -> Result<String, BoxError> {
                    Self::product(self).await
                }

                async fn create(&self) -> Result<(), BoxError> {
                    // Migrations of other runs may be under way.
                    while let Err(error) = self.store.migrate().await {
                        if error.kind() != ErrorKind::Contention {
                            return Err(error.into());
                        }
                    }
                    self.create_ledger().await
                }

                async fn remove(&self) -> Result<(), BoxError> {
                    self.remove_all().await
                }

                async fn settle(&self, settlement: &Settlement) -> Result<Response, BoxError> {
                    self.write(&settlement.entry, Some(settlement)).await?;
                    Ok(settlement.response.clone())
                }

                async fn append(&self, entry: &Entry) -> Result<(), BoxError> {
                    self.write(entry, None).await
                }

                async fn ledger(&self) -> Result<Vec<Entry>, BoxError> {
                    self.entries().await
                }
            }
        };
    };
}

/// Implements what a backend asks of its server, by its `adapter`; it has a field `namespace`.
#[cfg(any(feature = "mysql", feature = "postgres"))]
macro_rules! on_a_server {
    ($database:ty) => {
        impl $database {
            async fn product(&self) -> Result<String, BoxError> {
                super::named(&self.adapter).await
            }

            async fn remove_all(&self) -> Result<(), BoxError> {
                self.adapter.destroy(&self.namespace).await?;
                self.store.pool().close().await;
                Ok(())
            }
        }
    };
}

/// Implements [`Backend`](super::Backend) for a database that sqlx reaches, with the types of the
/// ledger's columns and the sign of a statement's parameter.
///
/// It has the fields `store` and `ledger`, the name of the table, and the methods `product` and
/// `remove_all`. The column `n` keeps the order, and `entry` holds an effect as JSON. No constraint
/// makes effects unique: a second one has to be visible, not refused.
macro_rules! sql_database {
    (
        $database:ty,
        $driver:ident,
        $connection:ty,
        $number:literal,
        $text:literal,
        $sign:literal
    ) => {
        $crate::storm::backend::database::transactional!($database);

        const _: () = {
            use idem_core::BoxError;
            use $driver::Transactions;
            use $driver::sqlx::{AssertSqlSafe, query, query_scalar, raw_sql};

            use $crate::storm::backend::Entry;

            impl $database {
                fn transactions(&self) -> Transactions {
                    Transactions::new(&self.store)
                }

                async fn run(&self, sql: String) -> Result<(), BoxError> {
                    let script = raw_sql(AssertSqlSafe(sql));
                    script.execute(self.store.pool()).await?;
                    Ok(())
                }

                async fn create_ledger(&self) -> Result<(), BoxError> {
                    let columns =
                        concat!("n ", $number, " PRIMARY KEY, entry ", $text, " NOT NULL");
                    let ledger = &self.ledger;
                    self.run(format!("CREATE TABLE IF NOT EXISTS {ledger} ({columns})"))
                        .await
                }

                async fn insert(
                    &self,
                    connection: &mut $connection,
                    entry: &Entry,
                ) -> Result<(), BoxError> {
                    let sql = format!("INSERT INTO {} (entry) VALUES ({})", self.ledger, $sign);
                    let insert = query(AssertSqlSafe(sql)).bind(entry.receipt());
                    insert.execute(connection).await?;
                    Ok(())
                }

                async fn entries(&self) -> Result<Vec<Entry>, BoxError> {
                    let sql = format!("SELECT entry FROM {} ORDER BY n", self.ledger);
                    let select = query_scalar(AssertSqlSafe(sql));
                    let rows: Vec<String> = select.fetch_all(self.store.pool()).await?;
                    rows.iter().map(|row| Entry::read(row.as_bytes())).collect()
                }
            }
        };
    };
}

#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(super) use on_a_server;
pub(super) use sql_database;
pub(super) use transactional;
