//! A server that does not answer, and one with many records.

use std::time::{Duration, Instant};

use idem_core::{
    AttemptId, BatchStore, ClaimRequest, Effect, Error, ErrorKind, IdempotencyStore, StalePolicy,
};
use idem_redis::{Config, RedisCache, RedisStore, Replicas};
use idem_servers::{Options, start_private};
use tokio::runtime::Runtime;

use crate::own::{HOUR, Outcome, query, request};

const SOON: Duration = Duration::from_millis(400);

fn is_late(error: &Error, effect: Effect) {
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(error.effect(), effect, "{error}");
}

pub(crate) fn frozen(runtime: &Runtime, server: &str) -> Outcome {
    let mut server = start_private(server, &Options::new())?;
    let url = server.url().to_owned();
    let config = Config::new().with_timeout(SOON);
    let store = runtime.block_on(RedisStore::connect(&url, config.clone()))?;
    let (held, fresh) = (request("held"), request("fresh"));
    let claim = runtime.block_on(store.claim(&held))?;
    let claim = claim.acquired().ok_or("a fresh key")?;
    server.freeze()?;
    runtime.block_on(async {
        let started = Instant::now();
        is_late(&store.claim(&fresh).await.unwrap_err(), Effect::Unknown);
        // By now the connection was given up; a new one is not made either.
        is_late(&store.release(&claim).await.unwrap_err(), Effect::None);
        is_late(&store.get(held.key()).await.unwrap_err(), Effect::None);
        is_late(&store.fail_abandoned(1).await.unwrap_err(), Effect::None);
        for outcome in store.claim_many(&[request("a"), request("b")]).await {
            is_late(&outcome.unwrap_err(), Effect::None);
        }
        let connected = RedisStore::connect(&url, config.clone()).await;
        is_late(&connected.unwrap_err(), Effect::None);
        let cache = RedisCache::new(&url, "orders", &config)?;
        is_late(&cache.read(held.key()).await.unwrap_err(), Effect::None);
        assert!(started.elapsed() < 20 * SOON, "{:?}", started.elapsed());
        Ok::<_, idem_core::BoxError>(())
    })?;
    server.thaw()?;
    runtime.block_on(async {
        assert_eq!(store.claim(&fresh).await?.name(), "acquired", "its own");
        store.release(&claim).await?;
        assert_eq!(store.claim(&request("held")).await?.name(), "acquired");
        Ok(())
    })
}

/// The server gets claims in three ways while it is frozen, and their callers stop waiting. The
/// holders of the leases that end meanwhile live, and cannot renew.
pub(crate) fn given_up(runtime: &Runtime, server: &str) -> Outcome {
    const LEASE: Duration = Duration::from_millis(300);
    const EACH: usize = 50;
    let mut server = start_private(server, &Options::new())?;
    let patient = Config::new();
    let holder = runtime.block_on(RedisStore::connect(server.url(), patient))?;
    let hasty = Config::new().with_timeout(SOON);
    // Without a first step for all of them together.
    let each = hasty.clone().with_replicas(Replicas::new(0, SOON));
    // One each, because a store gives its connection up after the first missing answer.
    let connect =
        |config: &Config| runtime.block_on(RedisStore::connect(server.url(), config.clone()));
    let (batch, single, together) = (connect(&each)?, connect(&each)?, connect(&hasty)?);
    let requests: Vec<_> = (0..2 * EACH)
        .map(|number| request(format!("{number}")).with_lease(LEASE))
        .collect();
    let claims = runtime.block_on(holder.claim_many(&requests));
    let claims = claims
        .into_iter()
        .map(|claim| Ok(claim?.acquired().ok_or("a fresh key")?));
    let claims: Vec<_> = claims.collect::<Outcome<_>>()?;
    // The server knows the script that decides a claim of a taken key.
    let returned = runtime.block_on(holder.claim(&request("0")))?;
    assert_eq!(returned.name(), "in_flight");
    server.freeze()?;
    runtime.block_on(async {
        let rival = |request: &ClaimRequest| request.clone().with_attempt(AttemptId::random());
        let rivals: Vec<_> = requests.iter().map(rival).collect();
        let (first, second) = rivals.split_at(EACH);
        let mut callers = tokio::task::JoinSet::new();
        for rival in second {
            let (single, rival) = (single.clone(), rival.clone());
            callers.spawn(async move { single.claim(&rival).await });
        }
        let fresh = ["fresh", "free"].map(request);
        for returned in together.claim_many(&fresh).await {
            is_late(&returned.unwrap_err(), Effect::Unknown);
        }
        for returned in batch.claim_many(first).await {
            is_late(&returned.unwrap_err(), Effect::Unknown);
        }
        for returned in callers.join_all().await {
            is_late(&returned.unwrap_err(), Effect::Unknown);
        }
        tokio::time::sleep(LEASE).await;
        Ok::<_, idem_core::BoxError>(())
    })?;
    server.thaw()?;
    runtime.block_on(async {
        // It has run the commands it got by then.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let mut lost = 0;
        for claim in &claims {
            lost += usize::from(holder.renew(claim, HOUR).await.is_err());
        }
        assert_eq!(lost, 0, "of {} claims", claims.len());
        assert_eq!(
            holder.get(request("fresh").key()).await?,
            None,
            "no caller waits for it"
        );
        Ok(())
    })
}

/// 3,000 records of its own and 5,000 keys of others, of which 700 are abandoned.
pub(crate) fn sweeps(runtime: &Runtime, server: &str) -> Outcome {
    const ABANDONED: u32 = 700;
    let server = start_private(server, &Options::new())?;
    runtime.block_on(async {
        let filler = "for number=1,5000 do redis.call('SET','others:'..number,0) end";
        let filler = filler.replace(' ', "\n");
        query::<()>(server.url(), &format!("EVAL {filler} 0")).await?;
        let store = RedisStore::connect(server.url(), Config::new()).await?;
        let mut requests: Vec<_> = (0..3000)
            .map(|number| request(format!("{number}")))
            .collect();
        for stale in &mut requests[..ABANDONED as usize] {
            *stale = stale.clone().with_lease(Duration::from_millis(1));
            *stale = stale.clone().with_on_stale(StalePolicy::Fail);
        }
        for outcome in store.claim_many(&requests).await {
            assert!(outcome?.acquired().is_some());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert_eq!(store.fail_abandoned(1).await?, 1);
        assert_eq!(store.fail_abandoned(300).await?, 300);
        assert_eq!(
            store.fail_abandoned(10_000).await?,
            u64::from(ABANDONED) - 301
        );
        assert_eq!(store.fail_abandoned(10_000).await?, 0);
        for (number, request) in requests.iter().enumerate() {
            let outcome = store
                .claim(&crate::own::request(request.key().id()))
                .await?;
            let expected = if number < ABANDONED as usize {
                "failed"
            } else {
                "in_flight"
            };
            assert_eq!(outcome.name(), expected, "{number}");
        }
        Ok(())
    })
}
