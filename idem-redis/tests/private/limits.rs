//! Operations that a server does not allow.

use std::time::Duration;

use idem_core::{
    BatchStore, Checkpoint, CheckpointStore, Effect, Error, ErrorKind, IdempotencyStore, Response,
    StalePolicy, WatermarkStore,
};
use idem_redis::{Config, Eviction, Notifications, RedisCache, RedisStore, Replicas};
use idem_servers::{Options, start_private};
use tokio::runtime::Runtime;

use crate::own::{HOUR, Outcome, query, request};

pub(crate) fn evicts(runtime: &Runtime, server: &str) -> Outcome {
    let options = Options::new()
        .with_setting("maxmemory", "64mb")
        .with_setting("maxmemory-policy", "allkeys-lru");
    let server = start_private(server, &options)?;
    let url = server.url();
    runtime.block_on(async {
        for policy in ["allkeys-lru", "volatile-ttl", "volatile-lru"] {
            query::<()>(url, &format!("CONFIG SET maxmemory-policy {policy}")).await?;
            let error = RedisStore::connect(url, Config::new()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
            assert_eq!(
                (error.effect(), error.operation()),
                (Effect::None, "connect")
            );
            let returned = error.to_string();
            assert!(returned.contains(policy), "{returned}");
            assert!(
                returned.contains("CONFIG SET maxmemory-policy noeviction"),
                "{returned}"
            );
            assert!(returned.contains("Eviction::Accept"), "{returned}");
        }
        let accepting = Config::new().with_eviction(Eviction::Accept);
        let store = RedisStore::connect(url, accepting).await?;
        assert!(store.claim(&request("one")).await?.acquired().is_some());
        let cache = RedisCache::new(url, "orders", &Config::new())?;
        assert!(cache.read(request("one").key()).await?.hit.is_none());
        query::<()>(url, "CONFIG SET maxmemory-policy noeviction").await?;
        RedisStore::connect(url, Config::new()).await?;
        // With no limit nothing is ever evicted, whatever the policy.
        query::<()>(url, "CONFIG SET maxmemory 0").await?;
        query::<()>(url, "CONFIG SET maxmemory-policy allkeys-lru").await?;
        RedisStore::connect(url, Config::new()).await?;
        Ok(())
    })
}

/// Redis 7 and Valkey ignore the setting.
pub(crate) fn replicates_text(runtime: &Runtime, server: &str) -> Outcome {
    let options = Options::new().with_setting("lua-replicate-commands", "no");
    let server = start_private(server, &options)?;
    let url = server.url();
    runtime.block_on(async {
        let info: String = query(url, "INFO server").await?;
        if info.contains("redis_version:6.") {
            let error = RedisStore::connect(url, Config::new()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
            assert!(
                error.to_string().contains("lua-replicate-commands"),
                "{error}"
            );
            query::<()>(url, "CONFIG SET lua-replicate-commands yes").await?;
        }
        let store = RedisStore::connect(url, Config::new()).await?;
        everything(&store).await
    })
}

fn is_undone(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(error.effect(), Effect::None, "{error}");
    assert!(error.to_string().contains("maxmemory"), "{error}");
}

pub(crate) fn full(runtime: &Runtime, server: &str) -> Outcome {
    let server = start_private(server, &Options::new())?;
    let url = server.url();
    runtime.block_on(async {
        let store = RedisStore::connect(url, Config::new()).await?;
        let [done, held] = ["done", "held"].map(request);
        let claim = store.claim(&done).await?.acquired().ok_or("a fresh key")?;
        let response = Response::new(200, "done");
        store.complete(&claim, &response, HOUR).await?;
        let claim = store.claim(&held).await?.acquired().ok_or("a fresh key")?;
        query::<()>(url, "CONFIG SET maxmemory 1").await?;
        is_undone(&store.claim(&request("fresh")).await.unwrap_err());
        is_undone(&store.complete(&claim, &response, HOUR).await.unwrap_err());
        is_undone(&store.renew(&claim, HOUR).await.unwrap_err());
        for outcome in store.claim_many(&[request("a"), request("b")]).await {
            is_undone(&outcome.unwrap_err());
        }
        assert_eq!(store.claim(&request("done")).await?.name(), "completed");
        assert_eq!(store.claim(&request("held")).await?.name(), "in_flight");
        assert!(store.get(request("fresh").key()).await?.is_none());
        query::<()>(url, "CONFIG SET maxmemory 0").await?;
        store.complete(&claim, &response, HOUR).await?;
        let fresh = store.claim(&request("fresh")).await?;
        assert!(fresh.acquired().is_some());
        Ok(())
    })
}

/// The rights that the README names, and no more; `+wait` with replicas.
pub(crate) fn rights(runtime: &Runtime, server: &str) -> Outcome {
    let server = start_private(server, &Options::new())?;
    let url = server.url();
    runtime.block_on(async {
        let rights = "on >secret resetkeys ~shop:* resetchannels &shop:* -@all +@read +@write +@scripting +info \
                      +time +wait +@pubsub";
        query::<()>(url, &format!("ACL SETUSER app {rights}")).await?;
        let as_app = url.replace("redis://", "redis://app:secret@");
        let replicas = Replicas::new(0, Duration::from_millis(1));
        let shop = || Config::new().with_namespace("shop");
        for config in [shop()?, shop()?.with_replicas(replicas)] {
            let store = RedisStore::connect(&as_app, config).await?;
            everything(&store).await?;
            store.verify().await?;
        }
        let elsewhere = Config::new().with_namespace("orders")?;
        let store = RedisStore::connect(&as_app, elsewhere).await?;
        let error = store.claim(&request("one")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        assert_eq!(error.effect(), Effect::None, "{error}");
        assert!(error.to_string().contains("NOPERM"), "{error}");
        let wrong = url.replace("redis://", "redis://app:wrong@");
        let error = RedisStore::connect(&wrong, Config::new()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        assert!(!format!("{error:?}").contains("wrong@"), "{error:?}");
        query::<()>(url, "ACL SETUSER app resetchannels -@pubsub").await?;
        let store = RedisStore::connect(&as_app, shop()?).await?;
        everything(&store).await?;
        is_advised(&store, "Notifications::Off").await;
        let silent = shop()?.with_notifications(Notifications::Off);
        let store = RedisStore::connect(&as_app, silent).await?;
        store.verify().await?;
        for (denied, advice) in [("-@scripting", "+@scripting"), ("+@scripting -set", "+@write")] {
            query::<()>(url, &format!("ACL SETUSER app {denied}")).await?;
            is_advised(&store, advice).await;
        }
        query::<()>(url, "ACL SETUSER app +set").await?;
        store.verify().await?;
        Ok(())
    })
}

async fn is_advised(store: &RedisStore, advice: &str) {
    let error = store.verify().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert_eq!(error.effect(), Effect::None, "{error}");
    assert!(error.to_string().contains(advice), "{error}");
}

/// Goes through the life of a key, and a call of `fail_abandoned`.
async fn everything(store: &RedisStore) -> Outcome {
    let one = request("one").with_lease(Duration::from_millis(1));
    let claim = store.claim(&one).await?.acquired().ok_or("a fresh key")?;
    let claim = store.renew(&claim, HOUR).await?;
    let point = Checkpoint::new("half way", "there")?;
    store.checkpoint(&claim, &point).await?;
    assert_eq!(store.last_checkpoint(&claim).await?, Some(point));
    store.advance(claim.key(), 1, HOUR).await?;
    assert_eq!(store.watermark(claim.key()).await?, Some(1));
    store.release(&claim).await?;
    let claim = store.claim(&request("one")).await?;
    let claim = claim.acquired().ok_or("a fresh key")?;
    let (response, short) = (Response::new(200, "done"), Duration::from_millis(1));
    store.complete(&claim, &response, short).await?;
    while store.get(claim.key()).await?.is_some() {}
    let stale = request("stale").with_on_stale(StalePolicy::Fail);
    let stale = stale.with_lease(short).with_retention(HOUR);
    assert!(store.claim(&stale).await?.acquired().is_some());
    while store.fail_abandoned(10).await? == 0 {}
    let failed = store.claim(&request("stale")).await?;
    assert_eq!(failed.name(), "failed");
    let retried = request("stale").with_on_failed(idem_core::FailedPolicy::Retry);
    let claim = store.claim(&retried).await?.acquired().ok_or("a retry")?;
    Ok(store.release(&claim).await?)
}
