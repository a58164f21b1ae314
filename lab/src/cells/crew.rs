//! [`Crew`]: the processes that call the store.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use idem_core::BoxError;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rustix::process::{Pid, Signal, kill_process};

use super::Segment;
use super::work::Work;

/// How long a process may take to end: its callers wait for the store's own time-outs.
const TIME_TO_END: Duration = Duration::from_secs(60);

/// The processes that call the store. Dropping it kills them.
pub(crate) struct Crew {
    pub(crate) random: StdRng,
    pub(crate) workers: Vec<Child>,
    pub(crate) namespace: String,
    pub(crate) folder: PathBuf,
    pub(crate) store: String,
    /// How much they do.
    segment: Segment,
    /// The seed of each that was started.
    pub(crate) seeds: Vec<u64>,
    /// The program that starts them, if there is one.
    by: Option<PathBuf>,
    /// Whether they delete expired records.
    purges: bool,
    /// Whether they complete in transactions, too.
    rows: bool,
    /// How many were started, the replaced ones included.
    started: u64,
}

impl Crew {
    pub(crate) fn new(segment: Segment, namespace: &str, folder: &Path, store: &str) -> Self {
        Self {
            random: StdRng::seed_from_u64(segment.seed),
            workers: Vec::new(),
            namespace: namespace.to_owned(),
            folder: folder.to_owned(),
            store: store.to_owned(),
            segment,
            seeds: Vec::new(),
            by: None,
            purges: true,
            rows: false,
            started: 0,
        }
    }

    /// Starts them by this program.
    pub(crate) fn by(mut self, program: PathBuf) -> Self {
        self.by = Some(program);
        self
    }

    /// Lets them delete no expired records.
    pub(crate) fn without_purges(mut self) -> Self {
        self.purges = false;
        self
    }

    /// Lets them complete in transactions, too.
    pub(crate) fn with_rows(mut self) -> Self {
        self.rows = true;
        self
    }

    /// Starts one more.
    pub(crate) fn start(&mut self) -> Result<(), BoxError> {
        self.started += 1;
        let seed = self.random.random();
        self.seeds.push(seed);
        let work = Work {
            namespace: self.namespace.clone(),
            file: self.folder.join(format!("{}.ndjson", self.started)),
            seed,
            callers: self.segment.callers,
            fresh: self.segment.fresh,
            purges: self.purges,
            rows: self.rows,
        };
        let program = std::env::current_exe()?;
        let mut command = match &self.by {
            Some(by) => Command::new(by),
            None => Command::new(&program),
        };
        if self.by.is_some() {
            command.arg(&program);
        }
        let worker = command
            .args(["cell-work", &serde_json::to_string(&work)?])
            .env("IDEM_PROVE_STORE", &self.store)
            .stdin(Stdio::piped())
            .spawn()?;
        self.workers.push(worker);
        Ok(())
    }

    /// Returns one of them.
    pub(crate) fn any(&mut self) -> usize {
        self.random.random_range(0..self.workers.len())
    }

    /// Sends a signal to one.
    pub(crate) fn signal(&self, at: usize, signal: Signal) -> Result<u32, BoxError> {
        let id = self.workers[at].id();
        let pid = Pid::from_raw(i32::try_from(id)?).ok_or("a process has number 0")?;
        kill_process(pid, signal)?;
        Ok(id)
    }

    /// Sends a signal to all.
    pub(crate) fn signal_all(&self, signal: Signal) -> Result<(), BoxError> {
        (0..self.workers.len()).try_for_each(|at| self.signal(at, signal).map(drop))
    }

    /// Kills one with SIGKILL, and starts another in its place.
    pub(crate) fn kill(&mut self, at: usize) -> Result<u32, BoxError> {
        let id = self.signal(at, Signal::KILL)?;
        self.workers.swap_remove(at).wait()?;
        self.start()?;
        Ok(id)
    }

    /// Kills all with SIGKILL. Returns how many.
    pub(crate) fn kill_all(&mut self) -> Result<usize, BoxError> {
        let count = self.workers.len();
        self.signal_all(Signal::KILL)?;
        for mut worker in self.workers.drain(..) {
            worker.wait()?;
        }
        Ok(count)
    }

    /// Fails if one has ended by itself.
    pub(crate) fn check(&mut self) -> Result<(), BoxError> {
        for worker in &mut self.workers {
            if let Some(status) = worker.try_wait()? {
                return Err(format!("a worker ended with {status}").into());
            }
        }
        Ok(())
    }

    /// Lets them end, and waits for that.
    pub(crate) fn end(&mut self) -> Result<(), BoxError> {
        self.check()?;
        for worker in &mut self.workers {
            drop(worker.stdin.take());
        }
        let deadline = Instant::now() + TIME_TO_END;
        while let Some(worker) = self.workers.last_mut() {
            match worker.try_wait()? {
                Some(status) if status.success() => drop(self.workers.pop()),
                Some(status) => return Err(format!("a worker ended with {status}").into()),
                None if Instant::now() > deadline => {
                    return Err("a worker did not end in time".into());
                }
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        }
        Ok(())
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            let _ = worker.kill();
            let _ = worker.wait();
        }
    }
}
