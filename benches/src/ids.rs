//! Keys like those of clients, and what the requests of all benchmarks have in common.

use std::time::Duration;

use idem_core::{ClaimRequest, Fingerprint, Key, Response};

/// The tenant of all keys.
pub const SCOPE: &str = "bench";
/// The operation of all keys.
pub const OPERATION: &str = "payments.create";

/// Returns a random id: 32 hexadecimal digits in no order, like those of clients, so that indexes
/// are not filled only at their end.
pub(crate) fn fresh_id() -> String {
    format!("{:032x}", fastrand::u128(..))
}

/// The retention of results.
pub const DAY: Duration = Duration::from_secs(86_400);

/// Returns the id with this number: ids of equal length, in sequence.
#[must_use]
pub fn id(number: u64) -> String {
    format!("{number:032x}")
}

/// Returns a claim of the key with this id.
///
/// # Panics
///
/// Panics if the id is not valid.
#[must_use]
pub fn request(id: &str) -> ClaimRequest {
    ClaimRequest::new(key(id), fingerprint())
}

/// Returns the key with this id.
///
/// # Panics
///
/// Panics if the id is not valid.
#[must_use]
pub fn key(id: &str) -> Key {
    Key::new(SCOPE, OPERATION, id).expect("a valid id")
}

/// Returns the fingerprint of all claims.
#[must_use]
pub fn fingerprint() -> Fingerprint {
    Fingerprint::raw("request")
}

/// Returns the same key as text in one column, as long as the store's three columns.
pub(crate) fn text(id: &str) -> String {
    [SCOPE, OPERATION, id].concat()
}

pub(crate) const RECEIPT: &str = r#"{"id":"ch_8f14e45fceea167a5a36dedd4bea2543","status":"succeeded","amount":1200,"currency":"EUR"}"#;

/// Returns the response of a payment service: about a hundred bytes.
pub(crate) fn response() -> Response {
    Response::new(200, RECEIPT)
}
