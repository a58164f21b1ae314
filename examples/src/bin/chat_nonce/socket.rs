//! Messages over a WebSocket.

use std::sync::Arc;

use axum::extract::ws::{Message as Frame, WebSocket, WebSocketUpgrade};
use axum::extract::{Path, State};
use axum::response::Response;
use idem_core::Nonce;
use serde::{Deserialize, Serialize};

use crate::chat::{Chat, Draft, Message};
use crate::http::{Author, Refusal};

/// The maximum size of a frame, in bytes.
const MAX_FRAME: usize = 64 * 1024;

/// A frame of a client.
#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Request {
    Send(Draft),
}

/// The answer to a frame.
#[derive(Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Answer {
    Sent {
        #[serde(flatten)]
        message: Message,
        duplicate: bool,
    },
    Error {
        #[serde(flatten)]
        refusal: Refusal,
        /// Shows the client which message was refused.
        nonce: Option<Nonce>,
    },
}

pub(crate) async fn open(
    State(chat): State<Arc<Chat>>,
    author: Author,
    Path(channel): Path<String>,
    upgrade: WebSocketUpgrade,
) -> Response {
    let upgrade = upgrade.max_message_size(MAX_FRAME);
    upgrade.on_upgrade(move |socket| converse(socket, chat, author, channel))
}

/// Answers each frame with one frame, in order.
async fn converse(mut socket: WebSocket, chat: Arc<Chat>, author: Author, channel: String) {
    while let Some(Ok(frame)) = socket.recv().await {
        let (Frame::Text(_) | Frame::Binary(_)) = frame else {
            // `recv` answers pings and reports the end.
            continue;
        };
        let answer = answer(&chat, author, channel.clone(), &frame.into_data()).await;
        let Ok(answer) = serde_json::to_string(&answer) else {
            return;
        };
        if socket.send(answer.into()).await.is_err() {
            return;
        }
    }
}

async fn answer(chat: &Arc<Chat>, author: Author, channel: String, frame: &[u8]) -> Answer {
    let draft = match serde_json::from_slice(frame) {
        Ok(Request::Send(draft)) => draft,
        Err(error) => {
            let (refusal, nonce) = (error.into(), None);
            return Answer::Error { refusal, nonce };
        }
    };
    let nonce = draft.nonce.clone();
    match chat.post(author, channel, draft).await {
        Ok((message, duplicate)) => Answer::Sent { message, duplicate },
        Err(refusal) => Answer::Error { refusal, nonce },
    }
}
