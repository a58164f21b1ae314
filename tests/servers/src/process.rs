//! Signals to processes, and waiting.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

const PAUSE: Duration = Duration::from_millis(10);

/// Sends a signal, except to a process that has ended.
pub(crate) fn send(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// Returns the processes that this one started and that still run (Linux; empty elsewhere).
pub(crate) fn children(parent: u32) -> Vec<u32> {
    let line = format!("\nPPid:\t{parent}\n");
    let is_child = |pid: &u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status"));
        status.is_ok_and(|status| status.contains(&line))
    };
    all().filter(is_child).collect()
}

/// Returns the processes whose working folder is within that one (Linux; empty elsewhere). Servers
/// work in their own folder, also those that another process has started and left.
pub(crate) fn inside(folder: &Path) -> Vec<u32> {
    // The system names it without symbolic links.
    let Ok(folder) = folder.canonicalize() else {
        return Vec::new();
    };
    let is_inside = |pid: &u32| {
        let works_in = fs::read_link(format!("/proc/{pid}/cwd"));
        works_in.is_ok_and(|works_in| works_in.starts_with(&folder))
    };
    all().filter(is_inside).collect()
}

/// Returns every process (Linux; empty elsewhere).
fn all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Waits until `done` returns true, for `time` at most. Returns whether it did.
pub(crate) fn wait_until(time: Duration, mut done: impl FnMut() -> bool) -> bool {
    retry(time, || done().then_some(()).ok_or(())).is_ok()
}

/// Retries until it succeeds, for `time` at most.
pub(crate) fn retry<T, E>(time: Duration, mut done: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    let deadline = Instant::now() + time;
    loop {
        match done() {
            Err(_) if Instant::now() < deadline => std::thread::sleep(PAUSE),
            done => return done,
        }
    }
}
