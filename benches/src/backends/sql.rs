//! The common part of SQL's bare statements.

/// The size of a bare pool: the default of sqlx.
pub(super) const POOL: u32 = 10;

/// Returns the script that inserts so many rows into the store's table.
pub(super) fn fill(script: &str, rows: u64, ends_in: i64) -> String {
    script
        .replace("{rows}", &rows.to_string())
        .replace("{ends}", &ends_in.to_string())
}

/// Makes a type of bare statements: the constants `INSERT`, `UPDATE` and `SELECT`, which differ in
/// their text, on `$connection`: a pool, or a connection. Parameters of `UPDATE` are response and
/// id.
macro_rules! statements {
    ($type:ident($inner:ty), $self:ident => $connection:expr) => {
        struct $type($inner);

        #[async_trait]
        impl Statements for $type {
            async fn insert(&$self, id: &str) -> Result<(), BoxError> {
                let insert = sqlx::query(INSERT).bind(id);
                one_row(insert.execute($connection).await?.rows_affected())
            }

            async fn update(&$self, id: &str, response: &[u8]) -> Result<(), BoxError> {
                let update = sqlx::query(UPDATE).bind(response).bind(id);
                one_row(update.execute($connection).await?.rows_affected())
            }

            async fn select(&$self, id: &str) -> Result<usize, BoxError> {
                let select = sqlx::query(SELECT).bind(id);
                let row = select.fetch_one($connection).await?;
                Ok(row.try_get::<&[u8], _>(0)?.len())
            }
        }
    };
}

/// How many connections each of the services that take payments has.
pub(super) const PAYING: u32 = 16;

/// The names of those services: by `run_in`, by hand, without a record.
pub(super) const PAYERS: [&str; 3] = ["idem", "by hand", "the work alone"];

/// Makes the services that take payments. The constant `PAY` inserts a payment; `$begin` begins a
/// transaction on `$pool`.
macro_rules! payments {
    ($pool:ident: $Pool:ty, $transactions:ty => $begin:expr) => {
        struct ByRunIn {
            idempotency: idem_core::Idempotency,
            transactions: $transactions,
        }

        #[async_trait]
        impl crate::backend::Pay for ByRunIn {
            async fn pay(&self, id: &str) -> Result<(), BoxError> {
                let key = crate::ids::key(id);
                let run = self.idempotency.run_in(
                    &self.transactions,
                    &key,
                    &("EUR", 1250),
                    async |mut tx, _| {
                        let paid = sqlx::query(PAY).bind(id).execute(&mut **tx).await?;
                        one_row(paid.rows_affected())?;
                        Ok(crate::ids::RECEIPT.to_owned())
                    },
                );
                let run = run.await;
                run.map(drop).map_err(|error| format!("{error:?}").into())
            }
        }

        /// With a key, or without.
        struct ByHand($Pool, bool);

        #[async_trait]
        impl crate::backend::Pay for ByHand {
            async fn pay(&self, id: &str) -> Result<(), BoxError> {
                let $pool = &self.0;
                let mut transaction = $begin.await?;
                if self.1 {
                    let insert = sqlx::query(INSERT).bind(id);
                    one_row(insert.execute(&mut *transaction).await?.rows_affected())?;
                }
                let paid = sqlx::query(PAY).bind(id).execute(&mut *transaction).await?;
                one_row(paid.rows_affected())?;
                if self.1 {
                    let receipt = crate::ids::RECEIPT.to_owned();
                    let update = sqlx::query(UPDATE).bind(receipt.as_bytes()).bind(id);
                    one_row(update.execute(&mut *transaction).await?.rows_affected())?;
                }
                Ok(transaction.commit().await?)
            }
        }
    };
}

pub(super) use payments;
pub(super) use statements;
