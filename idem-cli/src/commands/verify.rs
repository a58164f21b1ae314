//! `idem verify`.

use idem_core::ErrorKind;
use serde_json::json;

use crate::args::StoreArgs;
use crate::backend::{Purpose, connect};
use crate::failure::{Exit, Failure, Result};
use crate::output::Output;

/// Checks server and tables. What they lack is a problem found, and no error of this program.
pub(crate) async fn run(args: &StoreArgs, output: Output) -> Result<Exit> {
    let backend = connect(args, Purpose::Verify).await?;
    let problem = match backend.verify().await {
        Ok(()) => None,
        Err(error) if error.kind() == ErrorKind::Misconfigured => {
            Some(Failure::from(error).to_string())
        }
        Err(error) => return Err(error.into()),
    };
    output.json(&json!({ "ok": problem.is_none(), "problem": problem }))?;
    match problem {
        None => {
            output.line("Server and tables are as this version needs them.")?;
            Ok(Exit::Done)
        }
        Some(problem) => Err(Failure::refused(problem)),
    }
}
