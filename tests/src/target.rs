//! [`Target`]: a backend that a test program tests.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::{Case, Harness, Promise};

/// One line: why a backend cannot be tested here, and how to change that.
#[derive(Debug, Clone)]
pub struct Missing(String);

impl Missing {
    /// Creates a reason, such as ``no server: run `cargo xtask servers up postgres` or set
    /// IDEM_POSTGRES_URL``.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub(crate) type Found = Result<Arc<dyn Harness>, Missing>;

type Factory = Box<dyn Fn() -> Pin<Box<dyn Future<Output = Found> + Send>> + Send + Sync>;

/// A backend by name, and how to find it. Each process searches once, on a runtime that lives as
/// long as the process.
pub struct Target {
    name: String,
    factory: Factory,
    pub(crate) own_cases: &'static [Case],
    pub(crate) only: Option<Promise>,
    pub(crate) is_derived: bool,
}

impl Target {
    /// Creates a target. `factory` returns the harness, or what is missing.
    pub fn new<H, F, Fut>(name: impl Into<String>, factory: F) -> Self
    where
        H: Harness,
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<H, Missing>> + Send + 'static,
    {
        let factory = move || {
            let found = factory();
            let found = async move { Ok(Arc::new(found.await?) as Arc<dyn Harness>) };
            Box::pin(found) as Pin<Box<dyn Future<Output = Found> + Send>>
        };
        Self {
            name: name.into(),
            factory: Box::new(factory),
            own_cases: &[],
            only: None,
            is_derived: false,
        }
    }

    /// Adds cases for this backend only, which run beside those of the suite.
    #[must_use]
    pub fn with_cases(mut self, cases: &'static [Case]) -> Self {
        self.own_cases = cases;
        self
    }

    /// Runs only those cases of the suite that need this promise, for a target whose other cases
    /// another target runs. Default: all cases.
    #[must_use]
    pub fn with_only(mut self, promise: Promise) -> Self {
        self.only = Some(promise);
        self
    }

    /// Marks a target that differs from another one only in what is around the store, such as a
    /// wrapper, a driver or settings. It runs where `IDEM_ALL` is set or `IDEM_BACKENDS` names it.
    #[must_use]
    pub fn derived(mut self) -> Self {
        self.is_derived = true;
        self
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) async fn find(&self) -> Found {
        (self.factory)().await
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
