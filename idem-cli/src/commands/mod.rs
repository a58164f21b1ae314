//! The commands, one a file.

mod census;
#[cfg(feature = "certify")]
pub(crate) mod certify;
pub(crate) mod completions;
pub(crate) mod doctor;
pub(crate) mod expire_abandoned;
pub(crate) mod import;
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod migrate;
pub(crate) mod purge;
pub(crate) mod rewrap;
pub(crate) mod schema;
#[cfg(feature = "console")]
pub(crate) mod serve;
pub(crate) mod show;
pub(crate) mod stats;
pub(crate) mod step;
mod verify;
pub(crate) mod watch;

use idem_core::{IdempotencyStore, RecordAdmin};

use crate::args::{Cli, Command};
use crate::failure::{Exit, Failure, Result};
use crate::output::Output;

/// Runs the command.
pub(crate) async fn run(cli: Cli) -> Result<Exit> {
    let output = Output::new(cli.json);
    let store = &cli.store;
    // Boxed, because the futures of drivers are deep.
    match cli.command {
        Command::Migrate(options) => Box::pin(migrate::run(store, &options, output)).await,
        Command::Schema => schema::run(store, output),
        Command::Verify => Box::pin(verify::run(store, output)).await,
        Command::Doctor(options) => Box::pin(doctor::run(store, &options, output)).await,
        Command::Import(options) => Box::pin(import::run(store, &options, output)).await,
        Command::Ls(options) => Box::pin(ls::run(store, &options, output)).await,
        Command::Show(options) => Box::pin(show::run(store, &options, output)).await,
        Command::Release(options) => {
            Box::pin(step::run(store, &options, step::Kind::Release, output)).await
        }
        Command::Fail(options) => {
            let (options, kind) = options.split()?;
            Box::pin(step::run(store, &options, kind, output)).await
        }
        Command::Delete(options) => {
            Box::pin(step::run(store, &options, step::Kind::Delete, output)).await
        }
        Command::Purge(options) => Box::pin(purge::run(store, &options, output)).await,
        Command::Rewrap(options) => Box::pin(rewrap::run(store, &options, output)).await,
        Command::ExpireAbandoned(options) => {
            Box::pin(expire_abandoned::run(store, &options, output)).await
        }
        Command::Stats(options) => Box::pin(stats::run(store, &options, output)).await,
        Command::Watch(options) => Box::pin(watch::run(store, &options, output)).await,
        #[cfg(feature = "console")]
        Command::Serve(options) => Box::pin(serve::run(store, &options, output)).await,
        #[cfg(feature = "certify")]
        Command::Certify(options) => Box::pin(certify::run(store, &options, output)).await,
        Command::Completions(options) => completions::run(&options),
        Command::Man(options) => man::run(&options),
    }
}

/// Returns the list of records and the forced steps of the store.
fn admin(store: &dyn IdempotencyStore) -> Result<&dyn RecordAdmin> {
    let missing = || {
        let backend = store.backend();
        Failure::usage(format!(
            "the store {backend} does not list its records; use a later version"
        ))
    };
    store.admin().ok_or_else(missing)
}
