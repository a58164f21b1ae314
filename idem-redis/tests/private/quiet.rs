//! The server's own counters.

use std::collections::BTreeSet;
use std::time::Duration;

use idem_core::{
    Advance, AttemptId, BatchStore, Checkpoint, CheckpointStore, IdempotencyStore, Response,
    StalePolicy, WatermarkStore,
};
use idem_redis::{Config, RedisCache, RedisStore};
use idem_servers::{Durability, Options, start_private};
use tokio::runtime::Runtime;

use crate::own::{HOUR, Outcome, query, request};

/// Returns changes of keys, bytes of the replication stream, and of the append-only file.
async fn written(url: &str) -> Outcome<Vec<String>> {
    let info: String = query(url, "INFO everything").await?;
    let counters = [
        "rdb_changes_since_last_save:",
        "master_repl_offset:",
        "aof_current_size:",
    ];
    let is_counter = |line: &&str| counters.iter().any(|counter| line.starts_with(counter));
    Ok(info.lines().filter(is_counter).map(str::to_owned).collect())
}

pub(crate) fn duplicates(runtime: &Runtime, server: &str) -> Outcome {
    let durable = Options::new().with_durability(Durability::Durable);
    let server = start_private(server, &durable)?;
    runtime.block_on(async {
        let store = RedisStore::connect(server.url(), Config::new()).await?;
        let [done, held] = ["done", "held"].map(request);
        let claim = store.claim(&done).await?.acquired().ok_or("a fresh key")?;
        let response = Response::new(200, "done");
        store.complete(&claim, &response, HOUR).await?;
        let holder = store.claim(&held).await?.acquired().ok_or("a fresh key")?;
        store
            .checkpoint(&holder, &Checkpoint::new("a", "b")?)
            .await?;
        store.advance(held.key(), 7, HOUR).await?;
        let before = written(server.url()).await?;
        assert_eq!(before.len(), 3, "{before:?}");
        let again =
            |request: &idem_core::ClaimRequest| request.clone().with_attempt(AttemptId::random());
        for _ in 0..200 {
            assert_eq!(store.claim(&again(&done)).await?.name(), "completed");
            assert_eq!(store.claim(&again(&held)).await?.name(), "in_flight");
            assert!(store.get(done.key()).await?.is_some());
            store.complete(&claim, &response, HOUR).await?;
            assert!(store.last_checkpoint(&holder).await?.is_some());
            assert!(store.advance(held.key(), 6, HOUR).await?.is_stale());
            let unchanged = store.advance(held.key(), 7, 2 * HOUR).await?;
            assert_eq!(unchanged, Advance::Unchanged);
            assert_eq!(store.watermark(held.key()).await?, Some(7));
            for outcome in store.claim_many(&[again(&done), again(&held)]).await {
                assert!(outcome?.acquired().is_none());
            }
        }
        assert_eq!(store.fail_abandoned(100).await?, 0);
        assert_eq!(written(server.url()).await?, before);
        assert!(store.claim(&request("fresh")).await?.acquired().is_some());
        assert_ne!(written(server.url()).await?, before, "a claim is seen");
        Ok(())
    })
}

/// Returns the commands since the statistics were reset, inside scripts too.
async fn commands_run(url: &str) -> Outcome<BTreeSet<String>> {
    let info: String = query(url, "INFO commandstats").await?;
    let name = |line: &str| Some(line.strip_prefix("cmdstat_")?.split(':').next()?.to_owned());
    Ok(info.lines().filter_map(name).collect())
}

pub(crate) fn commands(runtime: &Runtime, server: &str) -> Outcome {
    let server = start_private(server, &Options::new())?;
    let url = server.url();
    runtime.block_on(async {
        let store = RedisStore::connect(url, Config::new()).await?;
        let cache = RedisCache::new(url, "orders", &Config::new())?;
        query::<()>(url, "CONFIG RESETSTAT").await?;
        let (short, response) = (Duration::from_millis(1), Response::new(200, "done"));
        for number in 0..30 {
            let one = request(format!("{number}"));
            let claim = store.claim(&one).await?.acquired().ok_or("fresh")?;
            let claim = store.renew(&claim, HOUR).await?;
            let point = Checkpoint::new("a", "b")?;
            store.checkpoint(&claim, &point).await?;
            assert_eq!(store.last_checkpoint(&claim).await?, Some(point));
            store.advance(one.key(), number, HOUR).await?;
            assert_eq!(store.watermark(one.key()).await?, Some(number));
            store.complete(&claim, &response, HOUR).await?;
            let stale = request(format!("stale {number}")).with_on_stale(StalePolicy::Fail);
            let claim = store.claim(&stale.with_lease(short)).await?;
            assert!(claim.acquired().is_some());
            let released = store.claim(&request(format!("released {number}"))).await?;
            let released = released.acquired().ok_or("fresh")?;
            store.release(&released).await?;
            let ticket = cache.read(one.key()).await?.ticket;
            cache.store(one.key(), &ticket, b"entry", HOUR).await?;
            cache.invalidate(one.key()).await?;
        }
        tokio::time::sleep(2 * short).await;
        assert_eq!(store.fail_abandoned(100).await?, 30);
        assert_eq!(store.delete_expired(100).await?, 0);
        let known = "evalsha eval get mget set getrange pexpire pttl time publish scan del info config|resetstat \
                     client|setinfo hello command subscribe";
        let known: BTreeSet<_> = known.split_whitespace().map(str::to_owned).collect();
        let run = commands_run(url).await?;
        let unknown: Vec<_> = run.difference(&known).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
        assert!(run.contains("scan") && run.contains("evalsha"), "{run:?}");
        Ok(())
    })
}

pub(crate) fn flushed(runtime: &Runtime, server: &str) -> Outcome {
    let server = start_private(server, &Options::new())?;
    runtime.block_on(async {
        let cache = RedisCache::new(server.url(), "orders", &Config::new())?;
        let request = request("one");
        let ticket = cache.read(request.key()).await?.ticket;
        assert!(cache.store(request.key(), &ticket, b"entry", HOUR).await?);
        query::<()>(server.url(), "FLUSHALL").await?;
        assert!(!cache.store(request.key(), &ticket, b"old", HOUR).await?);
        let read = cache.read(request.key()).await?;
        assert!(read.hit.is_none());
        assert!(!cache.store(request.key(), &ticket, b"old", HOUR).await?);
        assert!(
            cache
                .store(request.key(), &read.ticket, b"new", HOUR)
                .await?
        );
        query::<()>(server.url(), "SCRIPT FLUSH").await?;
        let hit = cache.read(request.key()).await?.hit.ok_or("stored")?;
        assert_eq!(&hit.entry[..], b"new");
        Ok(())
    })
}
