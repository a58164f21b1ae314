//! Tokens grow, whatever becomes of the record that had the last one.

use std::time::Duration;

use idem_conformance::{Case, CaseResult, Context};
use idem_core::{Effect, ErrorKind, IdempotencyStore, Response};
use idem_redis::redis;

use super::{HOUR, case, record_key};
use crate::support::{self, RedisHarness};

pub(super) const A_TOKEN_GROWS_THOUGH_THE_RECORD_WAS_DELETED: Case =
    case(5, "a_token_grows_though_the_record_was_deleted", |cx| {
        Box::pin(a_token_grows_though_the_record_was_deleted(cx))
    });
pub(super) const A_CLOCK_THAT_WAS_SET_BACK_TAKES_NO_TOKEN_BACK: Case =
    case(5, "a_clock_that_was_set_back_takes_no_token_back", |cx| {
        Box::pin(a_clock_that_was_set_back_takes_no_token_back(cx))
    });
pub(super) const AN_EXPIRED_RECORD_IS_REMEMBERED_FOR_THE_GRACE: Case =
    case(5, "an_expired_record_is_remembered_for_the_grace", |cx| {
        Box::pin(an_expired_record_is_remembered_for_the_grace(cx))
    });

pub(super) const A_TOKEN_THAT_CANNOT_GROW_IS_TOLD: Case =
    case(5, "a_token_that_cannot_grow_is_told", |cx| {
        Box::pin(a_token_that_cannot_grow_is_told(cx))
    });

/// The positions of the token and of the expiry in a record.
const TOKEN: std::ops::Range<usize> = 7..15;
const EXPIRY: std::ops::Range<usize> = 23..31;

async fn a_token_grows_though_the_record_was_deleted(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let store = harness.store(cx.namespace()).await?;
    let key = cx.key("one");
    let mut last = None;
    for _ in 0..20 {
        let claim = cx.claim(&cx.request(&key)).await?;
        assert!(last < Some(claim.token()));
        assert_eq!(claim.attempts(), 1, "nothing is left of the last one");
        last = Some(claim.token());
        let mut delete = redis::cmd("DEL");
        let deleted: u32 = harness.query(delete.arg(record_key(&store, &key))).await?;
        assert_eq!(deleted, 1);
        let error = store.release(&claim).await.unwrap_err();
        assert!(error.is_claim_lost(), "{error}");
    }
    Ok(())
}

/// Writes a number over one of a record's, as a clock that was ahead would have.
async fn overwrite(
    harness: &RedisHarness,
    name: &str,
    place: std::ops::Range<usize>,
    change: impl Fn(i64) -> i64,
) -> CaseResult<i64> {
    let mut record: Vec<u8> = harness.query(redis::cmd("GET").arg(name)).await?;
    let number = change(i64::from_be_bytes(record[place.clone()].try_into()?));
    record[place].copy_from_slice(&number.to_be_bytes());
    let mut set = redis::cmd("SET");
    set.arg(name).arg(record).arg("KEEPTTL");
    harness.query::<()>(&set).await?;
    Ok(number)
}

async fn a_token_that_cannot_grow_is_told(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let store = harness.store(cx.namespace()).await?;
    for spent in [1 << 53, i64::MAX] {
        let key = cx.key(format!("{spent}"));
        let name = record_key(&store, &key);
        cx.hold(&cx.request(&key).with_lease(cx.short())).await?;
        overwrite(&harness, &name, TOKEN, |_| spent).await?;
        cx.until_stale(&key).await?;
        let before: Vec<u8> = harness.query(redis::cmd("GET").arg(&name)).await?;
        for _ in 0..2 {
            let error = store.claim(&cx.request(&key)).await.unwrap_err();
            let (kind, effect) = (error.kind(), error.effect());
            assert_eq!(
                (kind, effect),
                (ErrorKind::Corrupt, Effect::None),
                "{error}"
            );
            assert!(error.to_string().contains("deleted"), "{error}");
        }
        let after: Vec<u8> = harness.query(redis::cmd("GET").arg(&name)).await?;
        assert_eq!(before, after, "the record");
    }
    Ok(())
}

/// A token from the future is what a clock that was ahead leaves behind. It is remembered until
/// that future is over.
async fn a_clock_that_was_set_back_takes_no_token_back(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let store = harness.store(cx.namespace()).await?;
    let key = cx.key("ahead");
    let name = record_key(&store, &key);
    cx.hold(&cx.request(&key).with_lease(cx.short())).await?;
    let day = 24 * 3_600_000_000;
    let ahead = overwrite(&harness, &name, TOKEN, |token| token + day).await?;
    cx.until_stale(&key).await?;
    let taken = cx.claim(&cx.request(&key)).await?;
    assert_eq!(taken.token().as_i64(), ahead + 1);
    store.release(&taken).await?;
    let left: u64 = harness.query(redis::cmd("PTTL").arg(&name)).await?;
    let left = Duration::from_millis(left);
    assert!(left > 23 * HOUR && left < 25 * HOUR, "{left:?}");
    let next = cx.claim(&cx.request(&key)).await?;
    assert_eq!(next.token().as_i64(), ahead + 2);
    let response = Response::new(200, "done");
    store.complete(&next, &response, cx.short()).await?;
    cx.until_free(&key).await?;
    let after_expiry = cx.claim(&cx.request(&key)).await?;
    assert_eq!(after_expiry.token().as_i64(), ahead + 3);
    assert_eq!(after_expiry.attempts(), 1, "a fresh key");
    Ok(())
}

async fn an_expired_record_is_remembered_for_the_grace(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let store = harness.store(cx.namespace()).await?;
    let key = cx.key("expired");
    let name = record_key(&store, &key);
    let claim = cx.claim(&cx.request(&key)).await?;
    let response = Response::new(200, "done");
    store.complete(&claim, &response, cx.short()).await?;
    cx.until_free(&key).await?;
    let there: u32 = harness.query(redis::cmd("EXISTS").arg(&name)).await?;
    assert_eq!(there, 1, "its token is known");
    // The same when the server's clock has passed it by an hour.
    overwrite(&harness, &name, EXPIRY, |end| end - 3_600_000_000).await?;
    assert_eq!(store.get(&key).await?, None);
    for error in [
        store.complete(&claim, &response, HOUR).await.unwrap_err(),
        store.release(&claim).await.unwrap_err(),
        store.renew(&claim, HOUR).await.unwrap_err(),
    ] {
        assert!(error.is_claim_lost(), "{error}");
    }
    let next = cx.claim(&cx.request(&key)).await?;
    assert!(next.token() > claim.token());
    assert!(!next.is_takeover(), "a fresh key");
    Ok(())
}
