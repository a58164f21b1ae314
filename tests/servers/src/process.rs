//! Processes that are not (or no longer) children of this one.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal as UnixSignal, kill_process, test_kill_process};
use serde::{Deserialize, Serialize};

const PAUSE: Duration = Duration::from_millis(10);

/// Freezes a process: it keeps its ports and connections, and does nothing.
pub(crate) const STOP: UnixSignal = UnixSignal::STOP;

/// A signal that ends a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Signal {
    /// SIGTERM.
    Term,
    /// SIGQUIT: PostgreSQL's immediate shutdown.
    Quit,
    /// SIGKILL.
    Kill,
}

/// One process: its number and, if the system reports it, its start time, so that a later process
/// with the same number is not mistaken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The process number.
    pub pid: u32,
    /// The start time in clock ticks since the machine's start, on Linux.
    pub started: Option<u64>,
}

impl Identity {
    /// Returns the process that has this number now.
    pub fn of(pid: u32) -> Self {
        Self {
            pid,
            started: Stat::read(pid).map(|stat| stat.started),
        }
    }

    /// Returns whether that process still runs; a zombie does not.
    pub fn is_alive(&self) -> bool {
        match (self.started, Stat::read(self.pid)) {
            (Some(started), Some(stat)) => stat.started == started && stat.state != 'Z',
            (Some(_), None) => false,
            (None, _) => native(self.pid).is_some_and(|pid| test_kill_process(pid).is_ok()),
        }
    }

    /// Sends the signal if the process still runs. A frozen process is continued, so that it
    /// receives it.
    pub fn signal(&self, signal: Signal) {
        self.send(match signal {
            Signal::Term => UnixSignal::TERM,
            Signal::Quit => UnixSignal::QUIT,
            Signal::Kill => UnixSignal::KILL,
        });
        self.thaw();
    }

    /// Sends SIGCONT: the process continues.
    pub(crate) fn thaw(&self) {
        self.send(UnixSignal::CONT);
    }

    pub(crate) fn send(&self, signal: UnixSignal) {
        if let Some(pid) = native(self.pid).filter(|_| self.is_alive()) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Waits for its end, for `time` at most. Returns whether it has ended.
    pub fn wait_gone(&self, time: Duration) -> bool {
        wait_until(time, || !self.is_alive())
    }

    /// Returns the processes that it started and that still run (Linux; empty elsewhere).
    pub(crate) fn children(&self) -> Vec<Self> {
        let Ok(entries) = std::fs::read_dir("/proc") else {
            return Vec::new();
        };
        let pids = entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter_map(|pid| Stat::read(pid).map(|stat| (pid, stat)))
            .filter(|(_, stat)| stat.parent == self.pid)
            .map(|(pid, stat)| Self {
                pid,
                started: Some(stat.started),
            })
            .collect()
    }
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

fn native(pid: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(pid).ok()?)
}

/// The contents of `/proc/PID/stat`.
struct Stat {
    state: char,
    parent: u32,
    started: u64,
}

impl Stat {
    fn read(pid: u32) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Parses the fields after the last parenthesis: the second field is the program's name in
    /// parentheses and may contain anything.
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        Some(Self {
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{Identity, Signal, Stat};

    #[test]
    fn a_program_name_with_parentheses_does_not_shift_the_fields() {
        let line = "42 (od d) x) S 7 1 1 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 987654 1 1";
        let stat = Stat::parse(line).unwrap();
        assert_eq!((stat.state, stat.parent, stat.started), ('S', 7, 987_654));
    }

    #[test]
    fn a_killed_process_is_not_alive_even_before_it_is_reaped() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let identity = Identity::of(child.id());
        assert!(identity.is_alive());
        identity.signal(Signal::Kill);
        assert!(identity.wait_gone(std::time::Duration::from_secs(10)));
        child.wait().unwrap();
        assert!(!identity.is_alive());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_same_number_with_another_birth_is_another_process() {
        let mut other = Identity::of(std::process::id());
        assert!(other.is_alive());
        other.started = other.started.map(|ticks| ticks + 1);
        assert!(!other.is_alive());
    }
}
