//! [`Executor`]: the connection that a statement runs on.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use idem_core::Error;

use crate::cells::Row;
use crate::parameters::{Parameter, Placeholder, Value, Values, compile};

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

/// One statement of a store: its text with the driver's placeholders, and its parameters in their
/// order. Only validated names, of the tables, were put into it.
#[derive(Debug, Clone)]
pub struct Statement {
    text: Arc<str>,
    parameters: Vec<Parameter>,
}

impl Statement {
    /// Creates the statement from its template.
    #[must_use]
    pub fn new(template: &str, placeholder: Placeholder) -> Self {
        let (text, parameters) = compile(template, placeholder);
        let text = text.into();
        Self { text, parameters }
    }

    /// Returns the text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the statement with its values.
    ///
    /// # Errors
    ///
    /// `Other` where a value is missing, which is a mistake of the backend's.
    pub fn with<'v>(&self, values: &'v Values<'_>) -> Result<BoundStatement<'v>, Error> {
        Ok(self.bound(values.of(&self.parameters)?))
    }

    /// Returns the statement with these values.
    #[must_use]
    pub fn bound<'v>(&self, values: Vec<Value<'v>>) -> BoundStatement<'v> {
        BoundStatement {
            text: Arc::clone(&self.text),
            values,
            is_persistent: true,
        }
    }
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
