//! Every key has an end: that of its record, and the grace in which its token is remembered.

use std::time::{Duration, Instant};

use idem_conformance::{Case, CaseResult, Context};
use idem_core::{
    AttemptId, BatchStore, FailedPolicy, Failure, Finish, IdempotencyStore, Key, Response,
    StalePolicy,
};
use idem_redis::{Config, RedisStore, redis};

use super::{HOUR, case};
use crate::support::{self, RedisHarness};

const GRACE: Duration = Duration::from_secs(7);

/// A key ends at a whole millisecond, and `PTTL` returns a millisecond that has begun or ended.
const ROUNDED: Duration = Duration::from_millis(2);

pub(super) const EVERY_OPERATION_LEAVES_ITS_KEY_WITH_AN_END: Case =
    case(8, "every_operation_leaves_its_key_with_an_end", |cx| {
        Box::pin(every_operation_leaves_its_key_with_an_end(cx))
    });
pub(super) const ABANDONED_RECORDS_KEEP_THEIR_END: Case =
    case(8, "abandoned_records_keep_their_end", |cx| {
        Box::pin(abandoned_records_keep_their_end(cx))
    });
pub(super) const A_RELEASED_KEY_IS_FORGOTTEN_AFTER_THE_GRACE: Case =
    case(8, "a_released_key_is_forgotten_after_the_grace", |cx| {
        Box::pin(a_released_key_is_forgotten_after_the_grace(cx))
    });
pub(super) const A_CACHE_LEAVES_NO_KEY_WITHOUT_AN_END: Case =
    case(8, "a_cache_leaves_no_key_without_an_end", |cx| {
        Box::pin(a_cache_leaves_no_key_without_an_end(cx))
    });

struct Watched {
    harness: RedisHarness,
    store: RedisStore,
}

impl Watched {
    async fn new(cx: &Context) -> CaseResult<Self> {
        let harness = support::harness(cx)?;
        let config = Config::new().with_namespace(cx.namespace())?;
        let store = harness.store_with(config.with_grace(GRACE)).await?;
        Ok(Self { harness, store })
    }

    /// Returns how long the server keeps this key.
    async fn left(&self, name: &[u8]) -> CaseResult<Duration> {
        let millis: i64 = self.harness.query(redis::cmd("PTTL").arg(name)).await?;
        let key = String::from_utf8_lossy(name);
        Ok(Duration::from_millis(u64::try_from(millis).map_err(
            |_| format!("{key} is there for ever ({millis})"),
        )?))
    }

    /// The key lives until the grace after its record's end, no shorter and no longer.
    async fn ends_with_its_record(&self, key: &Key, after: &str) -> CaseResult {
        let name = super::record_key(&self.store, key);
        let before = self.left(name.as_bytes()).await?;
        let record = self.store.get(key).await?.expect("a live record");
        let later = self.left(name.as_bytes()).await?;
        let end = record.info().remaining() + GRACE;
        assert!(
            before + ROUNDED >= end,
            "{before:?} < {end:?} after {after}"
        );
        assert!(later <= end + ROUNDED, "{later:?} > {end:?} after {after}");
        Ok(())
    }
}

