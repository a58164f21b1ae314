//! A cell from within its sandbox: the store, its callers, and what is done to them.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt, stream};
use idem_core::{
    BoxError, ClaimOutcome, ClaimRequest, Fingerprint, IdempotencyStore, Key, Response,
};
use serde::{Deserialize, Serialize};

use super::crew::Crew;
use super::faults::Failed;
use super::kind::{Kind, Steps};
use super::progress::Progress;
use super::rows::{self, Rows};
use super::work::{LEASE, TURN, head};
use super::{CellSpec, Expects, READERS, Ran, Segment};
use crate::cell::Cell;
use crate::flow;
use crate::history::{Fault, Outcome, Recorded, Recorder, monotonic};
use crate::nemesis::calls::FailingWrites;
use crate::nemesis::clock::Clock;
use crate::nemesis::disk::Disk;
use crate::nemesis::sandbox;
use crate::nemesis::start::Start;
use crate::product::Running;
use crate::traffic::{Plan, Turn, keys_of};

/// The acknowledged claims and results before each fault, and after the last one, for the callers
/// that share keys; more where callers on fresh keys, which are faster, call beside them.
const BETWEEN: u64 = 200;

/// The callers on fresh keys that raise that number.
const COUNTED: u64 = 16;

/// How long the raised number may take. Then [`BETWEEN`] is enough: on a slow store no caller is fast.
const TIME_FOR_MORE: Duration = Duration::from_secs(20);

/// How long that may take from then on.
const TIME_TO_PROGRESS: Duration = Duration::from_secs(60);

/// How long a store may take to serve again after a fault.
const TIME_TO_HEAL: Duration = Duration::from_secs(60);

/// How long a server may take to come back by itself.
const TIME_TO_RETURN: Duration = Duration::from_secs(5);

/// The size of the image, of which only what is written takes room.
const IMAGE: u64 = 2 << 30;

/// The size of an image that is filled.
const SMALL_IMAGE: u64 = 400 << 20;

/// What the process within its sandbox has to do.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Inside {
    pub(super) cell: String,
    pub(super) segment: Segment,
    /// Where the histories go.
    pub(super) histories: PathBuf,
    /// The sandbox' own folder.
    pub(super) folder: PathBuf,
}

/// Runs a cell within its sandbox. `orders` are those of [`run`](super::run).
///
/// # Errors
///
/// Those of the harness.
pub async fn inside(orders: &str) -> Result<(), BoxError> {
    let orders: Inside = serde_json::from_str(orders)?;
    sandbox::settle()?;
    let cells = super::all();
    let cell = cells.iter().find(|cell| cell.name == orders.cell);
    let cell = cell.ok_or("there is no such cell")?;
    let ran = Scene::open(cell, &orders).await?.play().await?;
    ran.write(&orders.histories)
}

/// A running cell.
pub(super) struct Scene<'a> {
    pub(super) cell: &'a CellSpec,
    pub(super) segment: Segment,
    pub(super) store: Cell,
    pub(super) product: String,
    pub(super) namespace: String,
    pub(super) recorder: Recorder,
    pub(super) progress: Progress,
    pub(super) crew: Crew,
    pub(super) running: Running,
    pub(super) disk: Disk,
    pub(super) start: Start,
    pub(super) clock: Option<Clock>,
    pub(super) injected: FailingWrites,
    pub(super) faults: Vec<Fault>,
    /// The first turn of the keys.
    pub(super) first: u64,
}

/// What a fault left.
enum After {
    /// The store serves.
    Healthy,
    /// It does not come back, for this reason.
    Gone(String),
}

