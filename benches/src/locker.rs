//! [`Locker`]: a caller's transaction that stays open.

use async_trait::async_trait;
use idem_core::{BoxError, ClaimOutcome, ClaimRequest};

/// An open transaction, which its drop rolls back.
pub type OpenTransaction = Box<dyn Send>;

/// A way to keep a key locked, for a backend with transactions.
#[async_trait]
pub trait Locker: Send + Sync {
    /// Claims the key in a caller's transaction, which stays open.
    async fn lock(
        &self,
        namespace: &str,
        request: &ClaimRequest,
    ) -> Result<OpenTransaction, BoxError>;
}

/// The transaction, in which the claim has to have been acquired.
pub(crate) fn holding(
    transaction: impl Send + 'static,
    outcome: &ClaimOutcome,
) -> Result<OpenTransaction, BoxError> {
    match outcome {
        ClaimOutcome::Acquired(_) => Ok(Box::new(transaction)),
        other => Err(format!("the claim to hold was answered {}", other.name()).into()),
    }
}
