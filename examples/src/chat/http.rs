//! Messages over HTTP.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;

use super::author::Author;
use super::message::Message;
use super::post::{Draft, post_message};
use super::refusal::Refusal;
use super::state::Chat;

/// Answers with 201 for a new message, and with 200 for one posted before.
pub(super) async fn post(
    State(chat): State<Arc<Chat>>,
    author: Author,
    Path(channel): Path<String>,
    body: Bytes,
) -> Result<(StatusCode, Json<Message>), Refusal> {
    let draft: Draft = serde_json::from_slice(&body)?;
    let sent = post_message(&chat, author, &channel, draft).await?;
    let status = if sent.is_duplicate {
        StatusCode::OK
    } else {
        StatusCode::CREATED
    };
    Ok((status, Json(sent.message)))
}

pub(super) async fn list(
    State(chat): State<Arc<Chat>>,
    _: Author,
    Path(channel): Path<String>,
) -> Json<Vec<Message>> {
    Json(chat.messages_of(&channel))
}
