//! [`HttpPolicy`]: the HTTP rules of a route.

use std::borrow::Cow;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, Method, Response, StatusCode, Uri};

#[cfg(feature = "diff")]
use crate::KeptRequests;
use crate::hook::{FromAnswer, FromParts, FromRequest, Hook, ReplayHook};
use crate::{
    FingerprintRecipe, JsonRpc, KeyForm, KeyFormat, KeySource, KeyedRequest, Markers, OnDisconnect,
    OnStoreError, ProblemType, Refusal, ReplayedHeaders, Requirement, Statuses,
};

/// The HTTP rules of a route: which keys it accepts, what it answers, what it stores.
///
/// [`ietf`](Self::ietf) is the default; [`presets`](crate::presets) has the rules of public
/// protocols. Leases, time-outs and the handling of interrupted work are part of the engine's own
/// [`Policy`](idem_core::Policy), by operation.
///
/// | settings | say |
/// | --- | --- |
/// | [`KeySource`], [`KeyForm`], [`KeyFormat`], [`Requirement`] | where the key is (a header, a member of the JSON body, both), and how it looks |
/// | `with_operation`, `with_key_space` | what it belongs to, beside the caller |
/// | [`FingerprintRecipe`] | what makes a request the same |
/// | [`JsonRpc`] | which calls of an envelope carry keys |
/// | `with_refusals`, `with_status`, [`Markers`] | how refusals are worded, and answers marked |
/// | [`Statuses`], `with_kept_if`, [`ReplayedHeaders`] | what is stored |
/// | `with_replay_hook` | how a replay is adjusted, or made from the current state |
/// | `with_wait` | how long a request waits for the answer of the one in flight |
/// | `with_retention`, `with_tombstone`, [`FirstSent`](crate::FirstSent) | how long answers are replayed, and expired keys refused |
#[derive(Debug, Clone)]
pub struct HttpPolicy {
    pub(crate) requirement: Requirement,
    pub(crate) source: KeySource,
    pub(crate) form: KeyForm,
    pub(crate) format: KeyFormat,
    pub(crate) methods: Option<Vec<Method>>,
    pub(crate) operation: Operation,
    pub(crate) key_space: Option<FromRequest<Vec<String>>>,
    pub(crate) json_rpc: Option<JsonRpc>,
    pub(crate) fingerprint: FingerprintRecipe,
    pub(crate) statuses: Vec<(ProblemType, StatusCode)>,
    pub(crate) refusals: Option<Hook<RefusalWords>>,
    pub(crate) markers: Markers,
    pub(crate) kept: Statuses,
    pub(crate) kept_if: Option<FromAnswer<bool>>,
    pub(crate) respects_no_store: bool,
    pub(crate) replayed: ReplayedHeaders,
    pub(crate) replay_hook: Option<ReplayHook>,
    pub(crate) max_request_bytes: usize,
    pub(crate) max_response_bytes: usize,
    /// Zero: a request whose key is in flight is refused at once.
    pub(crate) wait: Duration,
    pub(crate) retention: Option<Duration>,
    pub(crate) tombstone: Duration,
    pub(crate) min_lifetime: Option<Duration>,
    pub(crate) on_store_error: OnStoreError,
    pub(crate) on_disconnect: OnDisconnect,
    pub(crate) documentation: Option<Uri>,
    #[cfg(feature = "diff")]
    pub(crate) kept_requests: Option<KeptRequests>,
}

