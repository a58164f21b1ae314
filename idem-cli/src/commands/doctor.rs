//! `idem doctor`.

use serde_json::json;

use crate::args::StoreArgs;
use crate::backend::{Backend, Purpose, connect};
use crate::doctor::{Findings, Level};
use crate::failure::{Exit, Failure, Result};
use crate::output::Output;
use crate::text;

/// The options of `doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Counts warnings as errors.
    #[arg(long)]
    strict: bool,
}

pub(crate) async fn run(args: &StoreArgs, options: &Options, output: Output) -> Result<Exit> {
    let mut findings = Findings::default();
    match connect(args, Purpose::Examine).await {
        Ok(backend) => {
            findings.ok("connection", args.url()?.to_string());
            examine(&*backend, &mut findings).await?;
        }
        // The server answers, and its settings are unsuitable; or the URL is.
        Err(failure) if failure.exit() == Exit::Usage && args.url().is_ok() => {
            findings.error("connection", "unsuitable", failure.to_string());
            // Behind a pooler that mixes prepared statements up, the rest can still be seen.
            if let Some(args) = args.as_unprepared()
                && let Ok(backend) = connect(&args, Purpose::Examine).await
            {
                examine(&*backend, &mut findings).await?;
            }
        }
        Err(failure) => return Err(failure),
    }
    report(&findings, output)?;
    let has_warnings = findings
        .all()
        .iter()
        .any(|finding| finding.level != Level::Ok);
    Ok(
        match findings.has_errors() || (options.strict && has_warnings) {
            true => Exit::Problems,
            false => Exit::Done,
        },
    )
}

async fn examine(backend: &dyn Backend, findings: &mut Findings) -> Result<()> {
    let mut failed = None;
    match backend.verify().await.map_err(Failure::from) {
        Ok(()) => findings.ok("schema", "in place, with all privileges"),
        Err(failure) => {
            let is_unavailable = failure.exit() == Exit::Store;
            let found = match is_unavailable {
                true => "not examined",
                false => "not as this version needs it",
            };
            findings.error("schema", found, failure.to_string());
            failed = is_unavailable.then_some(failure);
        }
    }
    // A server that only reads answers the rest.
    let examined = backend.examine(findings).await;
    examined.map_err(|failure| failed.unwrap_or(failure))
}

fn report(findings: &Findings, output: Output) -> Result<()> {
    for finding in findings.all() {
        output.json(&json!(finding))?;
    }
    let rows: Vec<_> = findings
        .all()
        .iter()
        .map(|finding| {
            let level = match finding.level {
                Level::Ok => finding.level.name().to_owned(),
                level => level.name().to_uppercase(),
            };
            vec![finding.check.to_owned(), level, text::plain(&finding.found)]
        })
        .collect();
    output.table(&["CHECK", "STATE", "FOUND"], &rows)?;
    let mut advice = findings
        .all()
        .iter()
        .filter(|finding| finding.advice.is_some())
        .peekable();
    if advice.peek().is_some() {
        output.line("")?;
    }
    for finding in advice {
        let text = finding.advice.as_deref().unwrap_or_default();
        let level = finding.level.name().to_uppercase();
        output.line(format!("{level} {}: {}", finding.check, text::plain(text)))?;
    }
    Ok(())
}
