//! `idem stats`.

use idem_core::admin::{RecordFilter, SummaryState};
use serde_json::{Map, Value, json};

use super::census::{AGES, Census, Counts};
use crate::args::StoreArgs;
use crate::backend::open;
use crate::failure::{Exit, Result};
use crate::masked;
use crate::output::Output;
use crate::{text, when};

/// The options of `stats`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The most records to look at.
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    most: u64,
}

pub(crate) async fn run(args: &StoreArgs, options: &Options, output: Output) -> Result<Exit> {
    let store = open(args).await?;
    let admin = super::admin(&*store)?;
    let census = Census::take(admin, &RecordFilter::new(), options.most, None).await?;
    output.json(&value(&census))?;
    if output.is_json() {
        return Ok(Exit::Done);
    }
    let seen = census.seen;
    let scope = match seen.is_complete {
        true => "all records".to_owned(),
        false => format!("the first {} records; --most looks at more", seen.looked_at),
    };
    let mut fields = vec![
        ("counted", scope),
        ("records", census.all.total.to_string()),
    ];
    fields.extend(SummaryState::ALL.map(|state| (state.name(), census.all.of(state).to_string())));
    fields.push(("result bytes", census.all.result_bytes.to_string()));
    fields.push((
        "purge backlog",
        census.all.of(SummaryState::Expired).to_string(),
    ));
    if let Some(oldest) = &census.oldest_in_flight {
        let path = text::plain(&oldest.key.path());
        fields.push((
            "oldest in flight",
            format!("{path}, {} old", when::shown(oldest.age())),
        ));
    }
    output.fields(&fields)?;
    let ages: Vec<_> = titles()
        .zip(census.ages)
        .map(|(title, count)| vec![title.to_owned(), count.to_string()])
        .collect();
    output.line("")?;
    output.table(&["AGE", "#RECORDS"], &ages)?;
    output.line("")?;
    output.table(&OPERATION_COLUMNS, &operations(&census))?;
    Ok(Exit::Done)
}

const OPERATION_COLUMNS: [&str; 8] = [
    "OPERATION",
    "#IN FLIGHT",
    "#STALE",
    "#COMPLETED",
    "#FAILED",
    "#EXPIRED",
    "#UNREADABLE",
    "#BYTES",
];

fn titles() -> impl Iterator<Item = &'static str> {
    AGES.iter().map(|(_, title)| *title).chain(["older"])
}

/// Returns a line for each operation, those with the most records first.
fn operations(census: &Census) -> Vec<Vec<String>> {
    let mut operations: Vec<_> = census.operations.iter().collect();
    operations.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.total));
    let row = |(name, counts): (&String, &Counts)| {
        let mut row = vec![text::plain(name)];
        row.extend(SummaryState::ALL.map(|state| counts.of(state).to_string()));
        row.push(counts.result_bytes.to_string());
        row
    };
    operations.into_iter().map(row).collect()
}

fn states(counts: &Counts) -> Map<String, Value> {
    let states = SummaryState::ALL.into_iter();
    states
        .map(|state| (state.name().to_owned(), json!(counts.of(state))))
        .collect()
}

fn value(census: &Census) -> Value {
    let ages: Vec<_> = titles()
        .zip(census.ages)
        .map(|(age, records)| json!({ "age": age, "records": records }))
        .collect();
    let operations: Map<_, _> = census
        .operations
        .iter()
        .map(|(name, counts)| {
            let mut value = states(counts);
            value.insert("result_bytes".to_owned(), json!(counts.result_bytes));
            (name.clone(), Value::Object(value))
        })
        .collect();
    let oldest = census.oldest_in_flight.as_ref().map(|record| {
        let mut key = masked::key(&record.key);
        key.insert("age_seconds".to_owned(), json!(record.age().as_secs_f64()));
        key
    });
    json!({
        "records": census.all.total,
        "looked_at": census.seen.looked_at,
        "is_complete": census.seen.is_complete,
        "states": states(&census.all),
        "operations": operations,
        "ages": ages,
        "oldest_in_flight": oldest,
        "result_bytes": census.all.result_bytes,
        "purge_backlog": census.all.of(SummaryState::Expired),
    })
}
