//! [`Sender`]: a sender that the application has verified.

use std::fmt;

/// A sender that the application has verified itself: by an RFC 9421 signature, a client
/// certificate, a bearer token.
///
/// Insert it into the extensions of the request, after the verification, for a receiver with
/// [`Verifier::by_application`](crate::Verifier::by_application):
///
/// ```
/// use idem_webhooks::{Sender, http::Request};
///
/// let mut request = Request::post("/adcp").body("{}").unwrap();
/// request.extensions_mut().insert(Sender::new("https://seller.example/agent"));
/// ```
///
/// The sender is part of the event's key, so two senders may use the same id. Never take it from
/// the request's own claims. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Sender(String);

impl Sender {
    /// Names a sender, of any length. An empty name is refused with the delivery.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sender(..)")
    }
}