impl<'a> Scene<'a> {
    async fn open(cell: &'a CellSpec, orders: &Inside) -> Result<Self, BoxError> {
        let Inside {
            segment, folder, ..
        } = orders;
        let start = Start::create(&folder.join("start"))?;
        let clock = match cell.kind {
            Kind::Clock(_) => Some(Clock::create(&folder.join("clock"))?),
            _ => None,
        };
        if let Some(clock) = &clock {
            start.by(&clock.start())?;
        }
        let (image, at) = (folder.join("image"), std::env::temp_dir());
        let disk = match cell.kind {
            Kind::FullDisk => Disk::create(&image, &at, SMALL_IMAGE),
            Kind::WriteBack => Disk::create_in_room(&folder.join("room"), &at, IMAGE),
            _ => Disk::create(&image, &at, IMAGE),
        }?;
        let running = Running::start(&cell.setup, &start.program())?;
        let store = Cell::parse(running.store())?;
        let product = store.product().await?;
        let namespace = store.create().await?;
        // What is not forced to the disk from now on is the store's affair.
        disk.sync()?;
        let head = head(&store, &format!("{}, {product}", cell.name), segment.seed);
        let recorder = Recorder::create(&orders.histories.join("0.ndjson"), head)?;
        let crew = Crew::new(*segment, &namespace, &orders.histories, running.store());
        let crew = match (&running, cell.kind) {
            // What fails are the writes of the callers' own processes.
            (Running::Files(_), Kind::FailingWrites) => crew.by(start.program()),
            _ => crew,
        };
        let crew = match cell.kind {
            Kind::Clock(Steps::WithoutPurge) => crew.without_purges(),
            _ => crew,
        };
        let crew = match cell.kind {
            // Results end with the clock.
            Kind::Clock(_) => crew,
            _ => crew.with_rows(),
        };
        Ok(Self {
            cell,
            segment: *segment,
            store,
            product,
            namespace,
            recorder,
            progress: Progress::new(&orders.histories),
            crew,
            running,
            disk,
            start,
            clock,
            injected: FailingWrites::create(folder)?,
            faults: Vec::new(),
            first: Turn::generation_at(monotonic(), TURN),
        })
    }

    /// Goes through the faults, and reads every key at the end.
    async fn play(mut self) -> Result<Ran, BoxError> {
        let ends = Instant::now() + self.segment.time;
        let between = match self.cell.kind {
            // In quick succession: a key is used again before callers leave it.
            Kind::Clock(Steps::Long) => BETWEEN,
            _ => BETWEEN * (1 + 4 * self.segment.fresh.min(COUNTED)),
        };
        for _ in 0..self.segment.workers.max(1) {
            self.crew.start()?;
        }
        let mut gone = None;
        let mut rows = Rows::default();
        while self.segment.goes_on(&self.faults, ends) {
            self.proceed(between)?;
            if let After::Gone(why) = self.disturb().await? {
                gone = Some(why);
                break;
            }
        }
        if gone.is_none() {
            self.proceed(BETWEEN)?;
            self.crew.end()?;
            rows = self.read().await?;
        }
        let settings = self.cell.setup.settings.iter();
        let settings: Vec<_> = settings
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        Ok(Ran {
            product: self.product,
            settings: settings.join(" "),
            faults: self.faults,
            gone,
            rows: rows.whole,
            torn: rows.torn,
        })
    }

    /// Waits until the store has acknowledged so many more, or fewer if it is slow.
    pub(super) fn proceed(&mut self, acknowledged: u64) -> Result<(), BoxError> {
        let from = self.progress.acknowledged;
        for (time, more) in [(TIME_FOR_MORE, acknowledged), (TIME_TO_PROGRESS, BETWEEN)] {
            if self.wait(time, |progress| progress.acknowledged >= from + more)? {
                return Ok(());
            }
        }
        let done = self.progress.acknowledged - from;
        Err(format!("{done} of {BETWEEN} acknowledgements in time").into())
    }

