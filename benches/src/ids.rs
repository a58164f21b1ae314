//! [`Ids`]: keys as clients make them.

use fastrand::Rng;
use idem_core::{ClaimRequest, Fingerprint, Key, Response};

/// Of which tenant all keys are.
pub(crate) const SCOPE: &str = "bench";
/// For which intent.
pub(crate) const OPERATION: &str = "payments.create";

/// A series of random ids: 32 hexadecimal digits in no order, as clients make them, so that no
/// index is filled at its end only.
pub(crate) struct Ids(Rng);

impl Ids {
    /// A new series.
    pub(crate) fn series() -> Self {
        Self(Rng::new())
    }

    /// The next id.
    pub(crate) fn next_id(&mut self) -> String {
        format!("{:032x}", self.0.u128(..))
    }
}

/// A claim of the key with this id.
///
/// # Panics
///
/// If the id is no id.
pub(crate) fn request(id: &str) -> ClaimRequest {
    ClaimRequest::new(key(id), fingerprint())
}

/// The key with this id.
///
/// # Panics
///
/// If the id is no id.
pub(crate) fn key(id: &str) -> Key {
    Key::new(SCOPE, OPERATION, id).expect("a valid id")
}

/// Of the request that all claims are for.
pub(crate) fn fingerprint() -> Fingerprint {
    Fingerprint::raw("request")
}

/// The same key as text in one column, as long as ours in three.
pub(crate) fn text(id: &str) -> String {
    [SCOPE, OPERATION, id].concat()
}

/// What a payment's service might answer: about a hundred bytes.
pub(crate) fn response() -> Response {
    let body = r#"{"id":"ch_8f14e45fceea167a5a36dedd4bea2543","status":"succeeded","amount":1200,"currency":"EUR"}"#;
    Response::new(200, body)
}
