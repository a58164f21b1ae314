//! `idem ls`.

use std::time::Duration;

use idem_core::admin::{Cursor, RecordFilter, RecordSummary, SummaryState};
use serde_json::json;

use crate::args::StoreArgs;
use crate::backend::open;
use crate::failure::{Exit, Result};
use crate::masked::Secrets;
use crate::output::{Output, complain};
use crate::{text, when};

/// How many records the store looks at for one page.
const PAGE: u32 = 1_000;

/// Which records are meant.
#[derive(Debug, clap::Args)]
pub(crate) struct Filter {
    /// Only records in this state; several are possible: in_flight, stale, completed, failed,
    /// expired, unreadable.
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    state: Vec<SummaryState>,

    /// Only records of this scope.
    #[arg(long)]
    scope: Option<String>,

    /// Only records of this operation; `idem.audit` lists the forced steps.
    #[arg(long)]
    operation: Option<String>,

    /// Only records first seen this long ago or longer, such as `10m`.
    #[arg(long, value_name = "DURATION", value_parser = when::duration)]
    min_age: Option<Duration>,

    /// Only failed records with this code.
    #[arg(long, value_name = "CODE")]
    failure_code: Option<String>,
}

impl Filter {
    fn build(&self) -> RecordFilter {
        let mut filter = RecordFilter::new();
        for state in &self.state {
            filter = filter.with_state(*state);
        }
        if let Some(scope) = &self.scope {
            filter = filter.with_scope(scope);
        }
        if let Some(operation) = &self.operation {
            filter = filter.with_operation(operation);
        }
        if let Some(age) = self.min_age {
            filter = filter.with_min_age(age);
        }
        if let Some(code) = &self.failure_code {
            filter = filter.with_failure_code(code);
        }
        filter
    }
}

/// The options of `ls`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    filter: Filter,

    /// The most records to print.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,

    /// Goes on where an earlier list ended.
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,

    /// Prints all records, however many there are.
    #[arg(long, conflicts_with = "limit")]
    all: bool,

    /// Shows the values of metadata (JSON only).
    #[arg(long)]
    reveal: bool,
}

pub(crate) async fn run(args: &StoreArgs, options: &Options, output: Output) -> Result<Exit> {
    let store = open(args).await?;
    let admin = super::admin(&*store)?;
    let filter = options.filter.build();
    let secrets = match options.reveal {
        true => Secrets::Revealed,
        false => Secrets::Masked,
    };
    let mut cursor = options.after.as_ref().map(Cursor::new);
    let mut left = if options.all { u64::MAX } else { options.limit };
    let mut rows = Vec::new();
    loop {
        // A page never has more records than are left, so no record is cut off behind a cursor.
        let limit = u32::try_from(left).unwrap_or(PAGE).min(PAGE);
        let page = admin.list(&filter, cursor.as_ref(), limit).await?;
        left = left.saturating_sub(page.records.len() as u64);
        for record in &page.records {
            output.json(&secrets.summary(record))?;
        }
        rows.extend(page.records.iter().map(row));
        cursor = page.next;
        if cursor.is_none() || left == 0 {
            break;
        }
        // All of a large store is not kept for one table.
        if options.all && rows.len() >= PAGE as usize {
            print(output, &std::mem::take(&mut rows))?;
        }
    }
    print(output, &rows)?;
    if let Some(cursor) = cursor {
        output.json(&json!({ "next": cursor }))?;
        if !output.is_json() {
            let cursor = shell_word(cursor.as_str());
            complain(&format!("there may be more; go on with --after {cursor}"))?;
        }
    }
    Ok(Exit::Done)
}

fn print(output: Output, rows: &[Vec<String>]) -> Result<()> {
    if output.is_json() || rows.is_empty() {
        return Ok(());
    }
    let columns = [
        "STATE", "#AGE", "#LEASE", "#TRIES", "#TOKEN", "#BYTES", "KEY", "NOTE",
    ];
    output.table(&columns, rows)
}

/// Returns a line of the table. The key is its path, which `show` takes.
fn row(record: &RecordSummary) -> Vec<String> {
    let lease = record.lease_ends_at.map(|ends| {
        let left = ends.saturating_since(record.observed_at);
        let over = record.observed_at.saturating_since(ends);
        match record.state {
            SummaryState::InFlight => when::shown(left),
            SummaryState::Stale => format!("-{}", when::shown(over)),
            _ => String::new(),
        }
    });
    let note = match (&record.failure_code, &record.checkpoint) {
        (Some(code), _) => format!("failed: {}", text::plain(code)),
        (None, Some(name)) => format!("checkpoint: {}", text::plain(name)),
        (None, None) => String::new(),
    };
    vec![
        record.state.to_string(),
        when::shown(record.age()),
        lease.unwrap_or_default(),
        record.attempts.to_string(),
        record.token.to_string(),
        record.result_bytes.to_string(),
        text::plain(&record.key.path()),
        note,
    ]
}

/// Quotes a text for a shell.
fn shell_word(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/=+,@%".contains(&byte);
    match !text.is_empty() && text.bytes().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text::plain(text).replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_one_word_of_a_shell() {
        assert_eq!(shell_word("3:a%3A"), "3:a%3A");
        assert_eq!(shell_word("3 a'b"), r"'3 a'\''b'");
    }
}
