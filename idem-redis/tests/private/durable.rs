//! Servers that are killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use idem_core::{Claim, IdempotencyStore, IdempotencyStoreExt, Record, Response};
use idem_redis::{Config, RedisStore};
use idem_servers::{Durability, Options, start_private};
use tokio::runtime::Runtime;

use crate::own::{HOUR, Outcome, request};

/// `appendonly yes`, `appendfsync always`.
pub(crate) fn durable(runtime: &Runtime, server: &str) -> Outcome {
    let durable = Options::new().with_durability(Durability::Durable);
    let mut server = start_private(server, &durable)?;
    let store = runtime.block_on(RedisStore::connect(server.url(), Config::new()))?;
    let mut acknowledged = Vec::new();
    for round in 0..3 {
        let count = Arc::new(AtomicUsize::new(0));
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let (store, count) = (store.clone(), Arc::clone(&count));
                runtime.spawn(complete_until_killed(store, round, writer, count))
            })
            .collect();
        // In the midst of the traffic, however slow the disk is.
        let begun = Instant::now();
        while count.load(Ordering::SeqCst) < ENOUGH && begun.elapsed() < LONGEST {
            std::thread::sleep(Duration::from_millis(10));
        }
        server.kill()?;
        for writer in writers {
            acknowledged.extend(runtime.block_on(writer)?);
        }
        server.restart()?;
        runtime.block_on(check(&store, &acknowledged))?;
    }
    let count = acknowledged.len();
    assert!(count >= 3 * ENOUGH, "only {count} were acknowledged");
    Ok(())
}

/// Completions of a round before the server is killed.
const ENOUGH: usize = 50;

/// How long a round waits for them.
const LONGEST: Duration = Duration::from_secs(30);

/// Returns the completions that the store acknowledged to this writer.
async fn complete_until_killed(
    store: RedisStore,
    round: u32,
    writer: u32,
    count: Arc<AtomicUsize>,
) -> Vec<Claim> {
    let mut acknowledged = Vec::new();
    for number in 0.. {
        let request = request(format!("{round}-{writer}-{number}"));
        let Ok(outcome) = store.claim(&request).await else {
            break;
        };
        let claim = outcome.acquired().expect("a fresh key");
        let response = Response::new(200, request.key().id().to_owned());
        if store.complete(&claim, &response, HOUR).await.is_err() {
            break;
        }
        acknowledged.push(claim);
        count.fetch_add(1, Ordering::SeqCst);
    }
    acknowledged
}

/// By the same store, which has noticed by itself that its connection was lost.
async fn check(store: &RedisStore, acknowledged: &[Claim]) -> Outcome {
    for claim in acknowledged {
        let duplicate = request(claim.key().id());
        let limit = Duration::from_secs(30);
        let answer = store.claim_retrying(&duplicate, limit).await?;
        assert_eq!(answer.name(), "completed", "an acknowledged completion");
        let Some(Record::Completed(record)) = store.get(claim.key()).await? else {
            return Err("an acknowledged completion is lost".into());
        };
        assert_eq!(record.info.token, claim.token());
        assert_eq!(record.response.body(), claim.key().id());
    }
    Ok(())
}

/// No `appendonly`, no `save`: the case that the README warns of.
pub(crate) fn forgetful(runtime: &Runtime, server: &str) -> Outcome {
    let mut server = start_private(server, &Options::new())?;
    let store = runtime.block_on(RedisStore::connect(server.url(), Config::new()))?;
    let (done, held) = (request("done"), request("held"));
    let before = runtime.block_on(async {
        let claim = store.claim(&done).await?.acquired().ok_or("a fresh key")?;
        let response = Response::new(200, "done");
        store.complete(&claim, &response, HOUR).await?;
        let held = store.claim(&held).await?.acquired();
        Outcome::Ok(held.ok_or("a fresh key")?)
    })?;
    server.kill()?;
    server.restart()?;
    runtime.block_on(async {
        let limit = Duration::from_secs(30);
        let again = store.claim_retrying(&request("done"), limit).await?;
        assert_eq!(again.name(), "acquired", "the work runs once more");
        let again = store.claim(&request("held")).await?;
        let again = again.acquired().ok_or("the claim is lost")?;
        assert!(again.token() > before.token(), "the old holder is fenced");
        let error = store.release(&before).await.unwrap_err();
        assert!(error.is_claim_lost(), "{error}");
        Ok(())
    })
}
