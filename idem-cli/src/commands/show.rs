//! `idem show`.

use idem_core::admin::{AuditEntry, AuditOutcome, RecordSummary};
use idem_core::wrappers::protected::is_encrypted;
use idem_core::{
    Error, ErrorKind, Failure as Failed, IdempotencyStoreExt, Metadata, Record, Response,
    StalePolicy,
};
use serde_json::{Value, json};

use crate::args::{KeyArgs, StoreArgs};
use crate::backend::open;
use crate::failure::{Exit, Failure, Result};
use crate::masked::{self, Secrets};
use crate::output::Output;
use crate::{text, when};

/// The options of `show`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    key: KeyArgs,

    /// Shows bodies, values of headers and metadata, and messages and details of failures.
    #[arg(long)]
    reveal: bool,
}

pub(crate) async fn run(args: &StoreArgs, options: &Options, output: Output) -> Result<Exit> {
    let key = options.key.key()?;
    let secrets = match options.reveal {
        true => Secrets::Revealed,
        false => Secrets::Masked,
    };
    let store = open(args).await?;
    let summary = super::admin(&*store)?.summary(&key).await?;
    // An unreadable record has a summary, and an error instead of a result.
    let (record, unreadable) = match store.get(&key).await {
        Ok(record) => (record, None),
        // Encrypted under a key that is not among those of `--keys`.
        Err(error) if is_unreadable(&error) && summary.is_some() => (None, Some(error.to_string())),
        Err(error) => return Err(error.into()),
    };
    let history = store.history(&key).await?;
    let mut value = masked::key(&key);
    value.insert(
        "record".to_owned(),
        summary
            .as_ref()
            .map_or(Value::Null, |summary| secrets.summary(summary)),
    );
    value.insert(
        "result".to_owned(),
        record
            .as_ref()
            .map_or(Value::Null, |record| result(record, secrets)),
    );
    let is_unknown = |record: &Record| record.info().fingerprint.is_unknown();
    let is_unknown = record.as_ref().is_some_and(is_unknown);
    value.insert("matches_every_request".to_owned(), json!(is_unknown));
    let is_sealed = record.as_ref().is_some_and(is_encrypted);
    value.insert("is_encrypted".to_owned(), json!(is_sealed));
    value.insert("unreadable".to_owned(), json!(unreadable));
    let entries: Vec<_> = history.iter().map(|entry| secrets.audit(entry)).collect();
    value.insert("history".to_owned(), json!(entries));
    output.json(&value)?;
    if !output.is_json() {
        print_key(&key, summary.as_ref(), output, secrets)?;
        if let Some(unreadable) = &unreadable {
            output.line(format!(
                "\nThe result cannot be read: {}",
                text::plain(unreadable)
            ))?;
        }
        if is_unknown {
            output.line("\nIts fingerprint is unknown: an older table kept it, and it matches every request.")?;
        }
        match &record {
            Some(record) if is_encrypted(record) => output.line(
                "\nThe result is encrypted; `--keys FILE`, or IDEM_KEYS_FILE, names its keys.",
            )?,
            Some(Record::Completed(done)) => print_response(&done.response, output, secrets)?,
            Some(Record::Failed(failed)) => print_failure(&failed.failure, output, secrets)?,
            _ => {}
        }
        print_history(&history, output)?;
    }
    match summary.is_none() && history.is_empty() {
        true => Err(Failure::refused(
            "the key is free: there is no record of it",
        )),
        false => Ok(Exit::Done),
    }
}

fn is_unreadable(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Misconfigured)
}

fn result(record: &Record, secrets: Secrets) -> Value {
    match record {
        Record::Completed(completed) => secrets.response(&completed.response),
        Record::Failed(failed) => secrets.failure(&failed.failure),
        _ => Value::Null,
    }
}

