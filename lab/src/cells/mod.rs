//! Cells: one store with its settings under one kind of fault, and what must hold.

mod crew;
mod faults;
mod guarantees;
mod inside;
mod kind;
mod need;
pub(crate) mod progress;
mod rows;
mod table;
mod verdict;
mod work;

use std::path::Path;
use std::time::{Duration, Instant};

use idem_core::BoxError;
use serde::{Deserialize, Serialize};

pub use crate::history::{Fault, Outcome};
pub use inside::inside;
pub use need::Need;
pub use table::all;
pub use verdict::{Proof, verdict};
pub use work::{Work, work};

use crate::cluster;
use crate::nemesis::doctor;
use crate::nemesis::sandbox::Sandbox;
use crate::product::Setup;
pub(crate) use kind::Kind;

/// The file with what was run, beside the histories.
const RAN: &str = "ran.json";

/// How long a segment goes on for its number of faults at most.
const LONGEST: Duration = Duration::from_secs(600);

/// The concurrent reads at the end.
pub(crate) const READERS: usize = 64;

/// What a cell expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expects {
    /// Nothing that was acknowledged is lost.
    Hold,
    /// Nothing that was acknowledged is lost; a fault may take back writes without an answer that
    /// others have seen, as documented.
    TakeBack,
    /// Something that was acknowledged is lost, as documented: without a loss the nemesis was too
    /// weak.
    Loss,
}

/// A store with its settings, and a fault.
#[derive(Debug)]
pub struct CellSpec {
    /// The name, such as `postgres/power-cut`.
    pub name: &'static str,
    /// The name of the product.
    pub product: &'static str,
    /// What is done to it.
    pub fault: &'static str,
    /// What it expects.
    pub expects: Expects,
    /// The sentence that it tries, and its file.
    pub guarantee: &'static str,
    pub(crate) setup: Setup,
    pub(crate) kind: Kind,
}

/// How much of a cell to run.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Segment {
    /// The seed of every choice.
    pub seed: u64,
    /// How long to go on with faults.
    pub time: Duration,
    /// How many faults have to take place, however long they take; at least one is tried.
    pub faults: u64,
    /// The processes that call the store.
    pub workers: u64,
    /// The callers in each on a few keys, which they share with all others.
    pub callers: u64,
    /// The callers in each on fresh keys.
    pub fresh: u64,
}

impl Segment {
    /// Returns whether another fault follows these, in a segment that ends then.
    pub(crate) fn goes_on(&self, faults: &[Fault], ends: Instant) -> bool {
        let installed = faults.iter().filter(|fault| fault.outcome.is_installed());
        let has_too_few = (installed.count() as u64) < self.faults;
        // Faults that never take place do not keep it for ever.
        let may_wait = Instant::now() < ends + LONGEST;
        faults.is_empty() || Instant::now() < ends || (has_too_few && may_wait)
    }
}

/// What was run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ran {
    /// Name and version of the product.
    pub product: String,
    /// Its settings, in words.
    pub settings: String,
    /// What was done to it.
    pub faults: Vec<Fault>,
    /// Why the store did not come back after a fault. Only a cell that expects losses goes on then:
    /// everything is lost.
    pub gone: Option<String>,
    /// The rows that callers committed with their results.
    pub rows: u64,
    /// The rows without their result, and the results without their row.
    pub torn: Vec<String>,
}

impl Ran {
    /// Reads what is written beside the histories.
    pub(crate) fn read(folder: &Path) -> Result<Self, BoxError> {
        let file = folder.join(RAN);
        let text = std::fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(serde_json::from_slice(&text)?)
    }

    fn write(&self, folder: &Path) -> Result<(), BoxError> {
        Ok(std::fs::write(folder.join(RAN), serde_json::to_vec(self)?)?)
    }
}

impl CellSpec {
    /// Returns what the machine must have.
    #[must_use]
    pub fn needs(&self) -> Vec<Need> {
        if let Kind::FailOver(fail_over) = self.kind {
            return fail_over.needs();
        }
        let server = self.setup.server.map(Need::Server);
        let front = self.setup.front.map(Need::Server);
        let cache = self.setup.cache.map(Need::Server);
        let mut needs: Vec<Need> = server.into_iter().chain(front).chain(cache).collect();
        needs.extend([Need::Sandbox, Need::PowerCut, self.kind.need()]);
        needs.dedup();
        needs
    }
}

impl CellSpec {
    /// Returns whether continuous integration may draw it: it has one server at most, from a package,
    /// and is accepted after one fault. It may take more than one to see a loss.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.expects == Expects::Hold
            && !matches!(self.kind, Kind::FailOver(_))
            && !self.setup.is_cluster
            && self.setup.server != Some("mongo")
    }
}

/// Returns why the machine cannot run a cell; `None` if it can.
#[must_use]
pub fn missing(cell: &CellSpec) -> Option<String> {
    doctor::missing(cell)
}

/// Runs a cell. Leaves the files to judge in `folder`, which has none yet.
///
/// The program must be `prove`: the cell runs in another process of it, with a network, mounts and
/// process numbers of its own.
///
/// # Errors
///
/// Those of the harness: nothing is known about the store then.
pub async fn run(cell: &CellSpec, segment: Segment, folder: &Path) -> Result<Ran, BoxError> {
    if let Some(why) = missing(cell) {
        return Err(format!("not run: {why}").into());
    }
    if let Kind::FailOver(fail_over) = cell.kind {
        let ran = cluster::run(fail_over, cell, segment, folder).await?;
        ran.write(folder)?;
        return Ok(ran);
    }
    std::fs::create_dir_all(folder)?;
    let folder = folder.canonicalize()?;
    let mut sandbox = Sandbox::create()?;
    let temporary = sandbox.folder().join("disk");
    std::fs::create_dir(&temporary)?;
    let inside = inside::Inside {
        cell: cell.name.to_owned(),
        segment,
        histories: folder.clone(),
        folder: sandbox.folder().to_owned(),
    };
    let inside = serde_json::to_string(&inside)?;
    sandbox.run(&temporary, ["cell-inside", &inside]).await?;
    Ran::read(&folder)
}
