//! [`Chat`]: the state that the handlers share.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use idem_core::Nonce;

use super::author::Author;
use super::message::{Message, Text};
use super::window::Window;

/// Ids end with the number of the process.
const PROCESSES: u64 = 1000;

/// Messages and the nonces under which they were sent.
pub struct Chat {
    window: Window,
    messages: Mutex<Vec<Message>>,
    process: u64,
    delay: Duration,
}

impl Chat {
    /// Creates a chat without messages.
    #[must_use]
    pub fn new(window: impl Into<Window>) -> Self {
        Self {
            window: window.into(),
            messages: Mutex::default(),
            process: rand::random_range(0..PROCESSES),
            delay: Duration::ZERO,
        }
    }

    /// Sets how long storing a message takes, as with a slow database.
    #[must_use]
    pub fn with_delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    pub(super) fn window(&self) -> &Window {
        &self.window
    }

    /// Stores a message and returns its id.
    pub(super) async fn keep(
        &self,
        author: Author,
        channel: String,
        content: String,
        nonce: Option<Nonce>,
    ) -> String {
        tokio::time::sleep(self.delay).await;
        let mut messages = self.messages();
        let id = self.next_id(messages.last()).to_string();
        messages.push(Message {
            id: id.clone(),
            author,
            nonce,
            text: Some(Text { channel, content }),
        });
        id
    }

    /// Returns the message with this id, if it was posted in this process.
    pub(super) fn message(&self, id: &str) -> Option<Message> {
        let messages = self.messages();
        messages.iter().find(|message| message.id == id).cloned()
    }

    /// Returns the messages of a channel, in order.
    pub(super) fn messages_of(&self, channel: &str) -> Vec<Message> {
        let is_there = |text: &Text| text.channel == channel;
        let mut messages = self.messages().clone();
        messages.retain(|message| message.text.as_ref().is_some_and(is_there));
        messages
    }

    /// Returns a growing id that differs between processes: microseconds, and the number of the
    /// process.
    fn next_id(&self, last: Option<&Message>) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let micros = since.map_or(0, |since| since.as_micros());
        let last: u64 = last.and_then(|last| last.id.parse().ok()).unwrap_or(0);
        let now = u64::try_from(micros).unwrap_or(u64::MAX / PROCESSES);
        now.max(last / PROCESSES + 1) * PROCESSES + self.process
    }

    fn messages(&self) -> MutexGuard<'_, Vec<Message>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Chat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chat")
            .field("messages", &self.messages().len())
            .finish_non_exhaustive()
    }
}
