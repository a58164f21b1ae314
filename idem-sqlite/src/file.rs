//! [`DatabaseFile`]: checks that the file that the connections have open is still the one at its
//! path.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use idem_core::{Effect, Error, ErrorKind, Result};

/// How old the last check may be for a read. A write checks before and after.
const TRUSTED: Duration = Duration::from_millis(10);

/// A file that was deleted, renamed or replaced stays open, and SQLite continues to write into it:
/// acknowledged writes would be gone with the last connection
/// (<https://www.sqlite.org/howtocorrupt.html>, 2.4). So the store checks whether its path still
/// names the file that it has opened: before each write, and again after its commit, before it
/// acknowledges the write. Once the path does not, every call fails, because connections opened
/// since may be of another file.
///
/// The check cannot see:
///
/// * a deletion after the answer was given;
/// * a deletion between the check of an operation in a caller's transaction and the caller's
///   commit;
/// * a file that was overwritten in place.
#[derive(Debug, Clone)]
pub(crate) struct DatabaseFile(Option<Arc<Watched>>);

#[derive(Debug)]
struct Watched {
    path: PathBuf,
    /// The write-ahead log, where there must be one: SQLite deletes it only with the last
    /// connection.
    log: Option<PathBuf>,
    opened: OnceLock<Identity>,
    is_lost: AtomicBool,
    begun: Instant,
    /// The time of the last check, in microseconds since `begun`.
    looked: AtomicU64,
}

/// Device and inode; on a file system without them only the path's existence counts.
type Identity = (u64, u64);

#[cfg(unix)]
fn identity(file: &Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;
    (file.dev(), file.ino())
}

/// SQLite opens files so that they cannot be deleted there.
#[cfg(not(unix))]
fn identity(_: &Metadata) -> Identity {
    (0, 0)
}

impl DatabaseFile {
    /// A database in memory.
    pub(crate) const NONE: Self = Self(None);

    /// Watches the file at this path, which the connections have open or will open. `has_log`: it
    /// is in WAL mode.
    pub(crate) fn new(path: &Path, has_log: bool) -> Self {
        if path.as_os_str().is_empty() || path.to_string_lossy().contains(":memory:") {
            return Self::NONE;
        }
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let log = has_log.then(|| {
            // SQLite follows symbolic links and puts the log beside the file.
            let mut log = path.canonicalize().unwrap_or_else(|_| path.clone());
            log.as_mut_os_string().push("-wal");
            log
        });
        let file = Self(Some(Arc::new(Watched {
            path,
            log,
            opened: OnceLock::new(),
            is_lost: AtomicBool::new(false),
            begun: Instant::now(),
            looked: AtomicU64::new(0),
        })));
        // No error here: the user of the file reports what is wrong.
        if let Some(watched) = &file.0
            && let Ok(there) = watched.path.metadata()
        {
            watched.opened.get_or_init(|| identity(&there));
        }
        file
    }

    /// Returns whether there is a file at all.
    pub(crate) fn is_watched(&self) -> bool {
        self.0.is_some()
    }

    /// Checks before a write: an error means that nothing was done.
    pub(crate) fn before_write(&self) -> Result<()> {
        self.look(Effect::None)
    }

    /// Checks after a commit, before it is acknowledged: it may be in a deleted file.
    pub(crate) fn after_write(&self) -> Result<()> {
        self.look(Effect::Unknown)?;
        match self.0.as_deref() {
            Some(watched) if watched.has_lost_log() => Err(watched.lost(Effect::Unknown)),
            _ => Ok(()),
        }
    }

    /// Checks before a read, if the last check is too old.
    pub(crate) fn before_read(&self) -> Result<()> {
        let Some(watched) = self.0.as_deref() else {
            return Ok(());
        };
        let trusted = TRUSTED.as_micros() as u64;
        // Another thread may have checked after this one has read the clock.
        let looked = watched.looked.load(Ordering::Relaxed);
        let age = watched.micros().saturating_sub(looked);
        match age < trusted && !watched.is_lost.load(Ordering::Relaxed) {
            true => Ok(()),
            false => self.look(Effect::None),
        }
    }

    fn look(&self, effect: Effect) -> Result<()> {
        let Some(watched) = self.0.as_deref() else {
            return Ok(());
        };
        if watched.is_lost.load(Ordering::Relaxed) || !watched.is_there() {
            return Err(watched.lost(effect));
        }
        watched.looked.store(watched.micros(), Ordering::Relaxed);
        Ok(())
    }
}

impl Watched {
    fn micros(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn is_there(&self) -> bool {
        match self.path.metadata() {
            Ok(there) => *self.opened.get_or_init(|| identity(&there)) == identity(&there),
            // A pool that has opened nothing yet reports a missing file itself.
            Err(_) => self.opened.get().is_none(),
        }
    }

    fn has_lost_log(&self) -> bool {
        let log = self.log.as_ref();
        log.is_some_and(|log| log.metadata().is_err())
    }

    fn lost(&self, effect: Effect) -> Error {
        self.is_lost.store(true, Ordering::Relaxed);
        Error::new(
            ErrorKind::Misconfigured,
            effect,
            "the database file, or its -wal beside it, was deleted, renamed or replaced while the store had it open, \
             and nothing is written any more; put the right file in its place and open the store anew",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transaction::WriteTransaction;
    use crate::{Config, SqliteStore};

    /// Replaces the file after the check before the write, and before the commit.
    #[tokio::test]
    async fn a_commit_into_a_deleted_file_is_not_acknowledged() {
        for name in ["idem.db", "idem.db-wal"] {
            let folder = tempfile::tempdir().unwrap();
            let url = format!("sqlite:{}/idem.db", folder.path().display());
            let store = SqliteStore::connect(&url, Config::new()).await.unwrap();
            store.migrate().await.unwrap();
            let config = Config::new();
            let mut open = WriteTransaction::begin(&store.pools, &config)
                .await
                .unwrap();
            let insert =
                sqlx::query("INSERT INTO idem_records_watermarks VALUES ('s', 'o', 'i', 1, 1)");
            insert.execute(open.connection().unwrap()).await.unwrap();
            std::fs::remove_file(folder.path().join(name)).unwrap();
            let error = open.commit().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misconfigured);
            assert_eq!(error.effect(), Effect::Unknown);
        }
    }

    #[test]
    fn a_check_by_another_thread_meanwhile_disturbs_no_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("idem.db");
        std::fs::write(&path, "").unwrap();
        let file = DatabaseFile::new(&path, false);
        let looked = &file.0.as_ref().unwrap().looked;
        looked.store(u64::MAX, Ordering::Relaxed);
        for _ in 0..100_000 {
            file.before_read().unwrap();
        }
    }

    #[test]
    fn a_missing_file_is_remembered_once_it_exists() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("idem.db");
        let file = DatabaseFile::new(&path, false);
        file.before_write().unwrap();
        std::fs::write(&path, "").unwrap();
        file.before_write().unwrap();
        std::fs::rename(&path, folder.path().join("elsewhere")).unwrap();
        assert!(file.before_write().is_err());
        // Connections opened meanwhile may be of another file.
        std::fs::rename(folder.path().join("elsewhere"), &path).unwrap();
        assert!(file.before_write().is_err() && file.before_read().is_err());
        DatabaseFile::new(&path, false).before_write().unwrap();
    }
}
