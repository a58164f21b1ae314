//! [`Receiver`]: from a delivery to its answer.

use std::fmt::{self, Display};
use std::future::Future;
use std::sync::Arc;

use http::HeaderMap;
use idem_core::{Advance, Bytes, Idempotency, IdempotencyStore, Key, Response, Result, Work};

use crate::run::{Broken, StoredResult, advance, no_watermarks};
use crate::{Answer, Event, Rejection, Verifier, Version, policy, schemes};

type Versions = dyn Fn(&Event) -> Option<Version> + Send + Sync;

/// Handles each event of one endpoint once, however often, in whatever order and by however many
/// processes its deliveries are received.
///
/// # What happens to a delivery
///
/// 1. The receiver verifies the signature; before that it does not parse the body, and stores
///    nothing.
/// 2. It identifies the event. The key is `(scope, "webhook.<provider>", id)`.
/// 3. It claims the key; a duplicate gets the answer of the first delivery.
/// 4. Under the claim, it raises the source's watermark to the event's version. An older event ends
///    here, recorded as refused.
/// 5. The handler runs.
/// 6. The store records the outcome, and only then the answer is a 2xx.
///
/// # If it ends in between
///
/// | killed, or its answer lost | the next delivery of the event |
/// | --- | --- |
/// | before 3 | is the first |
/// | after 3 or 4 | is answered 409 until the lease ends, then handled: the mark is at this version, not above |
/// | in 5 | the same: the handler runs again, with [`Work::is_takeover`] true |
/// | after 6 | is a duplicate, answered 200 |
///
/// The receiver raises the mark before the handler runs, because otherwise an older event could
/// arrive in between and be handled. The price: if the newer event's handler fails, an older event
/// is refused meanwhile, and its content arrives only when the provider sends the newer one again.
/// That is right for events that carry a whole state. Give no version to events that carry a
/// change.
///
/// The mark decides which event *begins*. A handler that was paused after that, for longer than a
/// newer event takes, still writes last. If it must not overwrite newer data, store
/// [`Event::version`] with the data and refuse a smaller one (`WHERE version <= …`), or commit the
/// write and the claim together.
///
/// # Cancellation
///
/// Dropping the future at any poll, as a server does when its client hangs up, drops the handler,
/// and releases the event or does what the policy says. Providers hang up after a few seconds
/// (Slack 3, Shopify 5, GitHub 10): spawn the call if the handler takes longer.
#[derive(Clone)]
pub struct Receiver {
    idempotency: Idempotency,
    verifier: Verifier,
    scope: String,
    versions: Option<Arc<Versions>>,
}

impl Receiver {
    /// Creates a receiver that records events in this store, with [`policy`]. `scope` names the
    /// endpoint or the account that it belongs to. Two receivers that may see the same ids, such as
    /// test and live mode, need different scopes.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](idem_core::ErrorKind::InvalidInput) when the scope is not valid in a
    /// [`Key`].
    pub fn new(
        store: impl IdempotencyStore,
        verifier: Verifier,
        scope: impl Into<String>,
    ) -> Result<Self> {
        let scope = scope.into();
        Key::new(&scope, verifier.provider().operation(), "-")?;
        Ok(Self {
            idempotency: Idempotency::new(store).with_policy(policy()),
            verifier,
            scope,
            versions: None,
        })
    }

    /// Replaces the engine and its policies, including [`policy`]. With a retention shorter than
    /// the provider's retries, an event may be handled twice.
    #[must_use]
    pub fn with_idempotency(mut self, idempotency: Idempotency) -> Self {
        self.idempotency = idempotency;
        self
    }

    /// Refuses events that arrive out of order: `version` returns the source and version of an
    /// event. Events for which it returns `None` are handled in any order. The receiver calls it
    /// after it has verified the signature.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](idem_core::ErrorKind::Misconfigured) when the store keeps no watermarks.
    pub fn with_versions(
        mut self,
        version: impl Fn(&Event) -> Option<Version> + Send + Sync + 'static,
    ) -> Result<Self> {
        if self.idempotency.store().watermarks().is_none() {
            return Err(no_watermarks());
        }
        self.versions = Some(Arc::new(version));
        Ok(self)
    }

