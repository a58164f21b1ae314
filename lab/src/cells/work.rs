//! A process that calls the store, whatever is done to either.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use idem_core::{BoxError, IdempotencyStore};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use super::rows::WithRows;
use crate::cell::Cell;
use crate::flow::Flow;
use crate::history::{Head, Recorded, Recorder, VERSION};
use crate::traffic::{Plan, Turn, drive_until};

/// How long keys are used before others take their place.
pub(crate) const TURN: Duration = Duration::from_millis(200);

/// The longest lease: shorter than every lasting fault.
pub(crate) const LEASE: Duration = Duration::from_millis(400);

/// How long most results are kept: longer than every segment, so that a lost one is missed.
const KEPT: Duration = Duration::from_secs(3_600);

/// What such a process does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Work {
    pub(crate) namespace: String,
    pub(crate) file: PathBuf,
    pub(crate) seed: u64,
    pub(crate) callers: u64,
    pub(crate) fresh: u64,
    /// Whether it deletes expired records.
    pub(crate) purges: bool,
    /// Whether it completes fresh keys in transactions, too.
    pub(crate) rows: bool,
}

/// Returns the first line of a history.
pub(crate) fn head(cell: &Cell, name: &str, seed: u64) -> Head {
    Head {
        v: VERSION,
        cell: name.to_owned(),
        seed,
        quantum: cell.quantum(),
        asks_again: cell.asks_again(),
        caches: cell.caches(),
    }
}

/// Calls the store until the standard input is closed. The variable `IDEM_PROVE_STORE` is passed as
/// `store`.
///
/// # Errors
///
/// Those of the file.
pub async fn work(store: &str, work: Work) -> Result<(), BoxError> {
    let stop = Arc::new(AtomicBool::new(false));
    let is_closed = Arc::clone(&stop);
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        is_closed.store(true, Ordering::Relaxed);
    });
    let cell = Cell::parse(store)?;
    let recorder = Recorder::create(&work.file, head(&cell, "", work.seed))?;
    // The store may be down just now.
    let store = loop {
        match cell.open(&work.namespace).await {
            Ok(store) => break store,
            Err(_) if !stop.load(Ordering::Relaxed) => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(_) => return Ok(()),
        }
    };
    let plan = Plan {
        seed: work.seed,
        callers: work.callers,
        steps: u64::MAX,
        turn: Turn::Time(TURN),
        lease: LEASE,
        kept: Some(KEPT),
        back: 20,
        purges: work.purges,
        patience: Duration::from_secs(15),
        ..Plan::default()
    };
    let with_rows: Arc<dyn IdempotencyStore> = match work.rows {
        true => {
            let inner = Arc::clone(&store);
            Arc::new(WithRows::new(inner, cell, &work.namespace, &work.file)?)
        }
        false => Arc::clone(&store),
    };
    let with_rows = Arc::new(Recorded::new(with_rows, recorder.clone()));
    let flow = Arc::new(Flow::new(with_rows, work.seed, Arc::clone(&stop)));
    let store = Arc::new(Recorded::new(store, recorder));
    let mut fresh = JoinSet::new();
    for caller in 0..work.fresh {
        fresh.spawn(Arc::clone(&flow).run(caller));
    }
    drive_until(store, plan, stop).await;
    fresh.join_all().await;
    Ok(())
}
