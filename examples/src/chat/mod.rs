//! A chat in which a client may send a message again, over HTTP or over a WebSocket, without
//! posting it twice.
//!
//! The client creates a *nonce* for each message and requests its enforcement. Without an answer,
//! it sends the same again, over either protocol. For five minutes the author's second message with
//! this nonce is not posted, and the first one is the answer. Both handlers call `post_message`
//! (`post.rs`), which uses a [`Window`]: Redis's [`NonceWindow`](idem_redis::NonceWindow), or
//! records in another store.
//!
//! | | |
//! | --- | --- |
//! | `POST /channels/{channel}/messages` | `{"content", "nonce", "enforce_nonce"}`; 201, or 200 for a message posted before |
//! | `GET /channels/{channel}/messages` | the messages of this process |
//! | `GET /channels/{channel}/socket` | a WebSocket: `{"op": "send", …}` is answered by `{"op": "sent", …, "duplicate"}` or `{"op": "error", …}` |
//!
//! All of them require `authorization: Bearer ada-token` (or `bob-token`).
//!
//! Messages are in memory, and each process has its own; a real chat stores them in a database.

mod author;
mod http;
mod message;
mod post;
mod refusal;
mod socket;
mod state;
mod window;

use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use tokio::net::TcpListener;

pub use state::Chat;
pub use window::Window;

/// Serves the chat, for ever.
///
/// # Errors
///
/// The operating system's error.
pub async fn serve(listener: TcpListener, chat: Chat) -> std::io::Result<()> {
    let messages = get(http::list).post(http::post);
    let router = Router::new()
        .route("/channels/{channel}/messages", messages)
        .route("/channels/{channel}/socket", get(socket::open))
        .with_state(Arc::new(chat));
    axum::serve(listener, router).await
}
