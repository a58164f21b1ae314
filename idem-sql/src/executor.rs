//! [`Executor`]: the connection that a statement runs on.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;

use crate::cells::Row;
use crate::parameters::Value;

/// A connection that runs the statements of a store: one of the store's own, or that of a caller's
/// transaction. The transactions of another driver join by an implementation of this trait.
#[async_trait]
pub trait Executor: Debug + Send + Sync {
    /// The driver's error.
    type Error;

    /// Sends the statement, and reads its answer to the end.
    ///
    /// # Errors
    ///
    /// The driver's, and the server's as the driver reports it.
    ///
    /// # Cancellation
    ///
    /// The statement may have had its effect. The connection is in an unknown state.
    async fn run(&mut self, statement: &BoundStatement<'_>) -> Result<Answer, Self::Error>;
}

/// A statement with its values.
#[derive(Debug, Clone)]
pub struct BoundStatement<'v> {
    /// The text, with the driver's placeholders.
    pub text: Arc<str>,
    /// The values, in the order of the placeholders.
    pub values: Vec<Value<'v>>,
    /// Whether the connection keeps the statement prepared.
    pub is_persistent: bool,
}

/// The answer to a statement.
#[derive(Debug, Default)]
pub struct Answer {
    /// All its rows, which are few.
    pub rows: Vec<Row>,
    /// How many rows the statement has written, or its condition has met; 0 where the store's
    /// statements return rows instead.
    pub affected: u64,
    /// The insert id, on servers that return one.
    pub insert_id: u64,
}