/// A function that words refusals.
type RefusalWords = dyn Fn(&Refusal<'_>) -> Response<Bytes> + Send + Sync;

/// The source of a key's operation.
#[derive(Debug, Clone)]
pub(crate) enum Operation {
    Named(String),
    By(FromParts<String>),
    ByCall,
}

impl HttpPolicy {
    /// The operation of keys on routes that name none: `http`.
    pub const DEFAULT_OPERATION: &'static str = "http";
    /// The default wait for the answer of a request in flight: 3 s.
    pub const DEFAULT_WAIT: Duration = Duration::from_secs(3);
    /// The default limit of a request body: 2 MiB.
    pub const DEFAULT_MAX_REQUEST_BYTES: usize = 2 << 20;
    /// The default limit of a stored response body: 1 MiB.
    pub const DEFAULT_MAX_RESPONSE_BYTES: usize = 1 << 20;

    /// Follows the [IETF
    /// draft](https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-idempotency-key-header-07),
    /// and also accepts the bare form of the key.
    ///
    #[doc = include_str!("presets/ietf.md")]
    #[must_use]
    pub fn ietf() -> Self {
        Self {
            requirement: Requirement::Optional,
            source: KeySource::header(crate::IDEMPOTENCY_KEY),
            form: KeyForm::Lenient,
            format: KeyFormat::any(),
            methods: None,
            operation: Operation::Named(Self::DEFAULT_OPERATION.to_owned()),
            key_space: None,
            json_rpc: None,
            fingerprint: FingerprintRecipe::request(),
            statuses: Vec::new(),
            refusals: None,
            markers: Markers::default(),
            kept: Statuses::default(),
            kept_if: None,
            respects_no_store: false,
            replayed: ReplayedHeaders::default(),
            replay_hook: None,
            max_request_bytes: Self::DEFAULT_MAX_REQUEST_BYTES,
            max_response_bytes: Self::DEFAULT_MAX_RESPONSE_BYTES,
            wait: Self::DEFAULT_WAIT,
            retention: None,
            tombstone: Duration::ZERO,
            min_lifetime: None,
            on_store_error: OnStoreError::Closed,
            on_disconnect: OnDisconnect::Finish,
            documentation: None,
            #[cfg(feature = "diff")]
            kept_requests: None,
        }
    }

    /// Sets whether requests carry a key. Default: optional.
    #[must_use]
    pub fn with_requirement(mut self, requirement: Requirement) -> Self {
        self.requirement = requirement;
        self
    }

    /// Sets where requests carry their key. Default: the header `Idempotency-Key`.
    #[must_use]
    pub fn with_key_source(mut self, source: KeySource) -> Self {
        self.source = source;
        self
    }

    /// Sets the accepted forms of the header. Default: both.
    #[must_use]
    pub fn with_key_form(mut self, form: KeyForm) -> Self {
        self.form = form;
        self
    }

    /// Sets the required format of a key. Default: [`KeyFormat::any`].
    #[must_use]
    pub fn with_key_format(mut self, format: KeyFormat) -> Self {
        self.format = format;
        self
    }

    /// Sets the methods whose keys count. `GET`, `HEAD`, `OPTIONS`, `TRACE` and `CONNECT` never do.
    /// Default: all except these five.
    #[must_use]
    pub fn with_methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.methods = Some(methods.into_iter().collect());
        self
    }

    /// Sets the operation of this route's keys, 1 to 128 bytes such as `payments.create`. Keys of
    /// different operations are independent; metrics and the engine's policies go by it.
    #[must_use]
    pub fn with_operation(mut self, name: impl Into<String>) -> Self {
        self.operation = Operation::Named(name.into());
        self
    }

    /// Sets the operation as a function of the request. Return few different names: a path with ids
    /// makes a metric per id, and may be too long.
    #[must_use]
    pub fn with_operation_by(
        mut self,
        name: impl Fn(&Parts) -> String + Send + Sync + 'static,
    ) -> Self {
        self.operation = Operation::By(Hook(Arc::new(name)));
        self
    }

    /// Sets the operation to the name of the JSON-RPC call: see [`JsonRpc`].
    #[must_use]
    pub fn with_operation_by_call(mut self) -> Self {
        self.operation = Operation::ByCall;
        self
    }

    /// Makes these texts part of the key, beside the scope and the operation: the same key with
    /// other texts is another key, not a conflict. For the path of an endpoint, or an account that
    /// the body names. The key's id is then a digest ([`Key::from_parts`](idem_core::Key::from_parts))
    /// of the client's key and these texts, so their lengths do not matter; without a text it is the
    /// client's key.
    #[must_use]
    pub fn with_key_space(
        mut self,
        texts: impl Fn(&KeyedRequest) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        self.key_space = Some(Hook(Arc::new(texts)));
        self
    }

    /// Makes these headers part of the key, as [`with_key_space`](Self::with_key_space) does: those
    /// that choose whose resource a request is about, or what it does. A request that has none of
    /// them has the client's key.
    #[must_use]
    pub fn with_key_headers(self, names: impl IntoIterator<Item = HeaderName>) -> Self {
        let names: Vec<_> = names.into_iter().collect();
        self.with_key_space(move |request| {
            let headers = &request.parts().headers;
            let texts = names.iter().flat_map(|name| {
                let values = headers.get_all(name).iter();
                values.map(move |value| format!("{name}: {}", value.as_bytes().escape_ascii()))
            });
            texts.collect()
        })
    }

    /// Takes requests as JSON-RPC calls. Its rules by name replace the requirement of the route.
    #[must_use]
    pub fn with_json_rpc(mut self, rules: JsonRpc) -> Self {
        self.json_rpc = Some(rules);
        self
    }

    /// Sets what makes a request the same request. Default: [`FingerprintRecipe::request`].
    #[must_use]
    pub fn with_fingerprint(mut self, recipe: FingerprintRecipe) -> Self {
        self.fingerprint = recipe;
        self
    }

    /// Sets the status of refusals of this type. Default: [`ProblemType::status`].
    #[must_use]
    pub fn with_status(mut self, kind: ProblemType, status: StatusCode) -> Self {
        self.statuses.push((kind, status));
        self
    }

    /// Words refusals as a protocol requires, instead of `application/problem+json`. The function
    /// gets everything about the refusal, and returns the whole response.
    ///
    /// ```
    /// use idem_http::{HttpPolicy, Refusal};
    /// use serde_json::json;
    ///
    /// let policy = HttpPolicy::ietf().with_refusals(|refusal: &Refusal<'_>| {
    ///     refusal.json(&json!({"error": {"message": refusal.detail()}}))
    /// });
    /// # let _ = policy;
    /// ```
    #[must_use]
    pub fn with_refusals(
        mut self,
        words: impl Fn(&Refusal<'_>) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        self.refusals = Some(Hook(Arc::new(words)));
        self
    }

    /// Sets the headers that mark replays and other answers. Default: [`Markers::default`].
    #[must_use]
    pub fn with_markers(mut self, markers: Markers) -> Self {
        self.markers = markers;
        self
    }

    /// Sets the statuses whose responses are stored. After others the key is free again, except
    /// when the engine's policy records errors: then every status is stored. Default:
    /// [`Statuses::default`].
    #[must_use]
    pub fn with_kept_statuses(mut self, statuses: Statuses) -> Self {
        self.kept = statuses;
        self
    }

    /// Stores, of the answers with these statuses, only those for which this function is true; it
    /// sees status, headers and the whole body. After others the key is free again. For protocols
    /// that report errors with `200`. An answer over the limit is stored as one, whatever it says.
    #[must_use]
    pub fn with_kept_if(
        mut self,
        is_kept: impl Fn(&Response<Bytes>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.kept_if = Some(Hook(Arc::new(is_kept)));
        self
    }

    /// Stores no answer with `Cache-Control: no-store`: its key is free again, and a retry runs
    /// again. By default it is stored: a record is no cache of HTTP, and frameworks set the header
    /// on every answer.
    #[must_use]
    pub fn with_respect_for_no_store(mut self) -> Self {
        self.respects_no_store = true;
        self
    }

    /// Sets the headers that are stored and replayed. Default: [`ReplayedHeaders::default`].
    #[must_use]
    pub fn with_replayed_headers(mut self, headers: ReplayedHeaders) -> Self {
        self.replayed = headers;
        self
    }

    /// Adjusts a replay on its way out; the stored answer stays as it is. The function gets the
    /// request and the stored answer, before the markers are added. It may set members
    /// ([`json::with_member`](crate::json::with_member)), or make the answer anew from the
    /// resource's current state, as PayPal and AIP-155 do. It runs in the caller's task, and every
    /// replay waits for it.
    #[must_use]
    pub fn with_replay_hook<F>(
        mut self,
        hook: impl Fn(KeyedRequest, Response<Bytes>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Response<Bytes>> + Send + 'static,
    {
        let hook =
            move |request, response| Box::pin(hook(request, response)) as crate::hook::Adjusted;
        self.replay_hook = Some(Hook(Arc::new(hook)));
        self
    }

    /// Sets the longest request body that the layer reads for a fingerprint; a longer one gets
    /// `413`. The layer does not read requests without a key. Default: 2 MiB.
    #[must_use]
    pub fn with_max_request_bytes(mut self, bytes: usize) -> Self {
        self.max_request_bytes = bytes;
        self
    }

    /// Sets the longest response body that the layer stores, at most the store's own limit. A
    /// longer one reaches its caller, and the record is completed with a marker: a retry gets
    /// `410`, and nothing runs twice. Default: 1 MiB.
    #[must_use]
    pub fn with_max_response_bytes(mut self, bytes: usize) -> Self {
        self.max_response_bytes = bytes;
        self
    }

    /// Sets how long a request waits for the answer of the one in flight with its key, before it is
    /// refused as [`ProblemType::RequestInFlight`]. Keep it below the read time-outs of clients and
    /// proxies. Zero refuses at once. Default: 3 s.
    ///
    /// It counts where the engine's policy refuses
    /// ([`BusyPolicy::Refuse`](idem_core::BusyPolicy::Refuse)), its default; a wait of that policy
    /// stays as it is. The engine bounds how many requests wait
    /// ([`with_max_waiters`](idem_core::Idempotency::with_max_waiters)).
    #[must_use]
    pub fn with_wait(mut self, limit: Duration) -> Self {
        self.wait = limit;
        self
    }

    /// Sets how long responses are replayed, instead of the engine's retention.
    #[must_use]
    pub fn with_retention(mut self, retention: Duration) -> Self {
        self.retention = Some(retention);
        self
    }

    /// Refuses a key for this long after its answer is no longer replayed, with
    /// [`ProblemType::KeyExpired`], instead of handling the request as a new one. The record stays
    /// in the store for both times. The end of the replays is decided by this process's clock: one
    /// that is wrong replays longer or shorter, and never handles a request twice. Default: zero,
    /// an expired key is new.
    #[must_use]
    pub fn with_tombstone(mut self, time: Duration) -> Self {
        self.tombstone = time;
        self
    }

    /// Sets how long answers have to be replayed at least, by a protocol:
    /// [`IdempotencyLayer::verify`](crate::IdempotencyLayer::verify) checks it. Default: nothing.
    #[must_use]
    pub fn with_min_lifetime(mut self, time: Duration) -> Self {
        self.min_lifetime = Some(time);
        self
    }

    /// Sets what happens while the store is unreachable. Default: closed.
    #[must_use]
    pub fn with_on_store_error(mut self, choice: OnStoreError) -> Self {
        self.on_store_error = choice;
        self
    }

    /// Sets what becomes of the handler when the client disconnects. Default: a task of its own
    /// finishes it.
    #[must_use]
    pub fn with_on_disconnect(mut self, choice: OnDisconnect) -> Self {
        self.on_disconnect = choice;
        self
    }

    /// Sets the page that documents keys on this route. Each problem names it, in its body and as
    /// `Link` with `rel="describedby"`.
    #[must_use]
    pub fn with_documentation(mut self, uri: Uri) -> Self {
        self.documentation = Some(uri);
        self
    }

    /// Keeps the JSON bodies of requests, so that a conflict shows the difference. Default: not
    /// kept.
    #[cfg(feature = "diff")]
    #[must_use]
    pub fn with_kept_requests(mut self, kept: KeptRequests) -> Self {
        self.kept_requests = Some(kept);
        self
    }

    /// Returns whether keys count in requests of this method.
    pub(crate) fn guards(&self, method: &Method) -> bool {
        let is_mutating = !method.is_safe() && *method != Method::CONNECT;
        let is_chosen = |methods: &Vec<Method>| methods.contains(method);
        self.requirement != Requirement::Off
            && is_mutating
            && self.methods.as_ref().is_none_or(is_chosen)
    }

    /// Returns how long the store keeps a record after its answer is no longer replayed.
    pub(crate) fn kept_longer(&self) -> Duration {
        let first_sent = self.source.first_sent().map(|_| crate::FirstSent::KEPT);
        self.tombstone.max(first_sent.unwrap_or_default())
    }

    pub(crate) fn operation<'a>(&'a self, request: &'a KeyedRequest) -> Cow<'a, str> {
        match &self.operation {
            Operation::Named(name) => name.into(),
            Operation::By(function) => function(request.parts()).into(),
            Operation::ByCall => {
                let call = request.call().map(crate::Call::name);
                call.unwrap_or(Self::DEFAULT_OPERATION).into()
            }
        }
    }

    /// Returns the operation, or the default when it depends on the request.
    pub(crate) fn named_operation(&self) -> &str {
        match &self.operation {
            Operation::Named(name) => name,
            Operation::By(_) | Operation::ByCall => Self::DEFAULT_OPERATION,
        }
    }

    /// Returns whether the body has to be read before it is known whether there is a key.
    pub(crate) fn reads_first(&self) -> bool {
        self.source.is_in_body() || self.json_rpc.is_some()
    }
}

/// Returns [`HttpPolicy::ietf`].
impl Default for HttpPolicy {
    fn default() -> Self {
        Self::ietf()
    }
}
