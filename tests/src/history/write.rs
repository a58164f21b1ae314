//! [`Recorder`]: appends lines to a history.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::time::{ClockId, clock_gettime};

use super::{Fault, Head, Invocation, Line, Return};
use crate::spec::{Answer, Call};

/// Appends what one process sees to a file. A clone writes to the same one.
#[derive(Debug, Clone)]
pub struct Recorder {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    file: Mutex<File>,
    next: AtomicU64,
    caches: bool,
}

impl Recorder {
    /// Creates the file with its first line.
    ///
    /// # Errors
    ///
    /// The file cannot be created, or exists.
    pub fn create(path: &Path, head: Head) -> io::Result<Self> {
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(path)?;
        let inner = Inner {
            file: Mutex::new(file),
            next: AtomicU64::new(1),
            caches: head.caches,
        };
        let recorder = Self {
            inner: Arc::new(inner),
        };
        recorder.append(&Line::Head(head))?;
        Ok(recorder)
    }

    /// Notes a call; returns its number for the answer.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn invoke(&self, key: &str, call: Call) -> io::Result<u64> {
        let id = self.inner.next.fetch_add(1, Ordering::Relaxed);
        let invocation = Invocation {
            id,
            c0: monotonic(),
            k: key.to_owned(),
            call,
        };
        self.append(&Line::Inv(invocation))?;
        Ok(id)
    }

    /// Notes an answer.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn answer(&self, id: u64, now: Option<i64>, answer: Answer) -> io::Result<()> {
        let is_cached = self.inner.caches
            && matches!(answer, Answer::Completed { .. } | Answer::Conflict { .. });
        let now = now.filter(|_| !is_cached);
        self.append(&Line::Ret(Return {
            id,
            c1: monotonic(),
            now,
            answer,
        }))
    }

    /// Notes a fault.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn fault(&self, fault: Fault) -> io::Result<()> {
        self.append(&Line::Nem(fault))
    }

    /// Writes a line with one call, so that two processes or a kill tear at most the last one.
    fn append(&self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        let file = self.inner.file.lock();
        file.unwrap_or_else(PoisonError::into_inner)
            .write_all(&text)
    }
}

/// Returns the machine's monotonic clock in microseconds, which all processes share.
#[must_use]
pub fn monotonic() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
}
