//! [`Group`]: servers of which one leads.

use std::sync::Arc;

use async_trait::async_trait;
use idem_core::{BoxError, IdempotencyStore};

/// A store on a group of servers.
pub(crate) type Store = Arc<dyn IdempotencyStore>;

/// Servers of which one leads, and another follows.
#[async_trait]
pub(crate) trait Group: Send + Sync {
    /// Returns name and version of the product.
    fn product(&self) -> String;

    /// Returns the settings that matter, in words.
    fn settings(&self) -> String;

    /// Returns the leader's URL, or those of all servers where clients find the leader.
    fn leader(&self) -> &str;

    /// Returns whether callers need one address for whatever server leads.
    fn is_routed(&self) -> bool;

    /// Opens the store at this URL.
    async fn store(&self, url: &str) -> Result<Store, BoxError>;

    /// Opens a store that waits for an answer for a moment only.
    async fn reader(&self, url: &str) -> Result<Store, BoxError>;

    /// Takes the follower away.
    async fn cut(&mut self) -> Result<(), BoxError>;

    /// Waits until writes wait for the follower.
    async fn wait_for_waiting(&self) -> Result<(), BoxError>;

    /// Shows the writes that wait to other callers. Returns how many waited just before.
    async fn show_waiting(&mut self) -> Result<usize, BoxError>;

    /// Kills the leader; the follower leads. Returns which.
    async fn fail_over(&mut self) -> Result<String, BoxError>;

    /// Starts a follower of the new leader.
    async fn add_replica(&mut self) -> Result<(), BoxError>;
}
