//! The histories of a race of processes.

use std::path::PathBuf;

use tempfile::TempDir;

use crate::history::{Calls, Head, VERSION};
use crate::oracle::judge;
use crate::search::Bounds;
use crate::shrink::shrink;
use crate::{CaseError, CaseResult, Context};

/// The histories of the processes of one race.
pub(super) struct Histories {
    folder: TempDir,
    head: Head,
}

impl Histories {
    pub(super) fn new(cx: &Context, seed: u64) -> CaseResult<Self> {
        let tick = cx.profile().clock_tick().as_micros();
        Ok(Self {
            folder: tempfile::Builder::new().prefix("idem-storm-").tempdir()?,
            head: Head {
                v: VERSION,
                cell: cx.harness().name().to_owned(),
                seed,
                quantum: i64::try_from(tick)?,
                asks_again: cx.profile().claims_ask_again(),
                caches: cx.profile().caches(),
            },
        })
    }

    /// Returns the file of a process, and its first line.
    pub(super) fn of(&self, process: u32) -> (PathBuf, Head) {
        let file = self.folder.path().join(format!("{process}.ndjson"));
        (file, self.head.clone())
    }

    /// Returns the calls of all processes, if the oracle accepts them. Otherwise the files are kept,
    /// and the error shows the fewest calls that it still refuses.
    pub(super) fn judged(self) -> CaseResult<Calls> {
        let result = self.accepted();
        if result.is_err() {
            let kept = self.folder.keep();
            return result.map_err(|error| error.while_doing(format!("histories in {kept:?}")));
        }
        result
    }

    fn accepted(&self) -> CaseResult<Calls> {
        let bounds = Bounds::default();
        let calls = Calls::read(self.folder.path())?;
        let judgement = judge(&calls.history()?, bounds);
        if judgement.is_accepted() {
            return Ok(calls);
        }
        let fewest = judge(&shrink(&calls, bounds)?.history()?, bounds);
        let shown = match fewest.refused.is_empty() {
            true => judgement,
            false => fewest,
        };
        Err(CaseError::new(shown.to_string()))
    }
}
