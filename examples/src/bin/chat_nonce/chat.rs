//! [`Chat`]: posts messages.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use idem_core::Nonce;
use idem_redis::Enforce;
use serde::{Deserialize, Serialize};

use crate::http::{Author, Refusal};
use crate::window::Window;

/// The maximum length of a message, in characters.
const MAX_CHARS: usize = 2000;

/// The message that a client sends. It does not name the author.
#[derive(Deserialize)]
pub(crate) struct Draft {
    content: String,
    /// A string or an integer of at most 25 characters; 7 and "7" are the same.
    nonce: Option<Nonce>,
    /// If false, the nonce only helps the client to recognize its message.
    #[serde(default)]
    enforce_nonce: bool,
}

/// A message in the chat: the answer to a client.
///
/// A message that another process holds has no channel and no content: Redis knows only its id.
/// With all messages in one database this does not happen.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Message {
    id: String,
    author: Author,
    nonce: Option<Nonce>,
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
}

/// Messages and the nonces under which they were sent.
pub(crate) struct Chat {
    pub(crate) window: Window,
    pub(crate) messages: Mutex<Vec<Message>>,
    /// How long storing a message takes, as with a slow database.
    pub(crate) delay: Duration,
}

impl Chat {
    /// Posts a message, except when this author has posted one with this nonce: then that one is
    /// the answer, even with another text or in another channel. Returns also whether it was posted
    /// before.
    pub(crate) async fn post(
        self: &Arc<Self>,
        author: Author,
        channel: String,
        draft: Draft,
    ) -> Result<(Message, bool), Refusal> {
        draft.check()?;
        let enforce = match draft.enforce_nonce {
            true => Enforce::Yes,
            false => Enforce::No,
        };
        let message = |id: &str| Message {
            id: id.to_owned(),
            author,
            nonce: draft.nonce.clone(),
            channel: None,
            content: None,
        };
        let new = Message {
            channel: Some(channel),
            content: Some(draft.content),
            ..message(&rand::random::<u64>().to_string())
        };
        // Runs to its end in a task of its own, so that a client that disconnected finds the
        // message when it retries.
        let chat = Arc::clone(self);
        let keep = async move { chat.keep(new).await };
        let nonce = draft.nonce.as_ref();
        let window = &self.window;
        let (id, is_duplicate) = window.post(author.name(), nonce, enforce, keep).await?;
        let messages = self.messages();
        let found = messages.iter().find(|message| message.id == id).cloned();
        Ok((found.unwrap_or_else(|| message(&id)), is_duplicate))
    }

    /// Stores a message and returns its id.
    async fn keep(&self, message: Message) -> String {
        tokio::time::sleep(self.delay).await;
        let id = message.id.clone();
        self.messages().push(message);
        id
    }

    /// Returns the messages of a channel, in order.
    pub(crate) fn messages_of(&self, channel: &str) -> Vec<Message> {
        let mut messages = self.messages().clone();
        messages.retain(|message| message.channel.as_deref() == Some(channel));
        messages
    }

    fn messages(&self) -> MutexGuard<'_, Vec<Message>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Draft {
    fn check(&self) -> Result<(), Refusal> {
        let chars = self.content.chars().count();
        let reason = if self.content.trim().is_empty() {
            "a message without content".to_owned()
        } else if chars > MAX_CHARS {
            format!("a message has at most {MAX_CHARS} characters, this one has {chars}")
        } else {
            return Ok(());
        };
        Err(Refusal::new(StatusCode::BAD_REQUEST, reason))
    }
}
