//! [`Bare`] and [`Statements`]: what one would write by hand.

use std::sync::Arc;

use async_trait::async_trait;
use idem_core::BoxError;

/// Plain statements on a table of `(id PRIMARY KEY, response)`, through the driver that the store uses, on the server and
/// in the namespace that the store is in.
///
/// They keep no law: whoever inserts first has won, nothing ends, nobody is fenced off.
#[async_trait]
pub trait Bare: Send + Sync + 'static {
    /// Makes the table in a namespace of the harness.
    ///
    /// # Errors
    ///
    /// The driver's.
    async fn create(&self, namespace: &str) -> Result<(), BoxError>;

    /// As people write it: through the driver's pool, with the driver's defaults and as many connections as the store
    /// has. Called once; all callers share what it gives. None where the driver has no pool.
    ///
    /// # Errors
    ///
    /// The driver's.
    async fn pooled(&self, namespace: &str) -> Result<Option<Arc<dyn Statements>>, BoxError>;

    /// At its best: a connection of the tasks' own, shared as [`share`](Self::share) says.
    ///
    /// # Errors
    ///
    /// The driver's.
    async fn held(&self, namespace: &str) -> Result<Arc<dyn Statements>, BoxError>;

    /// What is best.
    fn share(&self) -> Share;
}

/// How connections are held at their best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// One for each of at most so many tasks. More callers than these share the tasks, where more connections would
    /// only be in each other's way: each caller waits longer, and no less is done.
    Each(usize),
    /// One for all.
    One,
}

/// The statements.
#[async_trait]
pub trait Statements: Send + Sync + 'static {
    /// `INSERT … ON CONFLICT DO NOTHING`, without a response.
    ///
    /// # Errors
    ///
    /// The driver's; that the key was not fresh.
    async fn insert(&self, id: &str) -> Result<(), BoxError>;

    /// `UPDATE … SET response = … WHERE id = …`.
    ///
    /// # Errors
    ///
    /// The driver's; that there is no such key.
    async fn update(&self, id: &str, response: &[u8]) -> Result<(), BoxError>;

    /// `SELECT response … WHERE id = …`; its length.
    ///
    /// # Errors
    ///
    /// The driver's; that there is no such key.
    async fn select(&self, id: &str) -> Result<usize, BoxError>;
}

/// Whose connection a bare statement goes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The driver's pool's.
    Pooled,
    /// The caller's.
    Held,
}

impl Way {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Held, Self::Pooled];

    /// What it is called in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pooled => "bare pooled",
            Self::Held => "bare held",
        }
    }
}

/// An error where not exactly one row was met.
pub(crate) fn one_row(rows: u64) -> Result<(), BoxError> {
    match rows {
        1 => Ok(()),
        rows => Err(format!("{rows} rows instead of one").into()),
    }
}
