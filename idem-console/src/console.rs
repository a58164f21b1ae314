//! [`Console`]: what all requests share.

use std::sync::Arc;

use idem_core::{Effect, Error, ErrorKind, IdempotencyStore, Key, RecordAdmin, Result};
use tokio::sync::{Notify, Semaphore, watch};

use crate::handles::Handles;
use crate::options::Options;
use crate::rate::{Rate, RateLimit};
use crate::sample::Snapshot;
use crate::secret::Secret;
use crate::sessions::Sessions;

/// Most open overviews that are renewed.
pub(crate) const STREAMS: usize = 32;

/// Five attempts to log in at once, then five a minute.
const LOGINS: Rate = Rate {
    burst: 5.0,
    per_second: 5.0 / 60.0,
};
const ALL_LOGINS: Rate = Rate {
    burst: 30.0,
    per_second: 1.0,
};
/// Ten changes at once, then one every two seconds.
const CHANGES: Rate = Rate {
    burst: 10.0,
    per_second: 0.5,
};
const ALL_CHANGES: Rate = Rate {
    burst: 30.0,
    per_second: 1.0,
};

pub(crate) struct Console {
    pub(crate) store: Arc<dyn IdempotencyStore>,
    pub(crate) options: Options,
    pub(crate) secret: Secret,
    pub(crate) sessions: Sessions,
    pub(crate) logins: RateLimit,
    pub(crate) changes: RateLimit,
    pub(crate) streams: Arc<Semaphore>,
    pub(crate) latest: watch::Sender<Option<Arc<Snapshot>>>,
    pub(crate) wanted: Arc<Notify>,
    handles: Handles,
}

impl Console {
    pub(crate) fn new(store: Arc<dyn IdempotencyStore>, options: Options) -> Result<Self> {
        if store.admin().is_none() {
            return Err(unlisted());
        }
        options.check_changes()?;
        Ok(Self {
            store,
            options,
            secret: Secret::random()?,
            sessions: Sessions::default(),
            logins: RateLimit::new(LOGINS, ALL_LOGINS),
            changes: RateLimit::new(CHANGES, ALL_CHANGES),
            streams: Arc::new(Semaphore::new(STREAMS)),
            latest: watch::Sender::new(None),
            wanted: Arc::new(Notify::new()),
            handles: Handles::default(),
        })
    }

    pub(crate) fn admin(&self) -> Result<&dyn RecordAdmin> {
        self.store.admin().ok_or_else(unlisted)
    }

    /// Returns whether an open overview is renewed at this moment.
    pub(crate) fn is_watched(&self) -> bool {
        self.streams.available_permits() < STREAMS
    }

    pub(crate) fn handle(&self, key: &Key) -> String {
        self.handles.of(&self.secret, key)
    }

    pub(crate) fn key(&self, handle: &str) -> Option<Key> {
        self.handles.key(handle)
    }

    /// Returns the address of a page.
    pub(crate) fn path(&self, page: &str) -> String {
        format!("{}/{page}", self.options.base_path)
    }
}

fn unlisted() -> Error {
    Error::new(
        ErrorKind::Misconfigured,
        Effect::None,
        "a console needs a store that lists its records, and this one has no `admin`",
    )
}
