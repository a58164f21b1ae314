//! `idem rewrap`.

use idem_core::wrappers::Protected;
use idem_core::wrappers::protected::{PlainRecords, Rewrapped};
use serde_json::json;
use tokio::time::Instant;

use crate::args::StoreArgs;
use crate::backend::open_bare;
use crate::confirm::confirm;
use crate::failure::{Exit, Failure, Result};
use crate::keys;
use crate::output::Output;

/// The options of `rewrap`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Encrypts plain records, too: those from before encryption was switched on.
    #[arg(long)]
    plain: bool,

    /// Makes a pause after each page: it takes a tenth of one connection's time.
    #[arg(long)]
    beside_traffic: bool,

    /// The records of a page.
    #[arg(long, default_value_t = 500, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    page: u32,

    /// Does not ask for a confirmation.
    #[arg(long, short)]
    yes: bool,
}

pub(crate) async fn run(args: &StoreArgs, options: &Options, output: Output) -> Result<Exit> {
    let ring = keys::ring(args)?.ok_or_else(|| {
        Failure::usage(format!(
            "no keys are named; add `--keys FILE`, or set IDEM_KEYS_FILE or {}",
            keys::VARIABLE
        ))
    })?;
    let current = ring.current();
    confirm(
        &format!("Re-encrypt all records under the key `{current}`?"),
        options.yes,
    )?;
    let plain = match options.plain {
        true => PlainRecords::Accept,
        false => PlainRecords::Refuse,
    };
    let store = Protected::new(open_bare(args).await?)
        .with_keys(ring)
        .with_plain_records(plain);
    let mut found = Rewrapped::default();
    loop {
        let began = Instant::now();
        let page = store.rewrap(found.next.as_ref(), options.page).await?;
        found = found.and(page);
        if found.next.is_none() {
            break;
        }
        if options.beside_traffic {
            tokio::time::sleep(began.elapsed() * 9).await;
        }
    }
    report(&current, &found, output)
}

fn report(current: &str, found: &Rewrapped, output: Output) -> Result<Exit> {
    let error = found.first_error.as_ref().map(ToString::to_string);
    output.json(&json!({
        "key": current,
        "looked_at": found.looked_at,
        "rewritten": found.rewritten,
        "current": found.current,
        "in_flight": found.in_flight,
        "changed": found.changed,
        "unreadable": found.unreadable,
        "first_error": error,
        "is_done": found.is_done(),
    }))?;
    output.line(format!(
        "Re-encrypted {} of {} records under the key `{current}`.",
        found.rewritten, found.looked_at
    ))?;
    for (count, what) in [
        (found.in_flight, "are in flight and hold older values"),
        (found.changed, "changed meanwhile"),
        (found.unreadable, "cannot be decrypted"),
    ] {
        if count > 0 {
            output.line(format!("{count} records {what}."))?;
        }
    }
    if let Some(error) = error {
        output.line(format!("The first error: {error}"))?;
    }
    output.line(match found.is_done() {
        true => "Nothing is left under another key: the other keys can be removed.",
        false => "Run it again, until nothing is left, before you remove another key.",
    })?;
    Ok(match found.unreadable {
        0 => Exit::Done,
        _ => Exit::Problems,
    })
}
