//! [`Window`]: where nonces are enforced.

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use idem_core::{
    BusyPolicy, Fingerprint, Idempotency, Key, Nonce, Outcome, Policy, RunError, Work,
};
use idem_redis::{Enforce, NonceWindow};

use crate::refusal::Refusal;

/// The operation of the nonces' keys.
const OPERATION: &str = "chat.post";

/// Redis's own nonce window, or records in any store, which do the same.
pub(crate) enum Window {
    /// Two small commands for each message.
    Redis(NonceWindow),
    /// A record for each message.
    Store(Idempotency),
}

/// The id of a message, and whether it was posted before.
pub(crate) struct Posted {
    pub(crate) id: String,
    pub(crate) is_duplicate: bool,
}

impl Window {
    /// Uses records in the store of this engine, kept for `window`; a duplicate waits for `wait`.
    pub(crate) fn in_store(idempotency: Idempotency, window: Duration, wait: Duration) -> Self {
        let policy = Policy::default()
            .with_lease(Duration::from_secs(10).min(window))
            .with_retention(window)
            .with_failure_retention(window)
            .with_on_busy(BusyPolicy::wait(wait));
        Self::Store(idempotency.with_operation_policy(OPERATION, policy))
    }

    /// Posts, except when this author has posted under this nonce. It runs to its end even if no
    /// caller waits for the answer.
    pub(crate) async fn post<F, Fut>(
        &self,
        author: &str,
        nonce: Option<&Nonce>,
        enforce: Enforce,
        post: F,
    ) -> Result<Posted, Refusal>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = String> + Send + 'static,
    {
        match (self, nonce) {
            (Self::Redis(window), _) => {
                let post = move || async move { Ok(post().await) };
                let posted = window.post(author, nonce, enforce, post).await?;
                Ok(Posted {
                    id: posted.id().to_owned(),
                    is_duplicate: matches!(posted, idem_redis::Posted::Before(_)),
                })
            }
            (Self::Store(idempotency), Some(nonce)) if enforce == Enforce::Yes => {
                let key = Key::from_nonce(author, OPERATION, nonce).map_err(Refusal::of_store)?;
                let idempotency = idempotency.clone();
                let run = async move {
                    // The text is not compared: the first message with the nonce counts.
                    let fingerprint = Fingerprint::raw(OPERATION);
                    let work = async |_: Work| Ok::<_, Infallible>(post().await);
                    idempotency.run_with(&key, fingerprint, work).await
                };
                returned(tokio::spawn(run).await.map_err(Refusal::of_store)?)
            }
            (Self::Store(_), _) => Ok(Posted {
                id: tokio::spawn(post()).await.map_err(Refusal::of_store)?,
                is_duplicate: false,
            }),
        }
    }
}

fn returned(ran: Result<Outcome<String>, RunError<Infallible, String>>) -> Result<Posted, Refusal> {
    match ran {
        Ok(outcome) => Ok(Posted {
            is_duplicate: outcome.is_replayed(),
            id: outcome.into_inner(),
        }),
        Err(RunError::InFlight(_)) => Err(Refusal::pending()),
        Err(error) => Err(Refusal::of_store(error)),
    }
}
