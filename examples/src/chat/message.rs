//! [`Message`]: what is answered.

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

/// What it says, and where.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Text {
    pub(super) channel: String,
    pub(super) content: String,
}

impl Message {
    /// A message that another process has. Redis knows its id, and no more: `channel` and `content`
    /// are left out of the answer. With all messages in one database this does not happen.
    pub(super) fn elsewhere(id: &str, author: Author, nonce: Option<Nonce>) -> Self {
        Self {
            id: id.to_owned(),
            author,
            nonce,
            text: None,
        }
    }
}