    /// Waits for this progress, for so long at most. Returns whether it was made.
    pub(super) fn wait(
        &mut self,
        time: Duration,
        is_done: impl Fn(&Progress) -> bool,
    ) -> Result<bool, BoxError> {
        let deadline = Instant::now() + time;
        loop {
            self.progress.look()?;
            if is_done(&self.progress) {
                return Ok(true);
            }
            self.crew.check()?;
            if Instant::now() > deadline {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Injects a fault, heals it, and notes both.
    async fn disturb(&mut self) -> Result<After, BoxError> {
        if let (Cell::Postgres(postgres), Kind::FailingWrites) = (&self.store, self.cell.kind) {
            // Else its recovery would force more files than it can before one fails, and never end.
            postgres.execute("CHECKPOINT".to_owned()).await?;
        }
        let c0 = monotonic();
        let done = self.inject();
        // The step is over at once; what a restart loses may show until the store serves.
        let injected = monotonic();
        // A store that does not start again is an answer, too.
        let (outcome, mut after) = match done {
            Ok(outcome) => (outcome, After::Healthy),
            Err(Failed::Injecting(error)) => return Err(error),
            Err(Failed::Healing(proof, why)) => {
                let outcome = Outcome::Installed { proof };
                (outcome, After::Gone(why.to_string()))
            }
        };
        if let (After::Healthy, Err(why)) = (&after, self.is_healthy().await) {
            after = After::Gone(why.to_string());
        }
        let sets_clock = matches!(self.cell.kind, Kind::Clock(_));
        let fault = Fault {
            what: self.cell.kind.in_words().to_owned(),
            on: self.cell.kind.on().to_owned(),
            outcome,
            c0,
            c1: if sets_clock { injected } else { monotonic() },
            loses: self.cell.expects == Expects::Loss,
            takes_back: self.cell.expects == Expects::TakeBack,
            sets_clock,
        };
        self.recorder.fault(fault.clone())?;
        self.faults.push(fault);
        match (after, self.cell.expects) {
            (After::Gone(why), Expects::Hold | Expects::TakeBack) => {
                Err(format!("the store is gone: {why}").into())
            }
            (after, _) => Ok(after),
        }
    }

    /// Waits until the store serves a caller that comes anew. Starts a server again that has ended
    /// by itself.
    async fn is_healthy(&mut self) -> Result<(), BoxError> {
        let mut deadline = Instant::now() + TIME_TO_HEAL;
        if self.cell.kind.may_end_server() {
            deadline = Instant::now() + TIME_TO_RETURN;
        }
        let mut may_start = self.cell.kind.may_end_server();
        loop {
            match self.serve().await {
                Err(_) if Instant::now() < deadline => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                Err(_) if std::mem::take(&mut may_start) => {
                    if let Running::Server(served) = &mut self.running {
                        served.server().restart()?;
                    }
                    deadline = Instant::now() + TIME_TO_HEAL;
                }
                result => return result,
            }
        }
    }

    /// Claims and completes a key that no worker has.
    async fn serve(&self) -> Result<(), BoxError> {
        let store = self.store.open(&self.namespace).await?;
        let key = Key::new("prove", "health", monotonic().to_string())?;
        let request = ClaimRequest::new(key, Fingerprint::raw("1"));
        match store.claim(&request).await? {
            ClaimOutcome::Acquired(claim) => {
                let response = Response::new(200, "");
                Ok(store.complete(&claim, &response, LEASE).await?)
            }
            other => Err(format!("a fresh key has a record: {other:?}").into()),
        }
    }

    /// Reads every key, and every row, once no call of dead callers is under way.
    async fn read(&mut self) -> Result<Rows, BoxError> {
        self.running.settle()?;
        let last = Turn::generation_at(monotonic(), TURN);
        let store = self.store.open(&self.namespace).await?;
        let rows = rows::check(&self.crew.folder, &*store).await?;
        let recorded = Recorded::new(store, self.recorder.clone());
        let keys = Plan::default().keys;
        let shared = (self.first..=last).flat_map(|turn| keys_of(turn, keys));
        let fresh = flow::used(&self.crew.folder, &self.crew.seeds)?;
        let reads = stream::iter(shared.chain(fresh)).map(|key| {
            let recorded = &recorded;
            async move { recorded.get(&key).await.map(drop) }
        });
        reads.buffer_unordered(READERS).try_collect::<()>().await?;
        Ok(rows)
    }
}
