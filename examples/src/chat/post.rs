//! [`post_message`]: the common path of all protocols.

use std::sync::Arc;

use idem_core::Nonce;
use idem_redis::Enforce;
use serde::Deserialize;

use super::author::Author;
use super::message::Message;
use super::refusal::Refusal;
use super::state::Chat;

/// The maximum length of a message, in characters.
const MAX_CHARS: usize = 2000;

/// The message that a client sends, in the body of a request or in a frame. It does not name the
/// author.
#[derive(Deserialize)]
pub(super) struct Draft {
    pub(super) content: String,
    /// A string or an integer of at most 25 characters; 7 and "7" are the same.
    pub(super) nonce: Option<Nonce>,
    /// If false, the nonce only helps the client to recognize its message.
    #[serde(default)]
    pub(super) enforce_nonce: bool,
}

/// A message in the chat, and whether it was posted before.
pub(super) struct Sent {
    pub(super) message: Message,
    pub(super) is_duplicate: bool,
}

/// Posts a message, except when this author has posted one with this nonce: then that one is the
/// answer, even with another text or in another channel.
pub(super) async fn post_message(
    chat: &Arc<Chat>,
    author: Author,
    channel: &str,
    draft: Draft,
) -> Result<Sent, Refusal> {
    check_content(&draft.content)?;
    let nonce = draft.nonce.clone();
    let enforce = if draft.enforce_nonce {
        Enforce::Yes
    } else {
        Enforce::No
    };
    // Runs to its end in a task of its own, so that a client that disconnected finds the message
    // when it retries.
    let (keeper, channel) = (Arc::clone(chat), channel.to_owned());
    let keep = move || async move {
        keeper
            .keep(author, channel, draft.content, draft.nonce)
            .await
    };
    let posted = chat
        .window()
        .post(author.name(), nonce.as_ref(), enforce, keep)
        .await?;
    let message = chat.message(&posted.id);
    Ok(Sent {
        message: message.unwrap_or_else(|| Message::elsewhere(&posted.id, author, nonce)),
        is_duplicate: posted.is_duplicate,
    })
}

fn check_content(content: &str) -> Result<(), Refusal> {
    let chars = content.chars().count();
    if content.trim().is_empty() {
        return Err(Refusal::bad_request("a message without content"));
    }
    if chars > MAX_CHARS {
        let reason = format!("a message has at most {MAX_CHARS} characters, this one has {chars}");
        return Err(Refusal::bad_request(reason));
    }
    Ok(())
}
