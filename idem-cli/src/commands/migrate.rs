//! `idem migrate`.

use serde_json::json;

use crate::args::StoreArgs;
use crate::backend::{Purpose, connect, schema};
use crate::confirm::confirm;
use crate::failure::{Exit, Result};
use crate::output::{self, Output};

/// The options of `migrate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Prints what it would run, as `schema` does, and whether anything is missing; changes nothing.
    #[arg(long)]
    dry_run: bool,

    /// Does not ask for a confirmation.
    #[arg(long, short)]
    yes: bool,
}

pub(crate) async fn run(args: &StoreArgs, options: &Options, output: Output) -> Result<Exit> {
    if options.dry_run {
        return dry_run(args, output).await;
    }
    confirm(
        "Create the tables and indexes that are missing?",
        options.yes,
    )?;
    let backend = connect(args, Purpose::Create).await?;
    backend.migrate().await?;
    output.json(&json!({ "migrated": true }))?;
    output.line("The schema is in place.")?;
    Ok(Exit::Done)
}

/// Where the schema is in place, nothing would run.
async fn dry_run(args: &StoreArgs, output: Output) -> Result<Exit> {
    let is_in_place = match connect(args, Purpose::Verify).await {
        Ok(backend) => backend.verify().await.is_ok(),
        // A SQLite file that is missing would be created.
        Err(failure) if failure.exit() == Exit::Usage => false,
        Err(failure) => return Err(failure),
    };
    let schema = schema(args)?;
    output.json(&json!({
        "migrated": false,
        "is_in_place": is_in_place,
        "schema": (!is_in_place).then_some(&schema),
    }))?;
    if is_in_place {
        output.line("The schema is in place; nothing would run.")?;
    } else if !output.is_json() {
        output::write(schema.as_bytes())?;
    }
    Ok(Exit::Done)
}