/// Prints the fields of a record, as `show` and the prompts of forced steps do.
pub(super) fn print_key(
    key: &idem_core::Key,
    record: Option<&RecordSummary>,
    output: Output,
    secrets: Secrets,
) -> Result<()> {
    let mut fields = vec![
        ("scope", text::plain(key.scope())),
        ("operation", text::plain(key.operation())),
        ("id", text::plain(key.id())),
    ];
    let Some(record) = record else {
        fields.push(("state", "free".to_owned()));
        return output.fields(&fields);
    };
    fields.push(("state", record.state.to_string()));
    fields.push(("token", record.token.to_string()));
    fields.push(("attempts", record.attempts.to_string()));
    let age = when::shown(record.age());
    fields.push((
        "created",
        format!("{} ({age} ago)", when::instant(record.created_at)),
    ));
    if let Some(ends) = record.lease_ends_at {
        let end = match ends > record.observed_at {
            true => format!(
                "ends in {}",
                when::shown(ends.saturating_since(record.observed_at))
            ),
            false => format!(
                "ended {} ago",
                when::shown(record.observed_at.saturating_since(ends))
            ),
        };
        fields.push(("lease", format!("{} ({end})", when::instant(ends))));
        let policy = match record.on_stale {
            StalePolicy::Fail => "the key fails; its work must not run again",
            _ => "another caller takes over",
        };
        fields.push(("then", policy.to_owned()));
    }
    if let Some(sealed) = record.sealed_at {
        fields.push(("sealed", when::instant(sealed)));
    }
    fields.push(("retention ends", when::instant(record.expires_at)));
    fields.push(("result", format!("{} bytes", record.result_bytes)));
    if let Some(checkpoint) = &record.checkpoint {
        fields.push(("checkpoint", text::plain(checkpoint)));
    }
    if let Some(code) = &record.failure_code {
        fields.push(("failure code", text::plain(code)));
    }
    output.fields(&fields)?;
    print_metadata(&record.metadata, output, secrets)
}

fn print_metadata(metadata: &Metadata, output: Output, secrets: Secrets) -> Result<()> {
    if metadata.is_empty() {
        return Ok(());
    }
    output.line("\nMetadata")?;
    for (name, value) in metadata.iter() {
        output.line(format!(
            "  {}: {}",
            text::plain(name),
            one_line(value.as_bytes(), secrets)
        ))?;
    }
    Ok(())
}

fn print_response(response: &Response, output: Output, secrets: Secrets) -> Result<()> {
    output.line(format!("\nResponse {}", response.status()))?;
    for (name, value) in response.headers() {
        output.line(format!(
            "  {}: {}",
            text::plain(name),
            one_line(value, secrets)
        ))?;
    }
    print_body("Body", response.body(), output, secrets)
}

fn print_failure(failure: &Failed, output: Output, secrets: Secrets) -> Result<()> {
    output.line(format!("\nFailure {}", text::plain(failure.code())))?;
    let message = one_line(failure.message().as_bytes(), secrets);
    output.line(format!("  message: {message}"))?;
    print_body("Details", failure.details(), output, secrets)
}

fn print_body(title: &str, body: &[u8], output: Output, secrets: Secrets) -> Result<()> {
    if secrets == Secrets::Masked || body.is_empty() {
        return output.line(format!("  {}: {}", title.to_lowercase(), size(body)));
    }
    output.line(format!("\n{title}"))?;
    // As it is stored: a reader of JSON would round numbers and drop members that occur twice.
    match std::str::from_utf8(body) {
        Ok(body) => output.line(text::lines(body)),
        Err(_) => output.line(format!(
            "{} bytes that are no text; --json has them in base64",
            body.len()
        )),
    }
}

fn one_line(bytes: &[u8], secrets: Secrets) -> String {
    match (secrets, std::str::from_utf8(bytes)) {
        (Secrets::Revealed, Ok(shown)) => text::plain(shown),
        (Secrets::Revealed, Err(_)) => format!("{}, no text", size(bytes)),
        (Secrets::Masked, _) => size(bytes),
    }
}

fn size(bytes: &[u8]) -> String {
    match bytes.len() {
        0 => "empty".to_owned(),
        1 => "1 byte (--reveal shows it)".to_owned(),
        count => format!("{count} bytes (--reveal shows them)"),
    }
}

fn print_history(history: &[AuditEntry], output: Output) -> Result<()> {
    if history.is_empty() {
        return Ok(());
    }
    output.line("\nForced steps")?;
    let rows: Vec<_> = history
        .iter()
        .map(|entry| {
            let outcome = match entry.outcome {
                AuditOutcome::Done => "done",
                AuditOutcome::Unknown => "unknown",
            };
            vec![
                when::instant(entry.at),
                text::plain(&entry.action),
                outcome.to_owned(),
                entry.token.to_string(),
                text::plain(&entry.who),
                text::plain(&entry.reason),
            ]
        })
        .collect();
    output.table(&["AT", "STEP", "OUTCOME", "#TOKEN", "WHO", "REASON"], &rows)
}
