//! `idem expire-abandoned`.

use idem_core::admin::{RecordFilter, SummaryState};
use idem_core::{IdempotencyStoreExt, StalePolicy};
use serde_json::json;

use super::census::pages;
use crate::args::StoreArgs;
use crate::backend::open;
use crate::confirm::confirm;
use crate::failure::{Exit, Result};
use crate::output::Output;

/// The options of `expire-abandoned`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Counts the abandoned claims; changes nothing.
    #[arg(long)]
    dry_run: bool,

    /// The most records to look at for the count of `--dry-run`.
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    most: u64,

    /// Does not ask for a confirmation.
    #[arg(long, short)]
    yes: bool,
}

pub(crate) async fn run(args: &StoreArgs, options: &Options, output: Output) -> Result<Exit> {
    if options.dry_run {
        return dry_run(args, options.most, output).await;
    }
    confirm(
        "Fail all claims whose lease has ended and whose work must not run again?",
        options.yes,
    )?;
    let store = open(args).await?;
    let failed = store.sweep_all().await?;
    output.json(&json!({ "failed": failed }))?;
    output.line(format!("Failed {failed} abandoned claims."))?;
    Ok(Exit::Done)
}

async fn dry_run(args: &StoreArgs, most: u64, output: Output) -> Result<Exit> {
    let store = open(args).await?;
    let stale = RecordFilter::new().with_state(SummaryState::Stale);
    let mut count = 0_u64;
    let seen = pages(super::admin(&*store)?, &stale, most, |record| {
        count += u64::from(record.on_stale == StalePolicy::Fail);
    });
    let seen = seen.await?;
    output.json(&json!({
        "would_fail": count,
        "looked_at": seen.looked_at,
        "is_complete": seen.is_complete,
    }))?;
    let bound = if seen.is_complete { "" } else { "at least " };
    output.line(format!(
        "It would fail {bound}{count} claims, of {} records that were looked at.",
        seen.looked_at
    ))?;
    Ok(Exit::Done)
}
