//! [`Protocol`]: what one protocol says about keys.

mod carrier;
mod judgement;
mod member;
mod presets;

use std::time::Duration;

use http::{HeaderName, Method};

pub use carrier::Carrier;
pub use judgement::{Answer, ReplayMarker, Verdict};

pub(crate) use carrier::Placed;
pub(crate) use judgement::Judgement;

use crate::{BodyComparison, KeyForm};
use judgement::{CodeRule, HeaderRule};

/// What a protocol says about keys: where the key goes, its form, which answer is a replay, what
/// may be sent again, and how long the server keeps its answers.
///
/// Each protocol of the table has a function. Each setting has a `with_…` method, for servers that
/// differ from it, or that say how long they keep answers.
///
/// | | the key goes into | form | a replay says | assumed to be kept for | methods |
/// | --- | --- | --- | --- | --- | --- |
/// | [`ietf`](Self::ietf) | `Idempotency-Key`, in quotes | UUIDv4 | `Idempotent-Replayed: true`, a custom of servers | 24 h | POST, PATCH, PUT, DELETE |
/// | [`idem_http`](Self::idem_http) | the same | UUIDv4 | the same; an answer without it is a first one | 24 h | the same |
/// | [`acp`](Self::acp) | `Idempotency-Key` | UUIDv4 | `Idempotent-Replayed: true` | 24 h | POST, PUT |
/// | [`ucp_rest`](Self::ucp_rest) | `Idempotency-Key` | UUIDv4 | nothing | 24 h | POST, PUT |
/// | [`adcp`](Self::adcp) | the member `idempotency_key` | UUIDv4 | the member `replayed` | 1 h | POST |
/// | [`iceberg`](Self::iceberg) | `Idempotency-Key` | UUIDv7 | nothing | as `GET /v1/config` says | POST, DELETE |
/// | [`azure`](Self::azure) | `Repeatability-Request-ID` and `Repeatability-First-Sent` | UUIDv4 | nothing | 5 min | POST |
/// | [`stripe`](Self::stripe), draft | `Idempotency-Key` | UUIDv4 | `Idempotent-Replayed: true`; an answer without it is a first one | 24 h | POST |
/// | [`square`](Self::square), draft | the member `idempotency_key` | UUIDv4 | nothing | 24 h, a guess | POST, PUT |
/// | [`paypal`](Self::paypal) | `PayPal-Request-Id` | UUIDv4 | nothing | 6 h | POST |
/// | [`adyen`](Self::adyen), draft | `Idempotency-Key` | UUIDv4 | nothing | 7 days | POST |
/// | [`aws_style`](Self::aws_style), draft | a member that you name | UUIDv4 | nothing | 15 min | POST, PUT |
/// | [`aip155`](Self::aip155) | the member `request_id` | UUIDv4 | nothing | 1 h | POST, PATCH |
///
/// A draft rests on vendors' pages or second-hand reports, not on a specification; it may change in
/// any release. Test it against the server before you rely on it.
///
/// # What is sent again
///
/// Time-outs, lost connections, `408`, `421`, `423`, `425`, `429`, 5xx except `501` and `505`, and
/// `409` with `Retry-After`. A code in the body, or a header, that the protocol defines decides
/// before the status does; so does a problem type of `idem-http`, with every protocol:
///
/// | `urn:idem:problem:…` | is sent again |
/// | --- | --- |
/// | `request-in-flight`, `store-unavailable`, `too-early`, `request-unreadable` | yes |
/// | `outcome-unknown` | with `Retry-After` |
/// | all others | no |
///
/// A replay is sent again only where such a code or header says so: the next answer is the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protocol {
    pub(crate) carrier: Carrier,
    pub(crate) form: KeyForm,
    pub(crate) comparison: BodyComparison,
    pub(crate) lifetime: Option<Duration>,
    marker: ReplayMarker,
    codes: Vec<CodeRule>,
    headers: Vec<HeaderRule>,
    methods: Vec<Method>,
    is_draft: bool,
}

impl Protocol {
    /// Sets where the key goes.
    #[must_use]
    pub fn with_carrier(mut self, carrier: Carrier) -> Self {
        self.carrier = carrier;
        self
    }

    /// Sets the form of keys.
    #[must_use]
    pub fn with_key_form(mut self, form: KeyForm) -> Self {
        self.form = form;
        self
    }

    /// Sets how an answer says that it is a replay.
    #[must_use]
    pub fn with_marker(mut self, marker: ReplayMarker) -> Self {
        self.marker = marker;
        self
    }

    /// Adds a code that decides: a string at this JSON Pointer in the body of an answer. A code that
    /// ends in `*` stands for all that begin like it. The first code that fits counts; codes that
    /// are added come before those of the preset.
    #[must_use]
    pub fn with_code(
        mut self,
        pointer: impl Into<String>,
        code: impl Into<String>,
        verdict: Verdict,
    ) -> Self {
        let rule = CodeRule {
            pointer: pointer.into(),
            code: code.into(),
            verdict: Some(verdict),
        };
        self.codes.insert(0, rule);
        self
    }

    /// Adds a header of an answer that decides, by its value, which is compared without case.
    #[must_use]
    pub fn with_deciding_header(
        mut self,
        name: HeaderName,
        value: impl Into<String>,
        verdict: Verdict,
    ) -> Self {
        let rule = HeaderRule {
            name,
            value: value.into(),
            verdict,
        };
        self.headers.insert(0, rule);
        self
    }

    /// Sets how long the server keeps its answers, from the first request with a key. An older
    /// intent is not repeated, but [expired](crate::ErrorKind::IntentExpired): the server would do
    /// the work again. The presets assume the least that the protocol promises; set what your
    /// server says.
    #[must_use]
    pub fn with_lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self
    }

    /// Says that the server never forgets a key, so that no intent expires. Where this is wrong, an
    /// old intent takes effect a second time.
    #[must_use]
    pub fn with_endless_lifetime(mut self) -> Self {
        self.lifetime = None;
        self
    }

    /// Sets the methods whose requests get a key. Others are passed on unread, and are never sent
    /// again.
    #[must_use]
    pub fn with_methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.methods = methods.into_iter().collect();
        self
    }

    /// Sets how a repeated body is compared with the first one.
    #[must_use]
    pub fn with_body_comparison(mut self, comparison: BodyComparison) -> Self {
        self.comparison = comparison;
        self
    }

    /// Returns how long the server is assumed to keep its answers; `None` for ever.
    #[must_use]
    pub fn lifetime(&self) -> Option<Duration> {
        self.lifetime
    }

    /// Returns whether this preset rests on second-hand facts, so that it may change.
    #[must_use]
    pub fn is_draft(&self) -> bool {
        self.is_draft
    }

    /// Returns whether a request with this method gets a key.
    pub(crate) fn guards(&self, method: &Method) -> bool {
        self.methods.contains(method)
    }
}
