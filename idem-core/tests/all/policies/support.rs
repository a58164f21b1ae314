//! Helpers that the cases share.

use std::path::PathBuf;

use idem_core::engine::PolicyFile;
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
