use std::fs::{DirBuilder, File};
use std::hash::{BuildHasher, RandomState};
use std::net::TcpListener;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use crate::error::Doing;
use crate::{Error, Result};

/// Below the usual range of outgoing connections, so that a restarted server finds its port still
/// free.
const RANGE: std::ops::Range<u16> = 10_000..22_700;
const ATTEMPTS: u64 = 200;

/// A port of 127.0.0.1 that no other private server takes while this value lives, started or not.
#[derive(Debug)]
pub(crate) struct Reservation {
    port: u16,
    _lock: File,
}

impl Reservation {
    /// Reserves a free port.
    pub(crate) fn new() -> Result<Self> {
        let folder = lock_folder()?;
        let random = RandomState::new();
        (0..ATTEMPTS)
            .map(|attempt| random.hash_one(attempt) % u64::from(RANGE.end - RANGE.start))
            .filter_map(|offset| RANGE.start.checked_add(u16::try_from(offset).ok()?))
            .find_map(|port| Self::try_port(&folder, port))
            .ok_or_else(|| Error::failed(format!("no free port on 127.0.0.1 in {RANGE:?}")))
    }

    fn try_port(folder: &std::path::Path, port: u16) -> Option<Self> {
        let lock = File::create(folder.join(port.to_string())).ok()?;
        lock.try_lock().ok()?;
        TcpListener::bind(("127.0.0.1", port)).ok()?;
        Some(Self { port, _lock: lock })
    }

    /// Returns the port.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

/// Returns one folder of lock files per user: another user's files could not be opened.
fn lock_folder() -> Result<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let folder = std::env::temp_dir().join(format!("idem-ports-{user}"));
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)
        .doing(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{RANGE, Reservation};

    #[test]
    fn ports_reserved_at_the_same_time_differ() {
        let held: Vec<_> = (0..50).map(|_| Reservation::new().unwrap()).collect();
        let ports: HashSet<_> = held.iter().map(Reservation::port).collect();
        assert_eq!(ports.len(), held.len());
        assert!(ports.iter().all(|port| RANGE.contains(port)));
    }
}
