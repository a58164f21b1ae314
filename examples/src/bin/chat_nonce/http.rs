//! Messages over HTTP, and the identity of a client.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::StatusCode;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use serde::Serialize;

use crate::chat::{Chat, Message};
use crate::refusal::Refusal;

/// Answers with 201 for a new message, and with 200 for one posted before.
pub(crate) async fn post(
    State(chat): State<Arc<Chat>>,
    author: Author,
    Path(channel): Path<String>,
    body: Bytes,
) -> Result<(StatusCode, Json<Message>), Refusal> {
    let draft = serde_json::from_slice(&body)?;
    let (message, is_duplicate) = chat.post(author, channel, draft).await?;
    let status = match is_duplicate {
        true => StatusCode::OK,
        false => StatusCode::CREATED,
    };
    Ok((status, Json(message)))
}

pub(crate) async fn list(
    State(chat): State<Arc<Chat>>,
    _: Author,
    Path(channel): Path<String>,
) -> Json<Vec<Message>> {
    Json(chat.messages_of(&channel))
}

/// A real application has a session here, or the claims of a signed token.
const TOKENS: &[(&str, &str)] = &[("ada-token", "ada"), ("bob-token", "bob")];

/// The identity that a token proves. A nonce belongs to its author, so that no client can find or
/// block another's messages by guessing nonces.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Author(&'static str);

impl Author {
    pub(crate) fn name(self) -> &'static str {
        self.0
    }
}

impl<S: Sync> FromRequestParts<S> for Author {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        let header = parts.headers.get(AUTHORIZATION);
        let token = header.and_then(|header| header.to_str().ok()?.strip_prefix("Bearer "));
        let known = TOKENS.iter().find(|(known, _)| token == Some(known));
        match known {
            Some((_, name)) => Ok(Self(name)),
            None => Err(Refusal::new(StatusCode::UNAUTHORIZED, "no such token")),
        }
    }
}
