//! Runs the crate `idempotent` with many callers, for the benchmarks of idem.
//!
//! `idem-bench-idempotent memory|redis://… claim|fresh|replayed` reads a round from each line of
//! its standard input, `CALLERS NANOSECONDS`. It answers each with a line: `OPERATIONS
//! NANOSECONDS`, or the error.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use idempotent::memory::MemoryStore;
use idempotent::valkey::ValkeyStore;
use idempotent::{
    CachedResponse, ClaimOutcome, ExecutionOutcome, IdempotencyKey, IdempotencyStore, Metadata,
};
use tokio::io::{AsyncBufReadExt, BufReader};

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// As long as the scope and operation of idem's keys.
const PREFIX: &str = "benchpayments.create";
/// The response in idem's benchmarks.
const BODY: &str = r#"{"id":"ch_8f14e45fceea167a5a36dedd4bea2543","status":"succeeded","amount":1200,"currency":"EUR"}"#;
const LEASE: Duration = Duration::from_secs(30);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// The number of completed keys that are replayed in turns.
const KEYS: usize = 200;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    /// A claim of a fresh key.
    Claim,
    /// A run of a fresh key.
    Fresh,
    /// A run of a completed key.
    Replayed,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [store, call] = &arguments[..] else {
        return Err("usage: idem-bench-idempotent memory|redis://… claim|fresh|replayed".into());
    };
    let call = match &**call {
        "claim" => Call::Claim,
        "fresh" => Call::Fresh,
        "replayed" => Call::Replayed,
        other => return Err(format!("{other} is none of claim, fresh, replayed").into()),
    };
    match &**store {
        "memory" => serve(MemoryStore::builder().try_build()?, call).await,
        url => serve(ValkeyStore::with_url(url).try_build().await?, call).await,
    }
}

/// A store of the crate.
trait Store: IdempotencyStore<Error: Error + Send + Sync + 'static> + Send + Sync + 'static {}

impl Store for MemoryStore {}
impl Store for ValkeyStore {}

/// Answers each line of standard input.
async fn serve(store: impl Store, call: Call) -> Result<()> {
    let used: Vec<String> = (0..KEYS).map(|_| id()).collect();
    if call == Call::Replayed {
        for id in &used {
            step(&store, Call::Fresh, id).await?;
        }
    }
    let (store, used) = (Arc::new(store), Arc::new(used));
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        match round(&store, call, &used, &line).await {
            Ok((operations, elapsed)) => println!("{operations} {}", elapsed.as_nanos()),
            Err(error) => println!("{error}"),
        }
    }
    Ok(())
}

async fn round(
    store: &Arc<impl Store>,
    call: Call,
    used: &Arc<Vec<String>>,
    line: &str,
) -> Result<(u64, Duration)> {
    let (callers, length) = line.split_once(' ').ok_or("no length")?;
    let callers: usize = callers.parse()?;
    let length = Duration::from_nanos(length.parse()?);
    let begin = Instant::now();
    let mut shifts = Vec::new();
    for number in 0..callers {
        let (store, used) = (Arc::clone(store), Arc::clone(used));
        // One caller: how many operations it did, and when the last ended.
        shifts.push(tokio::spawn(async move {
            let (mut operations, mut last) = (0, begin);
            while operations == 0 || last - begin < length {
                match call {
                    Call::Replayed => {
                        let next = &used[(number + operations) % used.len()];
                        step(&*store, call, next).await?;
                    }
                    Call::Claim | Call::Fresh => step(&*store, call, &id()).await?,
                }
                operations += 1;
                last = Instant::now();
            }
            Ok::<_, Box<dyn Error + Send + Sync>>((operations as u64, last))
        }));
    }
    let (mut operations, mut last) = (0, begin);
    for shift in shifts {
        let (done, ended) = shift.await??;
        operations += done;
        last = last.max(ended);
    }
    Ok((operations, last - begin))
}

/// Makes one call, as an application does.
async fn step(store: &impl Store, call: Call, id: &str) -> Result<()> {
    let key = IdempotencyKey::new([PREFIX, id].concat())?;
    let claim = store
        .claim(&key, LEASE)
        .fingerprint("payments.create", b"request");
    if call == Call::Claim {
        return match claim.try_insert().await? {
            ClaimOutcome::Claimed(_guard) => Ok(()),
            ClaimOutcome::Exists { .. } => Err("the key was not fresh".into()),
        };
    }
    let work = |_token| async { Ok(CachedResponse::new(200, Metadata::new(), BODY.into())) };
    let is_fresh = match claim.execute_or_replay(DAY, work).await? {
        ExecutionOutcome::Executed(_) => true,
        ExecutionOutcome::Replayed(_) => false,
        _ => return Err("the key is in flight".into()),
    };
    match is_fresh == (call == Call::Fresh) {
        true => Ok(()),
        false => Err("a fresh key was replayed, or a completed one ran again".into()),
    }
}

/// Returns 32 hexadecimal digits in no order.
fn id() -> String {
    format!("{:032x}", fastrand::u128(..))
}
