//! [`Counted`]: a contender that stops after a number of operations.

use async_trait::async_trait;
use idem_core::BoxError;

use crate::{Contender, Round};

/// A contender that can be told how many operations to do, as criterion does.
#[async_trait]
pub trait Counted: Contender {
    /// Lets the callers do `count` operations in all.
    ///
    /// # Errors
    ///
    /// As of [`round`](Contender::round).
    async fn count(&self, callers: usize, count: u64) -> Result<Round, BoxError>;
}
