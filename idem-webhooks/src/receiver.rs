//! [`Receiver`]: from a delivery to its answer.

use std::fmt::{self, Display};
use std::future::Future;
use std::sync::Arc;

use http::Request;
use idem_core::engine::{Transactional, Tx};
use idem_core::{
    Advance, BoxError, Bytes, Effect, Error, ErrorKind, Idempotency, IdempotencyStore, Key,
    Response, Result, Work,
};

use crate::cloud_events::Events;
use crate::identity::Identity;
use crate::run::{Broken, StoredResult, advance, no_watermarks};
use crate::{Answer, Event, Received, Rejection, Sender, Verifier, Version, policy};

/// The events of a delivery, each with its key.
enum Incoming {
    One(Result<(Key, Event), Rejection>),
    Batch(Vec<Result<(Key, Event), Rejection>>),
}

type Versions = dyn Fn(&Event) -> Option<Version> + Send + Sync;

/// Handles each event of one endpoint once, however often, in whatever order and by however many
/// processes its deliveries are received.
///
/// # What happens to a delivery
///
/// 1. The receiver verifies the signature; before that it does not parse the body, and stores
///    nothing.
/// 2. It identifies the event, or the events of a batch, one after the other. The key is
///    `(scope, "webhook.<provider>", id)`.
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
#[doc(alias("dedup", "inbox"))]
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
    /// the provider's retries, or than twice the tolerance of its signatures, an event may be
    /// handled twice: a captured delivery passes for so long.
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

    /// Returns the key of an event's record. The parts are the sender that the application has
    /// verified ([`Event::sender`]), the namespace ([`Event::namespace`]) and the id, each if there
    /// is one. Several parts are hashed.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](idem_core::ErrorKind::InvalidInput) when there is no part, or when a single
    /// one is not valid in a [`Key`].
    pub fn key(&self, parts: &[&str]) -> Result<Key> {
        let operation = self.verifier.provider().operation();
        match parts {
            [id] => Key::new(&self.scope, operation, id),
            parts => Key::from_parts(&self.scope, operation, parts),
        }
    }

    /// Returns the key of a source's watermark. The parts are the sender that the application has
    /// verified, if there is one, and [`Version::source`].
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](idem_core::ErrorKind::InvalidInput) when there is no part.
    pub fn source_key(&self, parts: &[&str]) -> Result<Key> {
        Key::from_parts(&self.scope, self.verifier.provider().operation(), parts)
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

    /// Receives one delivery, with the body as it was sent, byte for byte, and with the query that
    /// the provider sent.
    ///
    /// The handler is called once for each event that has to be handled: at most once, except for a
    /// batch of CloudEvents. An error of the handler is answered with 500 and, by default, releases
    /// the event. [`Received::Error`] carries it, for logs. If a retry can never succeed, do not
    /// return an error: log it and return `Ok`.
    ///
    /// # Panics
    ///
    /// Panics when the handler panics, after following the policy.
    pub async fn receive<E, F, Fut>(&self, request: &Request<Bytes>, handler: F) -> Answer<E>
    where
        E: Display + Send,
        F: FnMut(Event, Work) -> Fut + Send,
        Fut: Future<Output = Result<(), E>> + Send,
    {
        let received = self.received(request, handler).await;
        Answer::new(received, self.verifier.provider().statuses())
    }

    /// Receives one delivery as [`receive`](Self::receive) does, and runs the handler in a transaction
    /// of the database that holds the records: its rows commit together with the record, or nothing
    /// does. See [`Idempotency::run_in`]. The handler is called again after a deadlock, a
    /// serialization failure or a lock that was not free in time. Each event of a batch has a
    /// transaction of its own.
    ///
    /// A receiver [with versions](Self::with_versions) answers
    /// [`Misconfigured`](idem_core::ErrorKind::Misconfigured): the mark cannot be raised in the
    /// transaction.
    ///
    /// # Panics
    ///
    /// Panics when the handler panics, after the rollback.
    pub async fn receive_in<X, F, Fut>(
        &self,
        transactions: &X,
        request: &Request<Bytes>,
        mut handler: F,
    ) -> Answer<BoxError>
    where
        X: Transactional,
        F: FnMut(Tx<X::Transaction>, Event, Work) -> Fut + Send,
        Fut: Future<Output = Result<(), BoxError>> + Send,
    {
        let received = match self.events(request) {
            Err(received) => received,
            Ok(Incoming::One(event)) => self.run_in(transactions, event, &mut handler).await,
            Ok(Incoming::Batch(events)) => {
                let mut received = Vec::with_capacity(events.len());
                for event in events {
                    received.push(self.run_in(transactions, event, &mut handler).await);
                }
                Received::Batch(received)
            }
        };
        Answer::new(received, self.verifier.provider().statuses())
    }

    async fn run_in<X, F, Fut>(
        &self,
        transactions: &X,
        event: Result<(Key, Event), Rejection>,
        handler: &mut F,
    ) -> Received<BoxError>
    where
        X: Transactional,
        F: FnMut(Tx<X::Transaction>, Event, Work) -> Fut + Send,
        Fut: Future<Output = Result<(), BoxError>> + Send,
    {
        let (key, event) = match event {
            Ok(event) => event,
            Err(rejection) => return Received::Rejected(rejection),
        };
        if self.versions.is_some() {
            let message = "a receiver with versions cannot handle events in transactions";
            return Received::Store(Error::new(ErrorKind::Misconfigured, Effect::None, message));
        }
        let handle = |tx, work| {
            let handling = handler(tx, event.clone(), work);
            async move { handling.await.map(|()| StoredResult::Handled) }
        };
        let run = self
            .idempotency
            .run_with_in(transactions, &key, event.fingerprint, handle);
        let ran = Box::pin(run).await;
        Received::of(ran.map_err(|error| error.map_work(Broken::Handler)))
    }

    async fn received<E, F, Fut>(&self, request: &Request<Bytes>, mut handler: F) -> Received<E>
    where
        E: Display + Send,
        F: FnMut(Event, Work) -> Fut + Send,
        Fut: Future<Output = Result<(), E>> + Send,
    {
        match self.events(request) {
            Err(received) => received,
            Ok(Incoming::One(event)) => self.run(event, &mut handler).await,
            Ok(Incoming::Batch(events)) => {
                let mut received = Vec::with_capacity(events.len());
                for event in events {
                    received.push(self.run(event, &mut handler).await);
                }
                Received::Batch(received)
            }
        }
    }

    /// Returns the events of a delivery, or what becomes of one that has none.
    fn events<E>(&self, request: &Request<Bytes>) -> Result<Incoming, Received<E>> {
        let provider = self.verifier.provider();
        if let Some(answered) = provider.handshake(request) {
            return Err(answered);
        }
        self.verifier.verify(request).map_err(Received::Rejected)?;
        if let Some(answered) = provider.challenge(request) {
            return Err(answered);
        }
        let sender = self.verifier.sender(request);
        let events = provider.identify(request).map_err(Received::Rejected)?;
        let event = |(body, identity)| self.event(sender, body, identity);
        Ok(match events {
            Events::One(body, identity) => Incoming::One(event((body, identity))),
            Events::Batch(events) => Incoming::Batch(events.into_iter().map(event).collect()),
        })
    }

    fn event(
        &self,
        sender: Option<&Sender>,
        body: Bytes,
        identity: Result<Identity, Rejection>,
    ) -> Result<(Key, Event), Rejection> {
        let identity = identity?;
        let id = identity.id.iter().map(String::as_str);
        let parts: Vec<&str> = sender.map(Sender::name).into_iter().chain(id).collect();
        let key = self.key(&parts).map_err(|_| Rejection::NoId)?;
        let mut event = Event {
            provider: self.verifier.provider().clone(),
            id: identity.id,
            sender: sender.cloned(),
            topic: identity.topic,
            body,
            fingerprint: identity.fingerprint,
            version: None,
        };
        event.version = self.versions.as_ref().and_then(|version| version(&event));
        Ok((key, event))
    }

    async fn run<E, F, Fut>(
        &self,
        event: Result<(Key, Event), Rejection>,
        handler: &mut F,
    ) -> Received<E>
    where
        E: Display + Send,
        F: FnMut(Event, Work) -> Fut + Send,
        Fut: Future<Output = Result<(), E>> + Send,
    {
        let (key, event) = match event {
            Ok(event) => event,
            Err(rejection) => return Received::Rejected(rejection),
        };
        let fingerprint = event.fingerprint;
        let handle = |work: Work| self.handle(event, work, handler);
        let run = self.idempotency.run_with(&key, fingerprint, handle);
        Received::of(Box::pin(run).await)
    }

    /// Runs under the claim.
    async fn handle<E, F, Fut>(
        &self,
        event: Event,
        work: Work,
        handler: &mut F,
    ) -> Result<StoredResult, Broken<E>>
    where
        E: Send,
        F: FnMut(Event, Work) -> Fut + Send,
        Fut: Future<Output = Result<(), E>> + Send,
    {
        if let Some(version) = event.version() {
            let policy = self.idempotency.policy_for(work.key());
            let sender = event.sender().map(Sender::name);
            let source: Vec<&str> = sender.into_iter().chain([version.source()]).collect();
            let source = self.source_key(&source).map_err(Broken::Mark)?;
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