    /// Returns the key of an event's record.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](idem_core::ErrorKind::InvalidInput) when the id is not valid in a [`Key`].
    pub fn key(&self, event_id: &str) -> Result<Key> {
        Key::new(&self.scope, self.verifier.provider().operation(), event_id)
    }

    /// Returns the key of a source's watermark.
    ///
    /// # Errors
    ///
    /// None with the scope that this receiver has.
    pub fn source_key(&self, source: &str) -> Result<Key> {
        Key::from_parts(&self.scope, self.verifier.provider().operation(), [source])
    }

    /// Returns the result that completes a handled event, for a handler that commits its rows and
    /// the claim ([`Work::claim`]) in one transaction. Only such a transaction makes the effect
    /// happen exactly once. The receiver's own completion with the same result then changes
    /// nothing.
    ///
    /// # Errors
    ///
    /// None: the result is always valid JSON.
    pub fn handled() -> Result<Response> {
        Response::json(&StoredResult::Handled)
    }

    /// Receives one delivery, with `body` as it was sent, byte for byte.
    ///
    /// An error of the handler is answered with 500 and, by default, releases the event.
    /// [`Answer::Error`] carries it, for logs. If a retry can never succeed, do not return an
    /// error: log it and return `Ok`.
    ///
    /// # Panics
    ///
    /// Panics when the handler panics, after following the policy.
    pub async fn receive<E, F, Fut>(
        &self,
        headers: &HeaderMap,
        body: Bytes,
        handler: F,
    ) -> Answer<E>
    where
        E: Display + Send,
        F: FnOnce(Event, Work) -> Fut + Send,
        Fut: Future<Output = Result<(), E>> + Send,
    {
        if let Err(rejection) = self.verifier.verify(headers, &body) {
            return Answer::Rejected(rejection);
        }
        let is_slack = self.verifier.provider() == crate::Provider::Slack;
        if let Some(challenge) = is_slack.then(|| schemes::challenge(&body)).flatten() {
            return Answer::Challenge(challenge);
        }
        let (key, event) = match self.identify(headers, body) {
            Ok(identified) => identified,
            Err(rejection) => return Answer::Rejected(rejection),
        };
        let fingerprint = event.fingerprint;
        let handle = |work: Work| self.handle(event, work, handler);
        let run = self.idempotency.run_with(&key, fingerprint, handle);
        Answer::of(Box::pin(run).await)
    }

    fn identify(&self, headers: &HeaderMap, body: Bytes) -> Result<(Key, Event), Rejection> {
        let provider = self.verifier.provider();
        let identity = schemes::identity(provider, headers, &body)?;
        let key = self.key(&identity.id).map_err(|_| Rejection::NoId)?;
        let mut event = Event {
            provider,
            id: identity.id,
            topic: identity.topic,
            body,
            fingerprint: identity.fingerprint,
            version: None,
        };
        event.version = self.versions.as_ref().and_then(|version| version(&event));
        Ok((key, event))
    }

    /// Runs under the claim.
    async fn handle<E, F, Fut>(
        &self,
        event: Event,
        work: Work,
        handler: F,
    ) -> Result<StoredResult, Broken<E>>
    where
        E: Send,
        F: FnOnce(Event, Work) -> Fut + Send,
        Fut: Future<Output = Result<(), E>> + Send,
    {
        if let Some(version) = event.version() {
            let policy = self.idempotency.policy_for(work.key());
            let source = self.source_key(version.source()).map_err(Broken::Mark)?;
            let raised = advance(&self.idempotency, &policy, &source, version.number()).await;
            if let Advance::Stale { current } = raised.map_err(Broken::Mark)? {
                return Ok(StoredResult::Stale { current });
            }
        }
        handler(event, work).await.map_err(Broken::Handler)?;
        Ok(StoredResult::Handled)
    }
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("verifier", &self.verifier)
            .field("idempotency", &self.idempotency)
            .field("versions", &self.versions.is_some())
            .finish_non_exhaustive()
    }
}
