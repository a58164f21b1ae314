//! [`Message`]: the answer to a client.

use idem_core::Nonce;
use serde::Serialize;

use super::author::Author;

/// A message in the chat.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Message {
    pub(super) id: String,
    pub(super) author: Author,
    pub(super) nonce: Option<Nonce>,
    #[serde(flatten)]
    pub(super) text: Option<Text>,
}

/// The text of a message, and its channel.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Text {
    pub(super) channel: String,
    pub(super) content: String,
}

impl Message {
    /// Creates the answer for a message that another process holds. Redis knows only its id, so the
    /// answer has no `channel` and no `content`. With all messages in one database this does not
    /// happen.
    pub(super) fn elsewhere(id: &str, author: Author, nonce: Option<Nonce>) -> Self {
        Self {
            id: id.to_owned(),
            author,
            nonce,
            text: None,
        }
    }
}
