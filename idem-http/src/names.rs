//! Header names.

use http::HeaderName;

/// `Idempotency-Key`: the key, in a request.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// `Idempotent-Replayed: true`, in a response made for an earlier request.
pub const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// `Idempotency-First-Answered`, in a replay: when the first response was stored, by the store's
/// clock, as an HTTP date.
pub const FIRST_ANSWERED: HeaderName = HeaderName::from_static("idempotency-first-answered");
