//! `idem watch`.

use std::fmt::Write;
use std::time::Duration;

use idem_core::admin::{RecordFilter, SummaryState};
use idem_core::{RecordAdmin, Timestamp};
use serde_json::{Map, json};

use super::census::{Census, Counts};
use crate::args::StoreArgs;
use crate::backend::open;
use crate::failure::{Exit, Result};
use crate::output::{self, Output};
use crate::{text, when};

/// Clears a terminal, and puts its cursor to the top.
const CLEAR: &str = "\u{1b}[2J\u{1b}[H";

/// The options of `watch`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The time between two samples.
    #[arg(long, value_name = "DURATION", value_parser = when::duration, default_value = "2s")]
    every: Duration,

    /// Ends after this many samples. Default: at Ctrl-C.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// The most records to look at for a sample.
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    most: u64,
}

/// Rates come from one sample: a token is the store's clock at the acquisition, and a sealed record
/// has its instant. So they count keys whose latest acquisition is new, by the store's clock.
pub(crate) async fn run(args: &StoreArgs, options: &Options, output: Output) -> Result<Exit> {
    let store = open(args).await?;
    let admin = super::admin(&*store)?;
    let watching = watch(admin, args, options, output);
    tokio::select! {
        done = watching => done?,
        // An error means that there is no such signal; then it ends with its process.
        Ok(()) = tokio::signal::ctrl_c() => output.line("")?,
    }
    Ok(Exit::Done)
}

async fn watch(
    admin: &dyn RecordAdmin,
    args: &StoreArgs,
    options: &Options,
    output: Output,
) -> Result<()> {
    let every = options.every.max(Duration::from_millis(50));
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut since: Option<Timestamp> = None;
    let mut left = options.count;
    while left != Some(0) {
        ticks.tick().await;
        let census = Census::take(admin, &RecordFilter::new(), options.most, since).await?;
        let window = match (since, census.observed_at) {
            (Some(since), Some(now)) => now.saturating_since(since),
            _ => Duration::ZERO,
        };
        print(&census, window, args, options, output)?;
        // An empty store has no clock to show.
        since = census.observed_at.or(since);
        left = left.map(|left| left - 1);
    }
    Ok(())
}

fn print(
    census: &Census,
    window: Duration,
    args: &StoreArgs,
    options: &Options,
    output: Output,
) -> Result<()> {
    if output.is_json() {
        return output.json(&value(census, window));
    }
    let mut screen = String::new();
    if output::is_terminal() {
        screen.push_str(CLEAR);
    }
    let scope = match census.seen.is_complete {
        true => String::new(),
        false => format!(", the first {} only", census.seen.looked_at),
    };
    let at = census.observed_at.map(when::instant).unwrap_or_default();
    let every = when::shown(options.every);
    let place = args.url()?;
    let _ = writeln!(
        screen,
        "{place}  every {every}  {at}\n{} records{scope}\n",
        census.all.total
    );
    let mut operations: Vec<_> = census.operations.iter().collect();
    operations.sort_by_key(|(_, counts)| std::cmp::Reverse((counts.claims, counts.total)));
    let mut rows: Vec<_> = operations
        .into_iter()
        .map(|(name, counts)| row(text::plain(name), counts, window))
        .collect();
    rows.push(row("(all)".to_owned(), &census.all, window));
    let columns = [
        "OPERATION",
        "#CLAIMS/S",
        "#RESULTS/S",
        "#IN FLIGHT",
        "#STALE",
        "#COMPLETED",
        "#FAILED",
        "#EXPIRED",
    ];
    screen.push_str(&output::table(&columns, &rows));
    if let Some(oldest) = &census.oldest_in_flight {
        let path = text::plain(&oldest.key.path());
        let _ = writeln!(
            screen,
            "\noldest in flight: {path}, {} old, {}",
            when::shown(oldest.age()),
            oldest.state
        );
    }
    output::write(screen.as_bytes())
}

fn row(name: String, counts: &Counts, window: Duration) -> Vec<String> {
    let shown =
        |count| rate(count, window).map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"));
    let of = |state| counts.of(state).to_string();
    vec![
        name,
        shown(counts.claims),
        shown(counts.results),
        of(SummaryState::InFlight),
        of(SummaryState::Stale),
        of(SummaryState::Completed),
        of(SummaryState::Failed),
        of(SummaryState::Expired),
    ]
}

fn rate(count: u64, window: Duration) -> Option<f64> {
    (!window.is_zero()).then(|| count as f64 / window.as_secs_f64())
}

fn value(census: &Census, window: Duration) -> serde_json::Value {
    let of = |counts: &Counts| {
        json!({
            "claims_per_second": rate(counts.claims, window),
            "results_per_second": rate(counts.results, window),
            "in_flight": counts.of(SummaryState::InFlight),
            "stale": counts.of(SummaryState::Stale),
            "completed": counts.of(SummaryState::Completed),
            "failed": counts.of(SummaryState::Failed),
            "expired": counts.of(SummaryState::Expired),
        })
    };
    let operations = census.operations.iter();
    let operations: Map<_, _> = operations
        .map(|(name, counts)| (name.clone(), of(counts)))
        .collect();
    let oldest = census.oldest_in_flight.as_ref();
    json!({
        "observed_at": census.observed_at.map(when::instant),
        "is_complete": census.seen.is_complete,
        "looked_at": census.seen.looked_at,
        "all": of(&census.all),
        "operations": operations,
        "oldest_in_flight_seconds": oldest.map(|record| record.age().as_secs_f64()),
    })
}
