//! The statements of SQL servers, which differ in their text.

/// Runs the constants `INSERT`, `UPDATE` and `SELECT` on `$connection`: a pool, or a connection.
/// Parameters of `UPDATE` are id and response, or the reverse.
macro_rules! statements {
    ($type:ident, $self:ident => $connection:expr) => {
        statements!(@ $type, $self => $connection, (id, response) => (id, response));
    };
    ($type:ident, $self:ident => $connection:expr, response first) => {
        statements!(@ $type, $self => $connection, (id, response) => (response, id));
    };
    (@ $type:ident, $self:ident => $connection:expr, ($id:ident, $response:ident) => ($first:ident, $second:ident)) => {
        #[async_trait]
        impl Statements for $type {
            async fn insert(&$self, id: &str) -> Result<(), BoxError> {
                let insert = sqlx::query(INSERT).bind(id);
                one_row(insert.execute($connection).await?.rows_affected())
            }

            async fn update(&$self, $id: &str, $response: &[u8]) -> Result<(), BoxError> {
                let update = sqlx::query(UPDATE).bind($first).bind($second);
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

pub(crate) use statements;