async fn every_operation_leaves_its_key_with_an_end(cx: &Context) -> CaseResult {
    let watched = Watched::new(cx).await?;
    let store = &watched.store;
    let request = cx.request(&cx.key("one"));
    let claim = store.claim(&request).await?.acquired().expect("fresh");
    let key = request.key();
    watched.ends_with_its_record(key, "claim").await?;
    let _same = store.claim(&request).await?;
    watched.ends_with_its_record(key, "the same claim").await?;
    let _loser = store.claim(&cx.request(key)).await?;
    watched.ends_with_its_record(key, "a duplicate").await?;
    let claim = store.renew(&claim, 3 * HOUR).await?;
    watched.ends_with_its_record(key, "renew").await?;
    let response = Response::new(200, "done");
    store.complete(&claim, &response, 2 * HOUR).await?;
    watched.ends_with_its_record(key, "complete").await?;
    store.complete(&claim, &response, 9 * HOUR).await?;
    watched.ends_with_its_record(key, "complete again").await?;
    let retried = cx.request(&cx.key("two"));
    let claim = store.claim(&retried).await?.acquired().expect("fresh");
    let failure = Failure::new("declined", "no");
    store.fail(&claim, &failure, HOUR / 2).await?;
    watched.ends_with_its_record(retried.key(), "fail").await?;
    let retried = retried.with_on_failed(FailedPolicy::Retry);
    let retried = retried.with_attempt(AttemptId::random());
    assert!(store.claim(&retried).await?.acquired().is_some());
    watched.ends_with_its_record(retried.key(), "retry").await?;
    let batch = [cx.request(&cx.key("three")), cx.request(&cx.key("four"))];
    for outcome in store.claim_many(&batch).await {
        let claim = outcome?.acquired().expect("fresh");
        let key = claim.key().clone();
        watched.ends_with_its_record(&key, "a batch").await?;
        let response = response.clone();
        let completion = Finish::Complete {
            claim,
            response,
            retention: HOUR,
        };
        for done in store.finish_many(&[completion]).await {
            done?;
        }
        watched.ends_with_its_record(&key, "a batch").await?;
    }
    Ok(())
}

async fn abandoned_records_keep_their_end(cx: &Context) -> CaseResult {
    let watched = Watched::new(cx).await?;
    let [taken, failed, swept] = ["taken over", "failed", "swept"].map(|id| cx.key(id));
    for key in [&taken, &failed, &swept] {
        let policy = if *key == taken {
            StalePolicy::TakeOver
        } else {
            StalePolicy::Fail
        };
        cx.leave_stale(&cx.request(key).with_on_stale(policy))
            .await?;
    }
    let claim = watched.store.claim(&cx.request(&taken)).await?;
    assert!(claim.acquired().is_some_and(|claim| claim.is_takeover()));
    watched.ends_with_its_record(&taken, "takeover").await?;
    let claim = watched.store.claim(&cx.request(&failed)).await?;
    assert_eq!(claim.name(), "failed");
    watched
        .ends_with_its_record(&failed, "a late claim")
        .await?;
    assert_eq!(watched.store.fail_abandoned(10).await?, 1);
    watched.ends_with_its_record(&swept, "sweep").await
}

async fn a_released_key_is_forgotten_after_the_grace(cx: &Context) -> CaseResult {
    let watched = Watched::new(cx).await?;
    let key = cx.key("one");
    let name = super::record_key(&watched.store, &key);
    for _ in 0..2 {
        let claim = watched.store.claim(&cx.request(&key)).await?;
        let claim = claim.acquired().expect("free");
        let releasing = Instant::now();
        watched.store.release(&claim).await?;
        let left = watched.left(name.as_bytes()).await?;
        assert!(left <= GRACE + ROUNDED, "{left:?} after release");
        let waited = releasing.elapsed();
        assert!(left + waited + ROUNDED >= GRACE, "{left:?} after release");
        watched.store.release(&claim).await?;
        assert!(watched.left(name.as_bytes()).await? <= GRACE + ROUNDED);
    }
    Ok(())
}

async fn a_cache_leaves_no_key_without_an_end(cx: &Context) -> CaseResult {
    let watched = Watched::new(cx).await?;
    let cache = watched.harness.cache(cx.namespace())?;
    let (key, lifetime, day) = (cx.key("one"), HOUR, 24 * HOUR);
    let read = cache.read(&key).await?;
    let stored = cache.store(&key, &read.ticket, b"entry", lifetime).await?;
    assert!(stored);
    let keys = watched.harness.keys(cx.namespace()).await?;
    assert_eq!(keys.len(), 2, "an epoch and an entry");
    for name in &keys {
        let left = watched.left(name).await?;
        let is_entry = name.windows(3).any(|part| part == b":c:");
        let most = if is_entry { lifetime } else { day };
        assert!(left <= most && left > most / 2, "{left:?} of {most:?}");
    }
    cache.invalidate(&key).await?;
    let keys = watched.harness.keys(cx.namespace()).await?;
    assert_eq!(keys.len(), 1, "an epoch");
    assert!(watched.left(&keys[0]).await? <= day);
    Ok(())
}
