//! The faults: each is injected, lasts, and is healed.

use std::path::Path;
use std::time::{Duration, Instant};

use idem_core::BoxError;
use idem_servers::Instance;
use rand::RngExt;
use rustix::process::Signal;

use super::inside::Scene;
use super::kind::{Kind, OnCache, Steps};
use super::work::LEASE;
use crate::history::Outcome;
use crate::nemesis::memory;
use crate::nemesis::network::{Cut, Way};
use crate::product::{Running, port_of};

/// The acknowledged claims and results of the others while one worker is paused.
const BESIDE: u64 = 100;

/// The calls that are sent while a fault lasts.
const UNDER: u64 = 100;

/// How long a fault lasts at most, when callers wait for its end: those of a store whose lock a
/// paused process holds, or whose answers are cut off.
const LONGEST: Duration = Duration::from_secs(3);

/// How long a forced write may take to fail.
const TIME_TO_FAIL: Duration = Duration::from_secs(20);

/// What failed of a fault.
pub(super) enum Failed {
    /// It did not take place.
    Injecting(BoxError),
    /// It did, with this proof, but the store did not come back.
    Healing(String, BoxError),
}

impl<E: Into<BoxError>> From<E> for Failed {
    fn from(error: E) -> Self {
        Self::Injecting(error.into())
    }
}

type Injected = Result<Outcome, Failed>;

fn installed(proof: impl Into<String>) -> Injected {
    let proof = proof.into();
    Ok(Outcome::Installed { proof })
}

fn skipped(why: impl Into<String>) -> Injected {
    let why = why.into();
    Ok(Outcome::Skipped { why })
}

