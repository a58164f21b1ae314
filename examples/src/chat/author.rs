//! [`Author`]: the identity of a client.

use axum::extract::FromRequestParts;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use serde::Serialize;

use super::refusal::Refusal;

/// A real application has a session here, or the claims of a signed token.
const TOKENS: &[(&str, &str)] = &[("ada-token", "ada"), ("bob-token", "bob")];

/// The identity that a token proves. A nonce belongs to its author, so that no client can find or
/// block another's messages by guessing nonces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Author(&'static str);

impl Author {
    pub(super) fn name(self) -> &'static str {
        self.0
    }
}

impl<S: Sync> FromRequestParts<S> for Author {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        let header = parts.headers.get(AUTHORIZATION);
        let token = header.and_then(|header| header.to_str().ok()?.strip_prefix("Bearer "));
        let known = TOKENS.iter().find(|(known, _)| token == Some(known));
        known
            .map(|&(_, name)| Self(name))
            .ok_or_else(Refusal::unauthorized)
    }
}
