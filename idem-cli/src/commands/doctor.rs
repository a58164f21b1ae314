//! `idem doctor`.

#[cfg(feature = "console")]
use std::collections::BTreeMap;

use serde_json::json;

use crate::args::StoreArgs;
use crate::backend::{Backend, Purpose, connect};
use crate::doctor::{Finding, Findings, Level};
use crate::failure::{Exit, Failure, Result};
use crate::output::Output;
use crate::text;

/// The options of `doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Counts warnings as errors.
    #[arg(long)]
    strict: bool,
    /// Reads a service's page of metrics, too, over plain http, such as
    /// http://10.0.0.7:9090/metrics; may be repeated.
    #[cfg(feature = "console")]
    #[arg(long, value_name = "URL")]
    metrics: Vec<String>,
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
    #[cfg(feature = "console")]
    for url in &options.metrics {
        match idem_console::unstored_answers(url).await {
            Ok(unstored) => answers(unstored, &mut findings),
            Err(error) if error.kind() == idem_core::ErrorKind::InvalidInput => Err(error)?,
            Err(error) => findings.unseen("answers", error.to_string()),
        }
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

/// Reports which answers a service did not store. The reasons in `CHOSEN` are the handler's or the
/// policy's intention, or no handler began.
#[cfg(feature = "console")]
fn answers(mut unstored: BTreeMap<&'static str, u64>, findings: &mut Findings) {
    const CHOSEN: [&str; 5] = ["marked", "no-store", "unread", "status", "content"];
    unstored.retain(|_, count| *count > 0);
    let shown = unstored.iter().map(|(why, count)| format!("{count} {why}"));
    let found = match shown.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => "none is counted as not stored".to_owned(),
        reasons => format!("not stored: {reasons}"),
    };
    match unstored.keys().all(|why| CHOSEN.contains(why)) {
        true => findings.ok("answers", found),
        false => findings.warning(
            "answers",
            found,
            "a repeat of such a request runs again; after too-large, or under at_most_once, it gets 410: see the \
             guarantees in idem-http's README",
        ),
    }
}

fn report(findings: &Findings, output: Output) -> Result<()> {
    for finding in findings.all() {
        output.json(&json!(finding))?;
    }
    let row = |finding: &Finding| {
        let [check, level] = [finding.check, finding.level.name()].map(str::to_owned);
        vec![check, level, text::plain(&finding.found)]
    };
    let rows: Vec<_> = findings.all().iter().map(row).collect();
    output.table(&["CHECK", "STATE", "FOUND"], &rows)?;
    let mut gap = "\n";
    for finding in findings.all() {
        if let Some(advice) = &finding.advice {
            let (level, advice) = (finding.level.name(), text::plain(advice));
            output.line(format!("{gap}{level} {}: {advice}", finding.check))?;
            gap = "";
        }
    }
    Ok(())
}
