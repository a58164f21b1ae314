//! [`Receiver`]: from a delivery to its answer.

use std::fmt::{self, Display};
use std::future::Future;
use std::sync::Arc;

use http::HeaderMap;
use idem_core::{Advance, Bytes, Idempotency, IdempotencyStore, Key, Response, Result, Work};

use crate::run::{Broken, StoredResult, advance, no_watermarks};
use crate::{Answer, Event, Rejection, Verifier, Version, policy, schemes};

type Versions = dyn Fn(&Event) -> Option<Version> + Send + Sync;

/// Handles each event of one endpoint once, however often, in whatever order and by how many
/// processes its deliveries are received.
///
/// # What happens to a delivery
///
/// 1. The signature is verified; until then nothing of the body is looked at, and nothing is
///    stored.
/// 2. The event is identified. Its key is `(scope, "webhook.<provider>", id)`.
/// 3. The key is claimed; a duplicate gets the answer of the first delivery.
/// 4. Under the claim, the source's watermark is raised to the event's version. An older event ends
///    here: it is sealed as refused.
/// 5. The handler runs.
/// 6. The outcome is sealed, and only then the answer is a 2xx.
///
/// # If it ends in between
///
/// | killed, or its answer lost | the next delivery of the event |
/// | --- | --- |
/// | before 3 | is the first |
/// | after 3 or 4 | is told to come again until the lease ends; then it is handled: the mark is at this version, not above |
/// | in 5 | the same: the handler runs again, and [`Work::is_takeover`] says so |
/// | after 6 | is a duplicate, answered 200 |
///
/// The mark is raised before the handler runs, because after it an older event could come in
/// between and be handled. The price: when the newer event's handler fails, an older one is refused
/// meanwhile, and what it told is known once the provider has sent the newer one again. That is
/// right for events that tell a whole state; leave those without a version that tell a change.
///
/// The mark decides which event *begins*. A handler that was paused after it, for longer than a
/// newer event takes, still writes last. Where a write must not be undone so, give
/// [`Event::version`] along with it, and let the write refuse a smaller one (`WHERE version <= …`),
/// or commit it and the claim together.
///
/// # Cancellation
///
/// Dropped at any poll, as by a server whose client has hung up, the handler is dropped, and the
/// event is released or what the policy says. Providers hang up after a few seconds (Slack 3,
/// Shopify 5, GitHub 10): spawn the call where the handler takes longer.
#[derive(Clone)]
pub struct Receiver {
    idempotency: Idempotency,
    verifier: Verifier,
    scope: String,
    versions: Option<Arc<Versions>>,
}

impl Receiver {
    /// Keeps events in this store, with [`policy`]. `scope` names the endpoint or the account that
    /// it belongs to: two that may see the same ids, as a test and a live mode, have a scope each.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](idem_core::ErrorKind::InvalidInput) when the scope is none for a [`Key`].
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

    /// Other policies, or another way to wait. Those of [`policy`] are gone: a retention shorter
    /// than a provider sends again lets an event be handled twice.
    #[must_use]
    pub fn with_idempotency(mut self, idempotency: Idempotency) -> Self {
        self.idempotency = idempotency;
        self
    }

    /// Refuses events that come out of order: `version` tells of which source an event is, and
    /// which state. Events for which it tells none are handled in any order. Asked after the
    /// signature was verified.
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

    /// The key of an event's record.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](idem_core::ErrorKind::InvalidInput) when the id is none for a [`Key`].
    pub fn key(&self, event_id: &str) -> Result<Key> {
        Key::new(&self.scope, self.verifier.provider().operation(), event_id)
    }

    /// The key of a source's watermark.
    ///
    /// # Errors
    ///
    /// None with the scope that this receiver has.
    pub fn source_key(&self, source: &str) -> Result<Key> {
        Key::from_parts(&self.scope, self.verifier.provider().operation(), [source])
    }

    /// What a handled event is sealed with: for a handler that commits its rows and the claim
    /// ([`Work::claim`]) in one transaction, which is the only way in which its effect happens
    /// exactly once. That it is sealed once more with the same changes nothing.
    ///
    /// # Errors
    ///
    /// None; it is JSON.
    pub fn handled() -> Result<Response> {
        Response::json(&StoredResult::Handled)
    }

    /// Receives one delivery: `body` as it was sent, byte for byte.
    ///
    /// The handler's error releases the event, unless the policy says otherwise, and is answered
    /// with 500. It is told by [`Answer::Error`], for logs. What should not be sent again, because
    /// it will never work, is no error: note it and return `Ok`.
    ///
    /// # Panics
    ///
    /// With what the handler panics with, after the policy was followed.
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

    /// What is done under the claim.
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
