//! [`HttpPolicy`]: how a route treats keys.

use std::time::Duration;

use http::request::Parts;
use http::{HeaderName, Method, StatusCode, Uri};

#[cfg(feature = "diff")]
use crate::KeptRequests;
use crate::from_parts::FromParts;
use crate::{KeyForm, KeyFormat, OnStoreError, ReplayedHeaders, Requirement, Statuses};

/// How a route treats keys: which it accepts, what it answers, what it stores.
///
/// Leases, patience, and what becomes of interrupted work are the engine's own
/// [`Policy`](idem_core::Policy), by operation.
///
/// | | [`ietf`](Self::ietf), the default | [`stripe`](Self::stripe) | [`square`](Self::square) |
/// | --- | --- | --- | --- |
/// | a key that was used for another request | `422` | `400` | `409` |
/// | retention | the engine's, 24 h unless told | 24 h | the engine's |
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

/// Where the operation of a key comes from.
#[derive(Debug, Clone)]
pub(crate) enum Operation {
    Named(String),
    By(FromParts<String>),
}

impl HttpPolicy {
    /// The operation of keys on routes that name none: `http`.
    pub const DEFAULT_OPERATION: &'static str = "http";
    /// 2 MiB.
    pub const DEFAULT_MAX_REQUEST_BYTES: usize = 2 << 20;
    /// 1 MiB.
    pub const DEFAULT_MAX_RESPONSE_BYTES: usize = 1 << 20;

    /// As the IETF draft has it, and lenient about the form of the key.
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

    /// As clients of Stripe expect it: `400` for a key that was used for another request, kept for
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

    /// As clients of Square expect it: `409` for a key that was used for another request.
    #[must_use]
    pub fn square() -> Self {
        Self {
            reuse_status: StatusCode::CONFLICT,
            ..Self::ietf()
        }
    }

    /// Whether requests carry a key; optional unless told.
    #[must_use]
    pub fn with_requirement(mut self, requirement: Requirement) -> Self {
        self.requirement = requirement;
        self
    }

    /// The header that carries the key; `Idempotency-Key` unless told.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName) -> Self {
        self.header = name;
        self
    }

    /// Which forms of the header are accepted; both unless told.
    #[must_use]
    pub fn with_key_form(mut self, form: KeyForm) -> Self {
        self.form = form;
        self
    }

    /// What a key has to look like; anything printable unless told.
    #[must_use]
    pub fn with_key_format(mut self, format: KeyFormat) -> Self {
        self.format = format;
        self
    }

    /// The methods whose keys are looked at, instead of all but `GET`, `HEAD`, `OPTIONS`, `TRACE`
    /// and `CONNECT`. Of these five none is ever.
    #[must_use]
    pub fn with_methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.methods = Some(methods.into_iter().collect());
        self
    }

    /// The operation of this route's keys, 1 to 128 bytes such as `payments.create`: keys of
    /// different operations never meet, and metrics and the engine's policies go by it.
    #[must_use]
    pub fn with_operation(mut self, name: impl Into<String>) -> Self {
        self.operation = Operation::Named(name.into());
        self
    }

    /// The operation as a function of the request. Give few different names: a path with ids in it
    /// makes a metric per id, and may be too long.
    #[must_use]
    pub fn with_operation_by(
        mut self,
        name: impl Fn(&Parts) -> String + Send + Sync + 'static,
    ) -> Self {
        self.operation = Operation::By(FromParts::new(name));
        self
    }

    /// What else makes two requests different, beside method, path, query and body: an API version,
    /// or the path that the client asked for where a router has shortened it.
    #[must_use]
    pub fn with_also_fingerprinted(
        mut self,
        text: impl Fn(&Parts) -> String + Send + Sync + 'static,
    ) -> Self {
        self.also_fingerprinted = Some(FromParts::new(text));
        self
    }

    /// The status for a key that was used for another request; `422` unless told.
    #[must_use]
    pub fn with_reuse_status(mut self, status: StatusCode) -> Self {
        self.reuse_status = status;
        self
    }

    /// The statuses whose responses are sealed; [`Statuses::default`] unless told. After others the
    /// key is free again, unless the engine's policy records errors: then every status is sealed.
    #[must_use]
    pub fn with_kept_statuses(mut self, statuses: Statuses) -> Self {
        self.kept = statuses;
        self
    }

    /// The headers that are stored and replayed; [`ReplayedHeaders::default`] unless told.
    #[must_use]
    pub fn with_replayed_headers(mut self, headers: ReplayedHeaders) -> Self {
        self.replayed = headers;
        self
    }

    /// The longest request body that is read for a fingerprint; a longer one is refused with `413`.
    /// 2 MiB unless told. Requests without a key are not read.
    #[must_use]
    pub fn with_max_request_bytes(mut self, bytes: usize) -> Self {
        self.max_request_bytes = bytes;
        self
    }

    /// The longest response body that is stored; 1 MiB unless told, and never more than the store
    /// takes. A longer one reaches its caller, and the record is sealed with a marker: a retry gets
    /// `410`, and nothing runs twice.
    #[must_use]
    pub fn with_max_response_bytes(mut self, bytes: usize) -> Self {
        self.max_response_bytes = bytes;
        self
    }

    /// How long answers are replayed, whatever the engine's policy says.
    #[must_use]
    pub fn with_retention(mut self, retention: Duration) -> Self {
        self.retention = Some(retention);
        self
    }

    /// What happens while the store cannot be reached; closed unless told.
    #[must_use]
    pub fn with_on_store_error(mut self, choice: OnStoreError) -> Self {
        self.on_store_error = choice;
        self
    }

    /// Where people read about keys on this route: each problem names it, in its body and as `Link`
    /// with `rel="describedby"`.
    #[must_use]
    pub fn with_documentation(mut self, uri: Uri) -> Self {
        self.documentation = Some(uri);
        self
    }

    /// Keeps the JSON bodies of requests, so that a conflict tells what differs; they are not kept
    /// unless told.
    #[cfg(feature = "diff")]
    #[must_use]
    pub fn with_kept_requests(mut self, kept: KeptRequests) -> Self {
        self.kept_requests = Some(kept);
        self
    }

    /// Whether keys are looked at in requests of this method.
    pub(crate) fn guards(&self, method: &Method) -> bool {
        let is_mutating = !method.is_safe() && *method != Method::CONNECT;
        let is_chosen = |methods: &Vec<Method>| methods.contains(method);
        self.requirement != Requirement::Off
            && is_mutating
            && self.methods.as_ref().is_none_or(is_chosen)
    }

    pub(crate) fn operation(&self, parts: &Parts) -> String {
        match &self.operation {
            Operation::Named(name) => name.clone(),
            Operation::By(function) => function.of(parts),
        }
    }
}

/// [`HttpPolicy::ietf`].
impl Default for HttpPolicy {
    fn default() -> Self {
        Self::ietf()
    }
}
