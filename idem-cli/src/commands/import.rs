//! `idem import`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use idem_core::backend::StoredResult;
use idem_core::{Failure as Stored, IdempotencyStoreExt, Key, Response};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::task::JoinSet;

use crate::args::StoreArgs;
use crate::backend::open;
use crate::confirm::confirm;
use crate::failure::{Exit, Failure, Result};
use crate::output::Output;
use crate::when;

/// The lines that are stored at once: stores put concurrent calls into one statement.
const BATCH_LINES: usize = 64;

/// The bytes after which a batch takes no more lines.
const BATCH_BYTES: usize = 16 << 20;

/// The options of `import`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The file with a record a line; `-` is standard input.
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,

    /// Checks every line and looks its key up; changes nothing.
    #[arg(long)]
    dry_run: bool,

    /// How long a record without `expires_at` is kept from now.
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = when::duration)]
    retention: Duration,

    /// Does not ask for a confirmation.
    #[arg(long, short)]
    yes: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    scope: String,
    operation: String,
    id: String,
    status: Option<u16>,
    #[serde(default)]
    headers: Vec<(String, String)>,
    body: Option<String>,
    json: Option<Box<RawValue>>,
    base64: Option<String>,
    failure: Option<Code>,
    expires_at: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Code {
    code: String,
    #[serde(default)]
    message: String,
}

pub(crate) async fn run(args: &StoreArgs, options: &Options, output: Output) -> Result<Exit> {
    let is_given = options.yes || options.dry_run;
    confirm("Store these records, which match every request?", is_given)?;
    let unreadable = |error: io::Error| Failure::usage(format!("cannot read the file: {error}"));
    let mut input: Box<dyn BufRead + Send> = match options.file.to_str() {
        Some("-") => Box::new(BufReader::new(io::stdin())),
        _ => Box::new(BufReader::new(
            File::open(&options.file).map_err(unreadable)?,
        )),
    };
    let store = open(args).await?;
    // A body may be escaped, or base64.
    let most = store
        .limits()
        .max_result_bytes
        .saturating_mul(4)
        .saturating_add(64 << 10);
    let limit = u64::try_from(most).unwrap_or(u64::MAX);
    let (mut counts, mut number, mut is_open) = ([0_u64; 3], 0_u64, true);
    while is_open {
        let (mut batch, mut bytes, mut broken) = (JoinSet::new(), 0, None);
        while is_open && batch.len() < BATCH_LINES && bytes < BATCH_BYTES {
            let mut line = Vec::new();
            let read = (&mut *input).take(limit).read_until(b'\n', &mut line);
            bytes += read.map_err(unreadable)?;
            number += 1;
            is_open = !line.is_empty();
            match record(&line, most, options.retention) {
                _ if line.trim_ascii().is_empty() => {}
                Ok((_, _, left)) if left.is_zero() => counts[2] += 1,
                Ok((key, result, left)) => {
                    let (store, is_dry) = (Arc::clone(&store), options.dry_run);
                    batch.spawn(async move {
                        let stored = match is_dry {
                            true => store.get(&key).await.map(|record| record.is_none()),
                            false => store.adopt(&key, &result, left).await,
                        };
                        (number, stored)
                    });
                }
                Err(failure) => {
                    (broken, is_open) = (Some((number, failure)), false);
                }
            }
        }
        for (number, stored) in batch.join_all().await {
            match stored {
                Ok(stored) => counts[usize::from(!stored)] += 1,
                Err(error) => broken = Some((number, error.into())),
            }
        }
        if let Some((number, failure)) = broken {
            return Err(failure.at(&format!(
                "line {number}; run the import again when it is mended"
            )));
        }
    }
    let [stored, existing, expired] = counts;
    output.json(&json!({
        "stored": stored, "existing": existing, "expired": expired, "dry_run": options.dry_run,
    }))?;
    let would = if options.dry_run {
        "It would store"
    } else {
        "Stored"
    };
    output.line(format!(
        "{would} {stored} records; {existing} keys have one already, {expired} records have expired."
    ))?;
    Ok(Exit::Done)
}

/// Returns the record of a line, and how long to keep it. Errors quote nothing of the line, which may
/// have secrets.
fn record(line: &[u8], most: usize, retention: Duration) -> Result<(Key, StoredResult, Duration)> {
    if line.len() >= most {
        return Err(Failure::usage(format!("the line has {most} bytes or more")));
    }
    let line: Line = serde_json::from_slice(line).map_err(|error| {
        let what = match error.classify() {
            serde_json::error::Category::Data => "a member is missing, unknown or of another type",
            _ => "it is no JSON",
        };
        Failure::usage(format!("no record: {what}, at column {}", error.column()))
    })?;
    let key = Key::new(&line.scope, &line.operation, &line.id)?;
    let base64 = line.base64.map(|text| STANDARD.decode(text)).transpose();
    let base64 = base64.map_err(|_| Failure::usage("`base64` is no base64"))?;
    let json = line.json.map(|json| json.get().as_bytes().to_vec());
    let bodies = [line.body.map(String::into_bytes), json, base64];
    let mut bodies = bodies.into_iter().flatten();
    let (body, more) = (bodies.next(), bodies.next());
    let is_response = line.status.is_some() || body.is_some() || !line.headers.is_empty();
    let result = match line.failure {
        Some(Code { code, message }) if !is_response => {
            StoredResult::Failure(Stored::new(code, message))
        }
        None if is_response && more.is_none() => {
            let response = Response::new(line.status.unwrap_or(200), body.unwrap_or_default());
            let headers = line.headers.into_iter();
            let add = |response: Response, (name, value)| response.with_header(name, value);
            StoredResult::Response(headers.fold(response, add))
        }
        _ => {
            let what = "a record has `status`, one of `body`, `json` and `base64`, or `failure`";
            return Err(Failure::usage(what));
        }
    };
    let Some(end) = line.expires_at else {
        return Ok((key, result, retention));
    };
    let end: jiff::Timestamp = end
        .parse()
        .map_err(|_| Failure::usage("`expires_at` is not as `2026-12-24T18:00:00Z`"))?;
    let left = end.duration_since(jiff::Timestamp::now());
    let left = Duration::try_from(left).unwrap_or_default();
    Ok((key, result, left.min(idem_core::limits::MAX_RETENTION)))
}
