//! Messages over HTTP, the identity of a client, and [`Refusal`].

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::StatusCode;
use axum::http::header::{AUTHORIZATION, RETRY_AFTER};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use idem_redis::NonceError;
use serde::{Serialize, Serializer};

use crate::chat::{Chat, Message};

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

/// Why a message was not posted.
#[derive(Debug, Serialize)]
pub(crate) struct Refusal {
    #[serde(serialize_with = "number")]
    status: StatusCode,
    error: String,
    /// After how many seconds the client may send the same again, with the same nonce.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<u16>,
}

fn number<S: Serializer>(status: &StatusCode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u16(status.as_u16())
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, error: impl Into<String>) -> Self {
        let passes = [StatusCode::CONFLICT, StatusCode::SERVICE_UNAVAILABLE];
        Self {
            status,
            error: error.into(),
            retry_after: passes.contains(&status).then_some(1),
        }
    }

    pub(crate) fn pending() -> Self {
        Self::new(StatusCode::CONFLICT, "the message is just being posted")
    }

    /// Clients do not see the details of a store's error.
    pub(crate) fn of_store(reason: impl fmt::Display) -> Self {
        eprintln!("chat_nonce: {reason}");
        let reason = "nonces cannot be looked up now; the message was not posted";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, reason)
    }
}

impl From<serde_json::Error> for Refusal {
    fn from(error: serde_json::Error) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error.to_string())
    }
}

impl From<NonceError<Infallible>> for Refusal {
    fn from(error: NonceError<Infallible>) -> Self {
        let reason = error.to_string();
        match error {
            NonceError::Pending => Self::pending(),
            NonceError::Store(_) => Self::of_store(reason),
            NonceError::Post(never) => match never {},
            // It is not posted later either: the nonce is taken until its window ends.
            _ => Self::new(StatusCode::INTERNAL_SERVER_ERROR, reason),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(&self)).into_response();
        if let Some(seconds) = self.retry_after {
            let headers = response.headers_mut();
            headers.insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}
