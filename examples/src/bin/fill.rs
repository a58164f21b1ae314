//! Fills a store with completed keys and leaves them there. `docs/operations.md` has the query that
//! shows how many bytes they take, for each server.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use clap::Parser;
use futures_util::future::try_join_all;
use idem_core::{BoxError, ClaimRequest, Fingerprint, IdempotencyStore, Key, Response};
use idem_storm::effects::Effects;
use idem_storm::report::exit;

/// Claims and completes fresh keys, and leaves their records in the store.
///
/// Exit status 0: all keys are completed; 2: the store could not be filled.
#[derive(Debug, Parser)]
#[command(name = "fill", version, max_term_width = 100)]
struct Args {
    /// Where records are stored: the URLs of `storm`
    #[arg(long, value_name = "URL")]
    store: String,

    /// The schema, the database, or the prefix of tables or keys; it stays
    #[arg(long, value_name = "NAME", default_value = "fill")]
    namespace: String,

    /// Number of keys
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    keys: u32,

    /// Size of each response's body, which does not compress
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    body: usize,

    /// How long each record lives, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 86_400)]
    retention: u64,
}

/// Number of concurrent callers.
const CALLERS: u32 = 32;

/// Completes keys until all are done.
async fn call(
    store: Arc<dyn IdempotencyStore>,
    args: &Args,
    done: &AtomicU32,
) -> Result<(), BoxError> {
    let retention = Duration::from_secs(args.retention);
    while done.fetch_add(1, Ordering::Relaxed) < args.keys {
        let id = format!("{:032x}", rand::random::<u128>());
        let key = Key::new("tenant-7", "payments.create", id)?;
        let request = ClaimRequest::new(key, Fingerprint::raw("request"));
        let outcome = store.claim(&request).await?;
        let claim = outcome.acquired().ok_or("a fresh key was not acquired")?;
        let body: Vec<u8> = (0..args.body).map(|_| rand::random()).collect();
        let response = Response::new(200, body);
        store.complete(&claim, &response, retention).await?;
    }
    Ok(())
}

async fn fill(args: &Args) -> Result<(), BoxError> {
    let effects = Effects::open(&args.store, &args.namespace).await?;
    let (store, done) = (effects.store(), AtomicU32::new(0));
    try_join_all((0..CALLERS).map(|_| call(Arc::clone(&store), args, &done))).await?;
    println!(
        "{}: {} keys with {} bytes of body in `{}`",
        effects.product().await?,
        args.keys,
        args.body,
        args.namespace
    );
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    exit("fill", fill(&Args::parse()).await.map(|()| true))
}
