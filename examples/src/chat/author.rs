//! [`Author`]: who a client is.

use axum::extract::FromRequestParts;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use serde::Serialize;

use super::refusal::Refusal;

/// In a real application a session, or what a signed token says.
const TOKENS: &[(&str, &str)] = &[("ada-token", "ada"), ("bob-token", "bob")];

/// Who the server knows a client to be, by its token. A nonce counts for its author only, so that
/// nobody finds out another's messages, or keeps them from being posted, by guessing nonces.
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
