//! Tests that need their own server, which is killed.

use std::process::ExitCode;

use idem_core::BoxError;
use idem_stores::{Adapter, Dynamo, no_completion_is_lost};
use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::Runtime;

const TABLE: &str = "idem_records";

fn main() -> ExitCode {
    let missing = idem_servers::no_private("dynamodb");
    let name = "no_acknowledged_completion_is_lost_when_the_server_is_killed";
    let crash = Trial::test(name, || {
        let runtime = Runtime::new().map_err(|error| Failed::from(error.to_string()))?;
        let failed = |error: BoxError| Failed::from(format!("{error}: {:?}", error.source()));
        crash(&runtime).map_err(failed)
    });
    let trials = vec![crash.with_ignored_flag(missing)];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// It says nothing of the service, only that the store reports a completion after its answer.
fn crash(runtime: &Runtime) -> Result<(), BoxError> {
    no_completion_is_lost(runtime, "dynamodb", async |url| {
        let store = Dynamo::new(url).store(TABLE).await?;
        store.migrate().await?;
        Ok(store)
    })
}
