//! [`IdempotencyClient`]: the settings of a client.

use std::sync::Arc;

use crate::{IntentKeys, MissingIntent, Protocol, RetryBudget, RetryPolicy};

/// Gives requests an idempotency key by their [`Intent`](crate::Intent), keeps it before the
/// request is sent, and sends again what may be sent again.
///
/// With the feature `reqwest` it is a `reqwest_middleware::Middleware`, with `tower` a layer for
/// clients; [`send`](Self::send) serves any other client. Clones share the keys and the retry budget.
///
/// Put it outside of what adds credentials or signatures, so that each try gets its own, and
/// outside of other retries.
///
/// # Cancellation
///
/// A call may be dropped at any poll. Its request was then sent or not, and takes effect at most
/// once all the same: the next call with the intent sends it under the same key. Without an intent
/// the key is lost with the call.
#[derive(Debug, Clone)]
pub struct IdempotencyClient {
    pub(crate) keys: Arc<dyn IntentKeys>,
    pub(crate) protocol: Arc<Protocol>,
    pub(crate) retry: Arc<RetryPolicy>,
    pub(crate) budget: RetryBudget,
    pub(crate) missing_intent: MissingIntent,
}

impl IdempotencyClient {
    /// Creates a client for servers of this protocol that keeps its keys here.
    #[must_use]
    pub fn new(keys: impl IntentKeys, protocol: Protocol) -> Self {
        Self {
            keys: Arc::new(keys),
            protocol: Arc::new(protocol),
            retry: Arc::default(),
            budget: RetryBudget::default(),
            missing_intent: MissingIntent::default(),
        }
    }

    /// Sets the limits of the tries of one call. Default: 10 tries, 15 s each, a minute together.
    #[must_use]
    pub fn with_retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = Arc::new(policy);
        self
    }

    /// Sets the budget of retries, which other clients of the same server may share. Default: one of
    /// its own; see [`RetryBudget`] for its numbers.
    #[must_use]
    pub fn with_budget(mut self, budget: RetryBudget) -> Self {
        self.budget = budget;
        self
    }

    /// Sets what happens to a request that has no intent. Default: a key for this call only.
    #[must_use]
    pub fn with_missing_intent(mut self, choice: MissingIntent) -> Self {
        self.missing_intent = choice;
        self
    }
}
