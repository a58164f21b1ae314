//! `prove replay`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use idem_core::{BoxError, IdempotencyStore};

use crate::cell::Cell;
use crate::history::{Calls, Head, Recorded, Recorder, VERSION};
use crate::judge::judge;
use crate::replay::replay;
use crate::search::Bounds;

/// The arguments of `prove replay`.
#[derive(Debug, Args)]
pub struct ReplayArguments {
    /// A shrunk history
    path: PathBuf,
    /// `memory`, `sqlite`, or a server's URL
    #[arg(
        long,
        env = "IDEM_PROVE_STORE",
        default_value = "sqlite",
        hide_env_values = true
    )]
    store: String,
    /// How often the calls are repeated
    #[arg(long, default_value_t = 200)]
    tries: u64,
}

/// Repeats the calls of a history many times, and judges each. Returns 1 if one was refused, 0 if
/// none was, which shows little.
///
/// # Errors
///
/// Those of the server and of the files.
pub async fn run(arguments: &ReplayArguments) -> Result<ExitCode, BoxError> {
    let calls = Calls::read(&arguments.path)?;
    let cell = Cell::parse(&arguments.store)?;
    let namespace = cell.create().await?;
    let refused = tries(&cell, &namespace, &calls, arguments.tries).await;
    let removed = cell.destroy(&namespace).await;
    let refused = refused?;
    removed?;
    println!("refused in {refused} of {} tries", arguments.tries);
    Ok(ExitCode::from(u8::from(refused > 0)))
}

/// Returns how many of the tries were refused.
async fn tries(cell: &Cell, namespace: &str, calls: &Calls, tries: u64) -> Result<u64, BoxError> {
    let store = cell.open(namespace).await?;
    let folder = tempfile::tempdir()?;
    let mut refused = 0;
    for number in 0..tries {
        let head = Head {
            v: VERSION,
            cell: format!("replay of {}", calls.head.cell),
            seed: number,
            quantum: cell.quantum(),
            asks_again: cell.asks_again(),
            caches: cell.caches(),
        };
        let file = folder.path().join(format!("{number}.ndjson"));
        let recorder = Recorder::create(&file, head)?;
        let recorded: Arc<dyn IdempotencyStore> =
            Arc::new(Recorded::new(Arc::clone(&store), recorder));
        replay(&recorded, calls, &number.to_string()).await?;
        let judgement = judge(&Calls::read(&file)?.history()?, Bounds::default());
        refused += u64::from(!judgement.refused.is_empty());
    }
    Ok(refused)
}
