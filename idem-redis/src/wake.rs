//! The store as a [`ChangeNotifier`]: it notifies waiting runs.

use async_trait::async_trait;
use idem_core::backend::{ChangeNotifier, Subscription};
use idem_core::{Key, Result};

use crate::store::{BACKEND, RedisStore};

/// Results, failures and releases are published (`PUBLISH`, in the same script that writes them) on
/// a channel for each key. One connection receives them for all waiting runs of this process; in a
/// cluster it may be to any node, because the nodes pass publications on. Publishing takes the
/// server some microseconds, even without listeners:
/// [`Config::with_notifications`](crate::Config::with_notifications) turns it off.
///
/// Publications are not kept, so a hint is lost when a connection is: every listener is notified
/// once more after each new connection.
#[async_trait]
impl ChangeNotifier for RedisStore {
    async fn listen(&self, key: &Key) -> Result<Subscription> {
        let channel = self.operations.channel(key);
        let listening = self.hub.listen(channel).await;
        listening.map_err(|error| error.at(BACKEND, "listen"))
    }
}
