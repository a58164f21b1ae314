//! [`Window`]: where nonces are enforced.

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use idem_core::{
    BoxError, BusyPolicy, Fingerprint, Idempotency, Key, Nonce, Policy, RunError, Work,
};
use idem_redis::{Config, Enforce, NonceWindow, Posted, RedisStore};
use idem_storm::effects::Effects;

use crate::Args;
use crate::http::Refusal;

/// The operation of the nonces' keys.
const OPERATION: &str = "chat.post";

/// Redis's own nonce window, or records in any store, which do the same.
pub(crate) enum Window {
    /// Two small commands for each message.
    Redis(NonceWindow),
    /// A record for each message.
    Store(Idempotency),
}

impl Window {
    /// Opens the nonces at this URL. Redis has its own window; a Redis cluster and all other stores
    /// keep a record for each nonce.
    pub(crate) async fn open(url: &str, args: &Args) -> Result<Self, BoxError> {
        let is_redis = url.starts_with("redis") || url.starts_with("valkey");
        if is_redis && !url.contains(',') {
            let config = Config::new().with_namespace(args.namespace.clone())?;
            let store = RedisStore::connect(url, config).await?;
            let window = NonceWindow::new(store).with_window(args.window);
            return Ok(Self::Redis(window.with_wait(args.wait)));
        }
        let policy = Policy::default()
            .with_lease(Duration::from_secs(10).min(args.window))
            .with_retention(args.window)
            .with_failure_retention(args.window)
            .with_on_busy(BusyPolicy::wait(args.wait));
        let store = Effects::open(url, &args.namespace).await?.store();
        let idempotency = Idempotency::new(store);
        Ok(Self::Store(
            idempotency.with_operation_policy(OPERATION, policy),
        ))
    }

    /// Posts, except when this author has posted under this nonce. It runs to its end even if no
    /// caller waits for the answer. Returns the message's id, and whether it was posted before.
    pub(crate) async fn post(
        &self,
        author: &str,
        nonce: Option<&Nonce>,
        enforce: Enforce,
        post: impl Future<Output = String> + Send + 'static,
    ) -> Result<(String, bool), Refusal> {
        match (self, nonce) {
            (Self::Redis(window), _) => {
                let post = move || async move { Ok(post.await) };
                let posted = window.post(author, nonce, enforce, post).await?;
                Ok((posted.id().to_owned(), matches!(posted, Posted::Before(_))))
            }
            (Self::Store(idempotency), Some(nonce)) if enforce == Enforce::Yes => {
                let key = Key::from_nonce(author, OPERATION, nonce).map_err(Refusal::of_store)?;
                let idempotency = idempotency.clone();
                let run = async move {
                    // The text is not compared: the first message with the nonce counts.
                    let fingerprint = Fingerprint::raw(OPERATION);
                    let work = async |_: Work| Ok::<_, Infallible>(post.await);
                    idempotency.run_with(&key, fingerprint, work).await
                };
                match tokio::spawn(run).await.map_err(Refusal::of_store)? {
                    Ok(outcome) => {
                        let is_duplicate = outcome.is_replayed();
                        Ok((outcome.into_inner(), is_duplicate))
                    }
                    Err(RunError::InFlight(_)) => Err(Refusal::pending()),
                    Err(error) => Err(Refusal::of_store(error)),
                }
            }
            (Self::Store(_), _) => {
                let posted = tokio::spawn(post).await;
                Ok((posted.map_err(Refusal::of_store)?, false))
            }
        }
    }
}
