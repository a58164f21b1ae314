//! Those who wait are told by the store.

use async_trait::async_trait;
use idem_core::backend::{ChangeNotifier, Subscription};
use idem_core::{Key, Result};

use crate::store::{BACKEND, RedisStore};

/// Results, failures and releases are published (`PUBLISH`, in the same script that writes them) on
/// a channel for each key, and heard on one connection for all who wait in this process; in a
/// cluster on any node, because the nodes pass on what is published. Publishing takes the server
/// some microseconds where nobody listens: [`Config::with_announce`](crate::Config::with_announce)
/// turns it off.
///
/// What is published is not kept, so a hint is lost when a connection is: whoever listens is told
/// once more after each new connection.
#[async_trait]
impl ChangeNotifier for RedisStore {
    async fn listen(&self, key: &Key) -> Result<Subscription> {
        let channel = self.operations.channel(key);
        let listening = self.hub.listen(channel).await;
        listening.map_err(|error| error.at(BACKEND, "listen"))
    }
}
