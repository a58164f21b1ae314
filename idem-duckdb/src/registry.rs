//! The instances that this process has open: one for each file.
//!
//! Two instances of DuckDB on one file would each write their own version of it: the lock on the
//! file keeps other processes out, not a second instance in this one. So all handles of a file
//! share an instance, and another is opened only when the one before is closed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use idem_core::Result;
use idem_sql::schema::misconfigured;

use crate::instance::Instance;

/// The state of a file.
enum Slot {
    /// A thread opens or adopts it.
    Opening,
    /// Where the instance is gone, a thread closes it.
    Open(Weak<Instance>, Option<Identity>),
}

/// Device and inode of a file; on a system without them only the path counts.
type Identity = (u64, u64);

static OPEN: Mutex<BTreeMap<PathBuf, Slot>> = Mutex::new(BTreeMap::new());

fn slots() -> MutexGuard<'static, BTreeMap<PathBuf, Slot>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(unix)]
fn identity(path: &Path) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;
    let file = path.metadata().ok()?;
    Some((file.dev(), file.ino()))
}

#[cfg(not(unix))]
fn identity(_: &Path) -> Option<Identity> {
    None
}

/// Returns the path without links and detours, for a file that may be missing.
fn canonical(path: &Path) -> PathBuf {
    if let Ok(path) = path.canonicalize() {
        return path;
    }
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let folder = absolute
        .parent()
        .and_then(|folder| folder.canonicalize().ok());
    match (folder, absolute.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => absolute,
    }
}

/// The place of a file. Dropped before [`opened`](Self::opened), it is free again.
pub(crate) struct Place(PathBuf);

/// An instance that is open, or the place for one; `None` while another thread opens or closes it.
pub(crate) enum Found {
    Open(Arc<Instance>),
    Free(Place),
}

/// Looks for the instance of this file.
///
/// # Errors
///
/// `Misconfigured` where the file was deleted or replaced while an instance has it open.
pub(crate) fn find(path: &Path) -> Result<Option<Found>> {
    let (path, now) = (canonical(path), identity(path));
    let mut slots = slots();
    // The same file may have another name: a hard link.
    let is_same =
        |slot: &Slot| matches!(slot, Slot::Open(_, then) if now.is_some() && *then == now);
    let slot = slots
        .get(&path)
        .or_else(|| slots.values().find(|slot| is_same(slot)));
    let Some(slot) = slot else {
        slots.insert(path.clone(), Slot::Opening);
        return Ok(Some(Found::Free(Place(path))));
    };
    let Slot::Open(instance, then) = slot else {
        return Ok(None);
    };
    let Some(instance) = instance.upgrade() else {
        return Ok(None);
    };
    if *then != now {
        return Err(misconfigured(
            "the database file was deleted, renamed or replaced while this process has it open; \
             put the right file in its place, and close all handles before you open it again",
        ));
    }
    Ok(Some(Found::Open(instance)))
}

impl Place {
    /// Returns the path to open.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Enters the instance, which has made the file if it was missing.
    pub(crate) fn opened(mut self, instance: Instance) -> Arc<Instance> {
        let path = std::mem::take(&mut self.0);
        let identity = identity(&path);
        let instance = Arc::new(instance.at(path.clone()));
        let slot = Slot::Open(Arc::downgrade(&instance), identity);
        slots().insert(path, slot);
        instance
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.0.as_os_str().is_empty() {
            slots().remove(&self.0);
        }
    }
}

/// Forgets an instance, whose connections are closed.
pub(crate) fn closed(path: &Path) {
    slots().remove(path);
}
