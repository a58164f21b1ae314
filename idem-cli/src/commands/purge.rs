//! `idem purge`.

use idem_core::admin::{AUDIT_OPERATION, RecordFilter, SummaryState};
use idem_core::limits::MAX_BATCH;
use idem_core::{IdempotencyStore, IdempotencyStoreExt};
use serde_json::json;
use tokio::time::Instant;

use crate::args::StoreArgs;
use crate::backend::open;
use crate::confirm::confirm;
use crate::failure::{Exit, Result};
use crate::output::Output;

/// The batch beside traffic, as of `purge_beside_traffic`.
const SMALL_BATCH: u32 = 1_000;

/// The options of `purge`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Counts the expired records; changes nothing.
    #[arg(long)]
    dry_run: bool,

    /// Deletes in small batches with pauses: it takes a tenth of one connection's time.
    #[arg(long)]
    beside_traffic: bool,

    /// The most records to look at for the count of `--dry-run`.
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    most: u64,

    /// Does not ask for a confirmation.
    #[arg(long, short)]
    yes: bool,
}

pub(crate) async fn run(args: &StoreArgs, options: &Options, output: Output) -> Result<Exit> {
    if options.dry_run {
        return dry_run(args, options, output).await;
    }
    confirm(
        "Delete all records and watermarks whose retention has ended?",
        options.yes,
    )?;
    let store = open(args).await?;
    let records = match options.beside_traffic {
        true => store.purge_beside_traffic().await?,
        false => store.purge_all().await?,
    };
    let watermarks = purge_watermarks(&*store, options.beside_traffic).await?;
    output.json(&json!({ "deleted": { "records": records, "watermarks": watermarks } }))?;
    output.line(format!(
        "Deleted {records} records and {watermarks} watermarks."
    ))?;
    if store.backend() == "redis" {
        output.line("Redis expires its keys by itself.")?;
    }
    Ok(Exit::Done)
}

async fn dry_run(args: &StoreArgs, options: &Options, output: Output) -> Result<Exit> {
    let store = open(args).await?;
    let expired = RecordFilter::new().with_state(SummaryState::Expired);
    let audit = expired.clone().with_operation(AUDIT_OPERATION);
    let records = store.count_records(&expired, options.most).await?;
    let audit = store.count_records(&audit, options.most).await?;
    let count = records.matching + audit.matching;
    let is_complete = records.is_complete && audit.is_complete;
    output.json(&json!({
        "would_delete": { "records": count },
        "looked_at": records.looked_at,
        "is_complete": is_complete,
    }))?;
    let bound = if is_complete { "" } else { "at least " };
    output.line(format!(
        "It would delete {bound}{count} records, of {} that were looked at. Watermarks are not counted.",
        records.looked_at
    ))?;
    Ok(Exit::Done)
}

async fn purge_watermarks(store: &dyn IdempotencyStore, is_slow: bool) -> Result<u64> {
    let Some(marks) = store.watermarks() else {
        return Ok(0);
    };
    let batch = if is_slow { SMALL_BATCH } else { MAX_BATCH };
    let mut total = 0;
    loop {
        let began = Instant::now();
        let deleted = marks.delete_expired_watermarks(batch).await?;
        total += deleted;
        if deleted < u64::from(batch) {
            return Ok(total);
        }
        if is_slow {
            tokio::time::sleep(began.elapsed() * 9).await;
        }
    }
}
