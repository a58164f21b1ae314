//! [`FileKeys`]: keys in a file of one process.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use idem_core::Fingerprint;
use tokio::task::spawn_blocking;

use super::log::{Entry, Log};
use crate::issued::{KeptKey, millis};
use crate::{Error, ErrorKind, Intent, IntentKeys, IssuedKey, KeyForm};

/// Keeps the keys of intents in a file, for the intents of one process at one server and account.
///
/// Each new intent appends a line of JSON, which is on the disk (`fsync`) before the request is
/// sent. An intent that has its key reads no file.
///
/// | what if | then |
/// | --- | --- |
/// | the process is killed while it writes | the next `open` removes the torn last line; its key was never sent |
/// | a second process opens the file | it gets [`Misconfigured`](ErrorKind::Misconfigured) at once; the lock, a file with `.lock` added, ends with the process that holds it |
/// | another line cannot be read | `open` returns [`Corrupt`](ErrorKind::Corrupt): each line is a key that may have been sent |
/// | a write fails | the request is not sent, and no new key is made until the file is opened again |
/// | the clock was set back by more than a minute since the last new key | the age of existing keys is unknown, and they are [expired](ErrorKind::IntentExpired) until the clock has caught up |
///
/// The file forgets nothing by itself; see [`forget_before`](Self::forget_before). The entries are
/// also in memory, some 300 bytes each. A network file system is not safe: locks and `fsync` may do
/// nothing there.
#[derive(Clone)]
pub struct FileKeys {
    log: Arc<Mutex<Log>>,
}

/// How far the clock may be behind the latest entry.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(60);

impl FileKeys {
    /// Opens the file, and creates a missing one.
    ///
    /// # Errors
    ///
    /// `Misconfigured` when another process has it open, the folder does not exist, or the file may
    /// not be written; `Corrupt` for a line that cannot be read; `KeysUnavailable` for other errors
    /// of the disk.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, Error> {
        let path = path.into();
        let log = blocking(move || Log::open(&path)).await?;
        Ok(Self {
            log: Arc::new(Mutex::new(log)),
        })
    }

    /// Forgets the keys that were made before this instant, and returns how many. Such an intent is
    /// a new one afterwards, and its request takes effect again. So forget only what no caller
    /// repeats any more, and only when this machine's clock is right.
    ///
    /// # Errors
    ///
    /// `KeysUnavailable` when the new file cannot be written. The old one then stands, or, after
    /// the last step, no new key is made until the file is opened again.
    pub async fn forget_before(&self, instant: SystemTime) -> Result<usize, Error> {
        let instant = millis(instant);
        self.with(move |log| log.forget_before(instant)).await
    }

    /// Returns the number of intents in the file.
    pub async fn count(&self) -> Result<usize, Error> {
        self.with(|log| Ok(log.len())).await
    }

    /// Uses the log on a thread that may block: another caller may be waiting for the disk.
    async fn with<T: Send + 'static>(
        &self,
        task: impl FnOnce(&mut Log) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let log = Arc::clone(&self.log);
        // A panic cannot leave the log half changed: it marks itself as broken around each write.
        blocking(move || task(&mut log.lock().unwrap_or_else(PoisonError::into_inner))).await
    }
}

#[async_trait]
impl IntentKeys for FileKeys {
    async fn key_for(
        &self,
        intent: &Intent,
        fingerprint: &Fingerprint,
        form: KeyForm,
    ) -> Result<IssuedKey, Error> {
        let (intent, fingerprint) = (intent.clone(), *fingerprint);
        self.with(move |log| key_for(log, &intent, fingerprint, form))
            .await
    }

    /// Returns [`Duration::MAX`].
    fn retention(&self) -> Duration {
        Duration::MAX
    }
}

fn key_for(
    log: &mut Log,
    intent: &Intent,
    fingerprint: Fingerprint,
    form: KeyForm,
) -> Result<IssuedKey, Error> {
    if let Some(entry) = log.get(intent.name()) {
        if entry.fingerprint != fingerprint {
            return Err(Error::changed());
        }
        let age = age(SystemTime::now(), entry.kept.first_sent, log.latest());
        return Ok(entry.kept.issued(age, false));
    }
    let kept = KeptKey::make(form);
    let issued = kept.issued(Some(Duration::ZERO), true);
    log.add(intent.name(), Entry { fingerprint, kept })?;
    Ok(issued)
}

/// Returns the time since the key was made; `None` when the clock has gone back since the latest
/// entry, so that nobody knows.
fn age(now: SystemTime, first_sent: u64, latest: u64) -> Option<Duration> {
    let now = millis(now);
    let tolerance = u64::try_from(CLOCK_TOLERANCE.as_millis()).unwrap_or(u64::MAX);
    if now.saturating_add(tolerance) < latest {
        return None;
    }
    Some(Duration::from_millis(
        now.max(latest).saturating_sub(first_sent),
    ))
}

async fn blocking<T: Send + 'static>(
    task: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    spawn_blocking(task).await.unwrap_or_else(|error| {
        let message = "the task that reads the file of keys did not end";
        Err(Error::new(ErrorKind::KeysUnavailable, message).with_source(error))
    })
}

impl fmt::Debug for FileKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileKeys").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    #[test]
    fn a_clock_that_went_back_makes_ages_unknown() {
        let at = |millis| UNIX_EPOCH + Duration::from_millis(millis);
        let age = |now, first_sent, latest| age(at(now), first_sent, latest);
        assert_eq!(age(100_000, 40_000, 50_000), Some(Duration::from_secs(60)));
        // Within the tolerance the latest entry counts as now.
        assert_eq!(
            age(100_000, 40_000, 150_000),
            Some(Duration::from_secs(110))
        );
        assert_eq!(age(100_000, 40_000, 160_001), None);
    }
}
