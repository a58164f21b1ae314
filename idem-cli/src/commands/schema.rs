//! `idem schema`.

use serde_json::json;

use crate::args::StoreArgs;
use crate::backend;
use crate::failure::{Exit, Result};
use crate::output::{self, Output};

/// Prints the schema; needs no server.
pub(crate) fn run(args: &StoreArgs, output: Output) -> Result<Exit> {
    let schema = backend::schema(args)?;
    output.json(&json!({ "schema": schema }))?;
    if !output.is_json() {
        output::write(schema.as_bytes())?;
    }
    Ok(Exit::Done)
}
