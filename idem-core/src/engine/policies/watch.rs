//! [`PolicyWatch`]: reloads a file of policies when it changes.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};

use super::{PolicyFile, PolicyFileError};

/// How a file is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchOptions {
    settle: Duration,
    poll: Duration,
}

impl Default for WatchOptions {
    fn default() -> Self {
        Self {
            settle: Duration::from_millis(100),
            poll: Duration::from_secs(5),
        }
    }
}

impl WatchOptions {
    /// Sets how long the text has to stay unchanged before it is read as policies. Default: 100 ms.
    /// A file that is written in place is otherwise seen half written: better write another file
    /// and rename it.
    #[must_use]
    pub fn with_settle(mut self, settle: Duration) -> Self {
        self.settle = settle;
        self
    }

    /// Sets how often the file is checked. Default: 5 s. The check finds changes that the system
    /// does not report or misses, as on network file systems or when a folder above is replaced.
    #[must_use]
    pub fn with_poll(mut self, poll: Duration) -> Self {
        self.poll = poll.max(Duration::from_millis(1));
        self
    }
}

/// Watches until it is dropped.
#[must_use = "the file is watched until this is dropped"]
pub struct PolicyWatch {
    stop: Arc<AtomicBool>,
    wake: SyncSender<()>,
    watcher: Option<RecommendedWatcher>,
    path: PathBuf,
}

impl PolicyFile {
    /// Reads the file again whenever it changes, in a thread of its own, until the returned value
    /// is dropped. It calls `on_change` once for each change: with the new policies, or with the error
    /// of a refused file, while the earlier policies still hold. With the feature `tracing` both
    /// are logged as well.
    ///
    /// It sees files that are written, replaced by a rename, or swapped by a symbolic link, as
    /// Kubernetes does.
    ///
    /// # Errors
    ///
    /// When no thread can be started.
    pub fn watch(
        &self,
        options: WatchOptions,
        on_change: impl FnMut(Result<(), PolicyFileError>) + Send + 'static,
    ) -> Result<PolicyWatch, PolicyFileError> {
        let (wake, woken) = sync_channel(1);
        let stop = Arc::new(AtomicBool::new(false));
        let watcher = watcher(self.path(), wake.clone());
        let reloader = Reloader {
            file: self.clone(),
            options,
            on_change,
            stop: Arc::clone(&stop),
            woken,
            seen: None,
        };
        let thread = thread::Builder::new().name("idem-policies".to_owned());
        thread.spawn(|| reloader.run()).map_err(|error| {
            let reason = "there is no thread to watch it";
            PolicyFileError::new(reason)
                .in_file(self.path())
                .with_source(error)
        })?;
        Ok(PolicyWatch {
            stop,
            wake,
            watcher,
            path: self.path().to_path_buf(),
        })
    }
}

impl PolicyWatch {
    /// Returns whether the system reports changes; otherwise the file is checked from time to time.
    #[must_use]
    pub fn is_notified(&self) -> bool {
        self.watcher.is_some()
    }
}

impl Drop for PolicyWatch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // A wake-up that is already queued suffices.
        let _ = self.wake.try_send(());
    }
}

impl fmt::Debug for PolicyWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyWatch")
            .field("path", &self.path)
            .field("is_notified", &self.is_notified())
            .finish_non_exhaustive()
    }
}

/// Watches the folder, because files are replaced by others of the same name.
fn watcher(path: &Path, wake: SyncSender<()>) -> Option<RecommendedWatcher> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let heard = move |event: notify::Result<Event>| {
        if event.is_ok_and(|event| is_change(event.kind)) {
            let _ = wake.try_send(());
        }
    };
    let mut watcher = notify::recommended_watcher(heard).ok()?;
    watcher.watch(folder, RecursiveMode::NonRecursive).ok()?;
    Some(watcher)
}

/// A read of the file is not a change, or each check would lead to the next.
fn is_change(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(access) => access == AccessKind::Close(AccessMode::Write),
        _ => true,
    }
}

/// A text, or why there is none.
type Seen = Result<String, String>;

struct Reloader<T> {
    file: PolicyFile,
    options: WatchOptions,
    on_change: T,
    stop: Arc<AtomicBool>,
    woken: Receiver<()>,
    /// What was read last, and whether it was accepted.
    seen: Option<(Seen, bool)>,
}

impl<T: FnMut(Result<(), PolicyFileError>)> Reloader<T> {
    fn run(mut self) {
        // A change since the file was loaded is seen at once.
        loop {
            self.look();
            match self.woken.recv_timeout(self.options.poll) {
                Err(RecvTimeoutError::Disconnected) => return,
                Ok(()) | Err(RecvTimeoutError::Timeout) if self.is_stopped() => return,
                Ok(()) | Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    fn look(&mut self) {
        let mut now = self.file.text();
        if self
            .seen
            .as_ref()
            .is_some_and(|(seen, _)| *seen == shown(&now))
        {
            return;
        }
        loop {
            thread::sleep(self.options.settle);
            if self.is_stopped() {
                return;
            }
            let before = shown(&now);
            now = self.file.text();
            if before == shown(&now) {
                return self.take(now);
            }
        }
    }

    fn take(&mut self, text: Result<String, PolicyFileError>) {
        let seen = shown(&text);
        let taken = {
            let _one = self.file.one_at_a_time();
            text.and_then(|text| self.file.install(&text))
        };
        let was_refused = self.seen.as_ref().is_some_and(|(_, refused)| *refused);
        self.seen = Some((seen, taken.is_err()));
        #[cfg(feature = "tracing")]
        match &taken {
            Ok(true) => tracing::info!(file = %self.file.path().display(), "new policies"),
            Ok(false) => {}
            Err(error) => tracing::error!(%error, "policies refused; the old ones stay"),
        }
        match taken {
            Ok(is_other) if is_other || was_refused => (self.on_change)(Ok(())),
            Ok(_) => {}
            Err(error) => (self.on_change)(Err(error)),
        }
    }
}

fn shown(text: &Result<String, PolicyFileError>) -> Seen {
    match text {
        Ok(text) => Ok(text.clone()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_of_the_file_is_no_change() {
        let access = EventKind::Access;
        assert!(!is_change(access(AccessKind::Open(AccessMode::Any))));
        assert!(!is_change(access(AccessKind::Close(AccessMode::Read))));
        assert!(is_change(access(AccessKind::Close(AccessMode::Write))));
        assert!(is_change(EventKind::Any));
    }
}
