//! [`Log`]: the file with the keys, one line of JSON for each intent.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind as IoErrorKind, Write};
use std::path::{Path, PathBuf};

use idem_core::Fingerprint;
use serde::{Deserialize, Serialize};

use crate::issued::KeptKey;
use crate::{Error, ErrorKind};

/// A line of the file.
#[derive(Clone, Serialize, Deserialize)]
struct Line {
    intent: String,
    #[serde(flatten)]
    entry: Entry,
}

/// What is kept for an intent.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) fingerprint: Fingerprint,
    #[serde(flatten)]
    pub(super) kept: KeptKey,
}

/// An open file, locked against other processes.
pub(super) struct Log {
    path: PathBuf,
    file: File,
    /// Its lock ends with the process, or when this log is dropped.
    lock: File,
    entries: HashMap<String, Entry>,
    /// The latest instant in the file, in milliseconds since 1970 began.
    latest: u64,
    /// Whether an append has failed, so that the end of the file is not known.
    is_broken: bool,
}

impl Log {
    /// Opens the file, and creates a missing one. Removes a last line without its end: its key was
    /// never returned, so never sent.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let lock = lock(path)?;
        let file = private().append(true).open(path);
        let file = file.and_then(narrowed).map_err(unusable)?;
        let text = fs::read(path).map_err(unusable)?;
        let whole = text
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |end| end + 1);
        if whole < text.len() {
            tracing::warn!(
                bytes = text.len() - whole,
                "removed a torn line of the file of keys"
            );
            // A handle that appends may not truncate, on Windows.
            let torn = OpenOptions::new().write(true).open(path);
            let torn = torn.map_err(unusable)?;
            torn.set_len(whole as u64).map_err(unusable)?;
        }
        // The file itself and its name have to survive, too.
        file.sync_all().map_err(unusable)?;
        sync_folder(path).map_err(unusable)?;
        let mut log = Self {
            path: path.to_owned(),
            file,
            lock,
            entries: HashMap::new(),
            latest: 0,
            is_broken: false,
        };
        for (number, line) in text[..whole].split(|byte| *byte == b'\n').enumerate() {
            if !line.is_empty() {
                let line: Line = serde_json::from_slice(line)
                    .map_err(|error| damaged(number + 1).with_source(error))?;
                log.remember(line);
            }
        }
        Ok(log)
    }

    pub(super) fn get(&self, intent: &str) -> Option<&Entry> {
        self.entries.get(intent)
    }

    pub(super) fn latest(&self) -> u64 {
        self.latest
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Appends the entry of a new intent. It is on the disk when this returns.
    pub(super) fn add(&mut self, intent: &str, entry: Entry) -> Result<(), Error> {
        if self.is_broken {
            return Err(Error::new(
                ErrorKind::KeysUnavailable,
                "a write to the file of keys has failed before; open the file again",
            ));
        }
        let line = Line {
            intent: intent.to_owned(),
            entry,
        };
        let mut text = serde_json::to_vec(&line)
            .map_err(|error| Error::corrupt("an entry has no JSON form").with_source(error))?;
        text.push(b'\n');
        // After a failure the file may end anywhere, or the disk may lack what the file shows.
        self.is_broken = true;
        self.file.write_all(&text).map_err(unwritten)?;
        self.file.sync_data().map_err(unwritten)?;
        self.is_broken = false;
        self.remember(line);
        Ok(())
    }

    /// Replaces the file by one with the entries that were made at this instant or later. Returns
    /// how many are gone.
    pub(super) fn forget_before(&mut self, instant: u64) -> Result<usize, Error> {
        let is_kept = |entry: &Entry| entry.kept.first_sent >= instant;
        let gone = self
            .entries
            .values()
            .filter(|entry| !is_kept(entry))
            .count();
        if gone == 0 {
            return Ok(0);
        }
        let mut text = Vec::new();
        for (intent, entry) in self.entries.iter().filter(|(_, entry)| is_kept(entry)) {
            let line = Line {
                intent: intent.clone(),
                entry: entry.clone(),
            };
            serde_json::to_writer(&mut text, &line)
                .map_err(|error| Error::corrupt("an entry has no JSON form").with_source(error))?;
            text.push(b'\n');
        }
        let new_path = beside(&self.path, ".new");
        let new = private().write(true).truncate(true).open(&new_path);
        let mut new = new.and_then(narrowed).map_err(unwritten)?;
        new.write_all(&text).map_err(unwritten)?;
        new.sync_all().map_err(unwritten)?;
        drop(new);
        fs::rename(&new_path, &self.path).map_err(unwritten)?;
        // From here until the new file is open, appends would go to a file without a name.
        self.is_broken = true;
        sync_folder(&self.path).map_err(unwritten)?;
        self.file = OpenOptions::new()
            .append(true)
            .open(&self.path)
            .map_err(unwritten)?;
        self.is_broken = false;
        self.entries.retain(|_, entry| is_kept(entry));
        Ok(gone)
    }

    fn remember(&mut self, line: Line) {
        self.latest = self.latest.max(line.entry.kept.first_sent);
        // The first key of an intent stands: it may have been sent.
        self.entries.entry(line.intent).or_insert(line.entry);
    }
}

impl Drop for Log {
    /// Ends the lock at once: a child process that is being started has a copy of the handle for a
    /// moment, which would hold the lock.
    fn drop(&mut self) {
        let _ = self.lock.unlock();
    }
}

/// Locks a file beside this one. The file itself may be replaced, a lock on it would go with it.
fn lock(path: &Path) -> Result<File, Error> {
    let lock = private().write(true).open(beside(path, ".lock"));
    let lock = lock.map_err(unusable)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(Error::new(
            ErrorKind::Misconfigured,
            "the file of keys is open in another process, or twice in this one; a file belongs to \
             one process, and several processes share a store (`StoreKeys`)",
        )),
        Err(TryLockError::Error(error)) => Err(unusable(error)),
    }
}

/// Returns options that create a file for its owner alone: who knows a key can read its answer.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Takes the file from everybody but its owner, where it was there before.
#[cfg(unix)]
fn narrowed(file: File) -> io::Result<File> {
    use std::os::unix::fs::PermissionsExt;

    let mut permissions = file.metadata()?.permissions();
    if permissions.mode() & 0o077 != 0 {
        tracing::warn!("the file of keys was open to other users; now it is its owner's alone");
        permissions.set_mode(permissions.mode() & !0o077);
        file.set_permissions(permissions)?;
    }
    Ok(file)
}

/// On other systems the folder decides.
#[cfg(not(unix))]
fn narrowed(file: File) -> io::Result<File> {
    Ok(file)
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Makes the name of the file durable.
#[cfg(unix)]
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Other systems do not open folders; Windows writes names through its journal.
#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

fn damaged(line: usize) -> Error {
    Error::corrupt(format!(
        "line {line} of the file of keys cannot be read; restore the file, because each line is a \
         key that may have been sent"
    ))
}

fn unusable(error: io::Error) -> Error {
    let kind = match error.kind() {
        IoErrorKind::NotFound | IoErrorKind::PermissionDenied | IoErrorKind::IsADirectory => {
            ErrorKind::Misconfigured
        }
        _ => ErrorKind::KeysUnavailable,
    };
    Error::new(kind, "the file of keys cannot be opened").with_source(error)
}

fn unwritten(error: io::Error) -> Error {
    Error::new(
        ErrorKind::KeysUnavailable,
        "the file of keys cannot be written; nothing was sent",
    )
    .with_source(error)
}
