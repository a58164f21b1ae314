//! [`Ids`]: keys like those of clients.

use fastrand::Rng;
use idem_core::{ClaimRequest, Fingerprint, Key, Response};

/// The tenant of all keys.
pub(crate) const SCOPE: &str = "bench";
/// The operation of all keys.
pub(crate) const OPERATION: &str = "payments.create";

/// A series of random ids: 32 hexadecimal digits in no order, like those of clients, so that
/// indexes are not filled only at their end.
pub(crate) struct Ids(Rng);

impl Ids {
    /// Creates a new series.
    pub(crate) fn series() -> Self {
        Self(Rng::new())
    }

    /// Returns the next id.
    pub(crate) fn next_id(&mut self) -> String {
        format!("{:032x}", self.0.u128(..))
    }
}

/// Returns a claim of the key with this id.
///
/// # Panics
///
/// Panics if the id is not valid.
pub(crate) fn request(id: &str) -> ClaimRequest {
    ClaimRequest::new(key(id), fingerprint())
}

/// Returns the key with this id.
///
/// # Panics
///
/// Panics if the id is not valid.
pub(crate) fn key(id: &str) -> Key {
    Key::new(SCOPE, OPERATION, id).expect("a valid id")
}

/// Returns the fingerprint of all claims.
pub(crate) fn fingerprint() -> Fingerprint {
    Fingerprint::raw("request")
}

/// Returns the same key as text in one column, as long as the store's three columns.
pub(crate) fn text(id: &str) -> String {
    [SCOPE, OPERATION, id].concat()
}

/// Returns the response of a payment service: about a hundred bytes.
pub(crate) fn response() -> Response {
    let body = r#"{"id":"ch_8f14e45fceea167a5a36dedd4bea2543","status":"succeeded","amount":1200,"currency":"EUR"}"#;
    Response::new(200, body)
}
