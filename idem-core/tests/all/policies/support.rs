//! Helpers that the cases share.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use idem_core::engine::{PolicyFile, PolicyFileError};
use tempfile::TempDir;

/// A file of policies in a folder of its own.
#[derive(Debug)]
pub(crate) struct Folder(pub(crate) TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn load(&self, name: &str, text: &str) -> PolicyFile {
        PolicyFile::load(self.write(name, text)).unwrap()
    }
}

/// A default with this lease, in TOML.
pub(crate) fn lease(seconds: u64) -> String {
    format!("[default]\nlease = \"{seconds}s\"\n")
}

/// The seconds of the default's lease.
pub(crate) fn lease_of(file: &PolicyFile) -> u64 {
    file.policies().default_policy().lease().as_secs()
}

/// The reports of a watch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reports(Arc<Mutex<Vec<Result<(), String>>>>);

impl Reports {
    pub(crate) fn listener(&self) -> impl FnMut(Result<(), PolicyFileError>) + Send + 'static {
        let reports = self.clone();
        move |news| {
            let news = news.map_err(|error| error.to_string());
            reports.0.lock().unwrap().push(news);
        }
    }

    pub(crate) fn all(&self) -> Vec<Result<(), String>> {
        self.0.lock().unwrap().clone()
    }
}

/// Waits for a condition, at most half a minute.
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "not in time: {what}"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}
