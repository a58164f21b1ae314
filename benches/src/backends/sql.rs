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

pub(super) use statements;
