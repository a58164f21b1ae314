//! [`HttpPolicy`]: the HTTP rules of a route.

use std::borrow::Cow;
use std::time::Duration;

use http::request::Parts;
use http::{HeaderName, Method, StatusCode, Uri};

#[cfg(feature = "diff")]
use crate::KeptRequests;
use crate::from_parts::FromParts;
use crate::{KeyForm, KeyFormat, OnStoreError, ReplayedHeaders, Requirement, Statuses};

/// The HTTP rules of a route: which keys it accepts, what it answers, what it stores.
///
/// Leases, time-outs and the handling of interrupted work are part of the engine's own
/// [`Policy`](idem_core::Policy), by operation.
///
/// | | [`ietf`](Self::ietf), the default | [`stripe`](Self::stripe) | [`square`](Self::square) |
/// | --- | --- | --- | --- |
/// | a key that was used for another request | `422` | `400` | `409` |
/// | retention | the engine's, by default 24 h | 24 h | the engine's |
/// | methods | all but safe ones and `CONNECT` | `POST` | all but safe ones and `CONNECT` |
#[derive(Debug, Clone)]
pub struct HttpPolicy {
    pub(crate) requirement: Requirement,
    pub(crate) header: HeaderName,
    pub(crate) form: KeyForm,
    pub(crate) format: KeyFormat,
    pub(crate) methods: Option<Vec<Method>>,
    pub(crate) operation: Operation,
    pub(crate) also_fingerprinted: Option<FromParts<String>>,
    pub(crate) reuse_status: StatusCode,
    pub(crate) kept: Statuses,
    pub(crate) replayed: ReplayedHeaders,
    pub(crate) max_request_bytes: usize,
    pub(crate) max_response_bytes: usize,
    pub(crate) retention: Option<Duration>,
    pub(crate) on_store_error: OnStoreError,
    pub(crate) documentation: Option<Uri>,
    #[cfg(feature = "diff")]
    pub(crate) kept_requests: Option<KeptRequests>,
}

/// The source of a key's operation.
#[derive(Debug, Clone)]
pub(crate) enum Operation {
    Named(String),
    By(FromParts<String>),
}

impl HttpPolicy {
    /// The operation of keys on routes that name none: `http`.
    pub const DEFAULT_OPERATION: &'static str = "http";
    /// The default limit of a request body: 2 MiB.
    pub const DEFAULT_MAX_REQUEST_BYTES: usize = 2 << 20;
    /// The default limit of a stored response body: 1 MiB.
    pub const DEFAULT_MAX_RESPONSE_BYTES: usize = 1 << 20;

    /// Follows the IETF draft, and also accepts the bare form of the key.
    #[must_use]
    pub fn ietf() -> Self {
        Self {
            requirement: Requirement::Optional,
            header: crate::IDEMPOTENCY_KEY,
            form: KeyForm::Lenient,
            format: KeyFormat::Any,
            methods: None,
            operation: Operation::Named(Self::DEFAULT_OPERATION.to_owned()),
            also_fingerprinted: None,
            reuse_status: StatusCode::UNPROCESSABLE_ENTITY,
            kept: Statuses::default(),
            replayed: ReplayedHeaders::default(),
            max_request_bytes: Self::DEFAULT_MAX_REQUEST_BYTES,
            max_response_bytes: Self::DEFAULT_MAX_RESPONSE_BYTES,
            retention: None,
            on_store_error: OnStoreError::Closed,
            documentation: None,
            #[cfg(feature = "diff")]
            kept_requests: None,
        }
    }

    /// Behaves as clients of Stripe expect: `400` for a key used for another request, retention of
    /// 24 hours, `POST` only.
    #[must_use]
    pub fn stripe() -> Self {
        Self {
            methods: Some(vec![Method::POST]),
            reuse_status: StatusCode::BAD_REQUEST,
            retention: Some(Duration::from_secs(24 * 60 * 60)),
            ..Self::ietf()
        }
    }

    /// Behaves as clients of Square expect: `409` for a key used for another request.
    #[must_use]
    pub fn square() -> Self {
        Self {
            reuse_status: StatusCode::CONFLICT,
            ..Self::ietf()
        }
    }

    /// Sets whether requests carry a key. Default: optional.
    #[must_use]
    pub fn with_requirement(mut self, requirement: Requirement) -> Self {
        self.requirement = requirement;
        self
    }

    /// Sets the header that carries the key. Default: `Idempotency-Key`.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName) -> Self {
        self.header = name;
        self
    }

    /// Sets the accepted forms of the header. Default: both.
    #[must_use]
    pub fn with_key_form(mut self, form: KeyForm) -> Self {
        self.form = form;
        self
    }

    /// Sets the required format of a key. Default: any printable ASCII.
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
        self.operation = Operation::By(FromParts::new(name));
        self
    }

    /// Adds to the fingerprint of method, path, query, media type and body: an API version, or the
    /// client's original path if a router has shortened it.
    #[must_use]
    pub fn with_also_fingerprinted(
        mut self,
        text: impl Fn(&Parts) -> String + Send + Sync + 'static,
    ) -> Self {
        self.also_fingerprinted = Some(FromParts::new(text));
        self
    }

    /// Sets the status for a key used for another request. Default: `422`.
    #[must_use]
    pub fn with_reuse_status(mut self, status: StatusCode) -> Self {
        self.reuse_status = status;
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

    /// Sets the headers that are stored and replayed. Default: [`ReplayedHeaders::default`].
    #[must_use]
    pub fn with_replayed_headers(mut self, headers: ReplayedHeaders) -> Self {
        self.replayed = headers;
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

    /// Sets how long responses are replayed, instead of the engine's retention.
    #[must_use]
    pub fn with_retention(mut self, retention: Duration) -> Self {
        self.retention = Some(retention);
        self
    }

    /// Sets what happens while the store is unreachable. Default: closed.
    #[must_use]
    pub fn with_on_store_error(mut self, choice: OnStoreError) -> Self {
        self.on_store_error = choice;
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

    pub(crate) fn operation(&self, parts: &Parts) -> Cow<'_, str> {
        match &self.operation {
            Operation::Named(name) => name.into(),
            Operation::By(function) => function.of(parts).into(),
        }
    }
}

/// Returns [`HttpPolicy::ietf`].
impl Default for HttpPolicy {
    fn default() -> Self {
        Self::ietf()
    }
}