impl Scene<'_> {
    /// Injects the cell's fault, and heals it.
    pub(super) fn inject(&mut self) -> Injected {
        match self.cell.kind {
            Kind::PowerCut => self.cut_power(),
            Kind::ServerKill => self.kill_server(),
            Kind::PoolerKill => self.kill_pooler(),
            Kind::ServerStop => self.stop_server(),
            Kind::WorkerKill => self.kill_worker(),
            Kind::WorkerStop => self.stop_worker(),
            Kind::FailingWrites => self.fail_writes(),
            Kind::WriteBack => self.fail_write_back(),
            Kind::FullDisk => self.fill_disk(),
            Kind::Cut(way) => self.cut_network(way),
            Kind::Clock(steps) => self.set_clock(steps),
            Kind::Cache(what) => self.disturb_cache(what),
            Kind::FullMemory => self.fill_memory(),
            Kind::FailOver(_) => Err(Failed::Injecting("a fail-over needs no sandbox".into())),
        }
    }

    fn cut_power(&mut self) -> Injected {
        let (disk, crew) = (&self.disk, &mut self.crew);
        let proof = match &mut self.running {
            Running::Server(served) => {
                // All at one instant: nothing may be acknowledged after the cut.
                served.on_disk().try_for_each(Instance::freeze)?;
                let proof = disk.cut()?;
                served.on_disk().try_for_each(Instance::kill)?;
                disk.restore()?;
                forget_processes()?;
                let restarted = served.on_disk().try_for_each(Instance::restart);
                restarted.map_err(|error| Failed::Healing(proof.clone(), error.into()))?;
                proof
            }
            Running::Cluster(nodes, _) => {
                let mut each = 0..nodes.nodes();
                each.clone().try_for_each(|node| nodes.freeze(node))?;
                let proof = disk.cut()?;
                each.try_for_each(|node| nodes.kill(node))?;
                disk.restore()?;
                forget_processes()?;
                let recovered = nodes.recover();
                recovered.map_err(|error| Failed::Healing(proof.clone(), error.into()))?;
                proof
            }
            Running::Files(_) => {
                crew.signal_all(Signal::STOP)?;
                let proof = disk.cut()?;
                let workers = crew.kill_all()?;
                disk.restore()?;
                (0..workers).try_for_each(|_| crew.start())?;
                proof
            }
        };
        installed(proof)
    }

    fn kill_server(&mut self) -> Injected {
        let Running::Server(served) = &mut self.running else {
            return skipped("there is no server");
        };
        let server = served.server();
        server.kill()?;
        let proof = "SIGKILL to every process; none is left".to_owned();
        let restarted = server.restart();
        restarted.map_err(|error| Failed::Healing(proof.clone(), error.into()))?;
        installed(proof)
    }

    fn kill_pooler(&mut self) -> Injected {
        let Running::Server(served) = &mut self.running else {
            return skipped("there is no server");
        };
        let Some(front) = served.front() else {
            return skipped("there is no pooler");
        };
        front.kill()?;
        front.restart()?;
        installed("SIGKILL to the pooler; it is gone")
    }

    fn stop_server(&mut self) -> Injected {
        let Running::Server(served) = &mut self.running else {
            return skipped("there is no server");
        };
        let server = served.server();
        let began = Instant::now();
        server.freeze()?;
        std::thread::sleep(LEASE * 3);
        server.thaw()?;
        let millis = began.elapsed().as_millis();
        installed(format!("SIGSTOP to every process for {millis} ms"))
    }

    fn kill_worker(&mut self) -> Injected {
        let at = self.crew.any();
        let id = self.crew.kill(at)?;
        installed(format!("SIGKILL to process {id}, which was waited for"))
    }

    fn stop_worker(&mut self) -> Injected {
        let at = self.crew.any();
        let id = self.crew.signal(at, Signal::STOP)?;
        let began = Instant::now();
        // Others take its claims over, unless it holds the lock of a file.
        let from = self.progress.acknowledged;
        self.wait(LONGEST, |progress| progress.acknowledged >= from + BESIDE)?;
        std::thread::sleep((LEASE * 2).saturating_sub(began.elapsed()));
        self.crew.signal(at, Signal::CONT)?;
        let (beside, millis) = (
            self.progress.acknowledged - from,
            began.elapsed().as_millis(),
        );
        installed(format!(
            "SIGSTOP to process {id} for {millis} ms, beside {beside} acknowledgements"
        ))
    }

    fn fail_writes(&mut self) -> Injected {
        // Each process' own count: late enough to begin its work.
        let number = self.crew.random.random_range(80..160);
        self.start.by(&self.injected.start(number))?;
        match &mut self.running {
            // It may fail while it starts.
            Running::Server(served) => drop(served.server().restart()),
            Running::Cluster(..) => return skipped("nodes are not started again one by one"),
            Running::Files(_) => self.renew_crew()?,
        }
        // Those of a start are of no caller.
        let before = self.injected.count()?;
        let (began, from) = (Instant::now(), self.progress.sent);
        while self.injected.count()? == before && began.elapsed() < TIME_TO_FAIL {
            std::thread::sleep(Duration::from_millis(50));
        }
        self.wait(LONGEST, |progress| progress.sent >= from + UNDER)?;
        let failed = self.injected.count()? - before;
        let proof = format!("{failed} forced writes failed with EIO");
        self.start.plainly()?;
        match &mut self.running {
            Running::Server(served) => {
                let server = served.server();
                let restarted = server.restart();
                restarted.map_err(|error| Failed::Healing(proof.clone(), error.into()))?;
            }
            _ => self.renew_crew()?,
        }
        match failed {
            0 => skipped("no forced write came that far"),
            _ => installed(proof),
        }
    }

    fn fail_write_back(&mut self) -> Injected {
        let starved = self.disk.starve()?;
        let began = Instant::now();
        let mut failure = None;
        while failure.is_none() && began.elapsed() < TIME_TO_FAIL {
            let from = self.progress.sent;
            self.wait(LONGEST, |progress| progress.sent >= from + UNDER)?;
            // It fails, and so does the next forced write of each file that lacks something now.
            let _ = self.disk.sync();
            failure = starved.failure()?;
        }
        let from = self.progress.sent;
        self.wait(LONGEST, |progress| progress.sent >= from + UNDER)?;
        starved.feed()?;
        let Some(proof) = failure else {
            return skipped("no write failed");
        };
        // Who went on may now acknowledge what rests on a write that failed.
        let from = self.progress.acknowledged;
        self.wait(LONGEST, |progress| progress.acknowledged >= from + BESIDE)?;
        match self.cut_power()? {
            Outcome::Installed { .. } => installed(proof),
            other => Ok(other),
        }
    }

    /// Kills the processes that call the store, and starts others.
    fn renew_crew(&mut self) -> Result<(), BoxError> {
        let workers = self.crew.kill_all()?;
        (0..workers).try_for_each(|_| self.crew.start())
    }

    fn fill_disk(&mut self) -> Injected {
        let ballast = self.disk.fill()?;
        let from = self.progress.sent;
        self.wait(LONGEST, |progress| progress.sent >= from + UNDER)?;
        let sent = self.progress.sent - from;
        let proof = self.disk.is_full();
        self.disk.free(ballast)?;
        match proof {
            Ok(proof) => installed(format!("{proof}; {sent} calls under it")),
            Err(why) => skipped(why.to_string()),
        }
    }

    fn cut_network(&mut self, way: Way) -> Injected {
        match self.running.port() {
            Some(port) => self.cut_port(port, way),
            None => skipped("there is no server"),
        }
    }

    fn cut_port(&mut self, port: u16, way: Way) -> Injected {
        let cut = Cut::install(port, way)?;
        let from = self.progress.sent;
        // Each caller waits for its answer by now.
        let callers = (self.segment.callers + self.segment.fresh) * self.crew.workers.len() as u64;
        self.wait(LONGEST, |progress| progress.sent >= from + callers)?;
        std::thread::sleep(LEASE * 3);
        match cut.heal()? {
            0 => skipped("no packet came by"),
            dropped => installed(format!("{dropped} packets dropped")),
        }
    }

    fn disturb_cache(&mut self, what: OnCache) -> Injected {
        let Running::Server(served) = &mut self.running else {
            return skipped("there is no server");
        };
        let Some(cache) = served.cache() else {
            return skipped("there is no cache");
        };
        match what {
            OnCache::Kill => {
                cache.kill()?;
                cache.restart()?;
                installed("SIGKILL to the cache; it came back empty")
            }
            OnCache::Stop => {
                cache.freeze()?;
                std::thread::sleep(LEASE * 3);
                cache.thaw()?;
                installed("SIGSTOP to the cache")
            }
            OnCache::Flush => {
                let entries = memory::flush(cache.url())?;
                match entries {
                    0 => skipped("the cache was empty"),
                    _ => installed(format!("{entries} entries forgotten")),
                }
            }
            OnCache::Cut => match port_of(cache.url()) {
                Some(port) => self.cut_port(port, Way::Both),
                None => skipped("the cache has no port"),
            },
        }
    }

    fn fill_memory(&mut self) -> Injected {
        let Running::Server(served) = &mut self.running else {
            return skipped("there is no server");
        };
        let url = served.server().url().to_owned();
        let before = memory::evicted(&url)?;
        let filled = memory::fill(&url)?;
        let from = self.progress.sent;
        self.wait(LONGEST, |progress| progress.sent >= from + UNDER)?;
        let sent = self.progress.sent - from;
        memory::free(&url, filled.values)?;
        let evicted = memory::evicted(&url)? - before;
        match (evicted, filled.is_refused) {
            (0, false) => skipped("the memory was not full"),
            (0, true) => installed(format!("writes were refused; {sent} calls under it")),
            _ => installed(format!("{evicted} keys evicted; {sent} calls under it")),
        }
    }

    fn set_clock(&mut self, steps: Steps) -> Injected {
        let Some(clock) = &self.clock else {
            return skipped("the server has no clock of its own");
        };
        let longest = steps.longest();
        // Ahead and back in turn: what ends ahead is deleted, and its key used again at an earlier
        // time.
        let range = match (steps, self.faults.len() % 2) {
            (Steps::Long, 0) => longest / 2..=longest,
            (Steps::Long, _) => -longest..=0,
            _ => -longest..=longest,
        };
        let by = self.crew.random.random_range(range);
        clock.set(by)?;
        installed(format!("set to {by} µs after the right time"))
    }
}

/// Removes what names processes of before the power cut: numbers are used again.
fn forget_processes() -> Result<(), BoxError> {
    let mut folders = vec![std::env::temp_dir()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            let depth = path.strip_prefix(std::env::temp_dir())?.iter().count();
            if path.is_dir() && depth < 4 {
                folders.push(path);
            } else if is_of_process(&path) {
                std::fs::remove_file(path)?;
            }
        }
    }
    Ok(())
}

fn is_of_process(path: &Path) -> bool {
    let names = ["postmaster.pid", "server-pid", "s.lock", "WiredTiger.lock"];
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| names.contains(&name))
}
