//! Watermarks, and how Lua and the server treat large numbers.

use std::time::Duration;

use idem_conformance::{Case, CaseResult, Context};
use idem_core::limits::MAX_VERSION;
use idem_core::{Advance, Effect, ErrorKind, Key, WatermarkStore};
use idem_redis::{RedisStore, redis};

use super::{HOUR, case};
use crate::support::{self, RedisHarness};

pub(super) const VERSIONS_ARE_COMPARED_TO_THE_LAST_DIGIT: Case =
    case(5, "versions_are_compared_to_the_last_digit", |cx| {
        Box::pin(versions_are_compared_to_the_last_digit(cx))
    });
pub(super) const A_MARK_ENDS_WITH_THE_RETENTION_OF_ITS_LAST_ADVANCE: Case = case(
    8,
    "a_mark_ends_with_the_retention_of_its_last_advance",
    |cx| Box::pin(a_mark_ends_with_the_retention_of_its_last_advance(cx)),
);
pub(super) const GARBAGE_UNDER_A_MARKS_KEY_IS_CORRUPT_AND_STAYS: Case =
    case(14, "garbage_under_a_marks_key_is_corrupt_and_stays", |cx| {
        Box::pin(garbage_under_a_marks_key_is_corrupt_and_stays(cx))
    });

/// Returns the key of this source's mark in Redis.
fn mark_key(store: &RedisStore, source: &Key) -> String {
    format!("{}:m:{}", store.config().namespace(), source.path())
}

async fn end(harness: &RedisHarness, name: &str) -> CaseResult<i64> {
    Ok(harness.query(redis::cmd("PEXPIRETIME").arg(name)).await?)
}

/// Neighbours that are one number as doubles, that differ in length, and that differ in either half
/// of their digits.
async fn versions_are_compared_to_the_last_digit(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    let pairs = [
        (0, 1),
        (9, 10),
        (999_999_999, 1_000_000_000),
        (1 << 53, (1 << 53) + 1),
        (1_234_567_890_999_999_999, 1_234_567_891_000_000_000),
        (MAX_VERSION - 1, MAX_VERSION),
        (1, MAX_VERSION),
    ];
    for (number, (lower, higher)) in pairs.into_iter().enumerate() {
        let source = cx.key(format!("{number}"));
        let advance = async |version| store.advance(&source, version, HOUR).await;
        assert_eq!(advance(lower).await?, Advance::Advanced, "{lower}");
        assert_eq!(advance(lower).await?, Advance::Unchanged, "{lower}");
        assert_eq!(advance(higher).await?, Advance::Advanced, "{higher}");
        let stale = Advance::Stale { current: higher };
        assert_eq!(advance(lower).await?, stale, "{lower}");
        assert_eq!(advance(higher).await?, Advance::Unchanged, "{higher}");
        assert_eq!(store.watermark(&source).await?, Some(higher));
    }
    let above = store.advance(&cx.key("above"), MAX_VERSION + 1, HOUR).await;
    assert_eq!(above.unwrap_err().kind(), ErrorKind::InvalidInput);
    Ok(())
}

async fn a_mark_ends_with_the_retention_of_its_last_advance(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let store = harness.store(cx.namespace()).await?;
    let source = cx.key("one");
    let name = mark_key(&store, &source);
    store.advance(&source, 5, HOUR).await?;
    let ends_at = end(&harness, &name).await?;
    let left: i64 = harness.query(redis::cmd("PTTL").arg(&name)).await?;
    let hour = HOUR.as_millis() as i64;
    assert!(left <= hour && left > hour / 2, "{left} of {hour}");
    for version in [5, 4, 0] {
        store.advance(&source, version, 9 * HOUR).await?;
        assert_eq!(end(&harness, &name).await?, ends_at, "after {version}");
    }
    store.advance(&source, 6, Duration::from_nanos(1)).await?;
    while store.watermark(&source).await?.is_some() {
        assert!(end(&harness, &name).await? < ends_at, "it is kept");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(store.advance(&source, 1, HOUR).await?, Advance::Advanced);
    assert_eq!(store.delete_expired_watermarks(10).await?, 0);
    assert_eq!(store.watermark(&source).await?, Some(1));
    Ok(())
}

async fn garbage_under_a_marks_key_is_corrupt_and_stays(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let store = harness.store(cx.namespace()).await?;
    let source = cx.key("one");
    let name = mark_key(&store, &source);
    for garbage in [
        "",
        "7",
        "000000000000000000x",
        "-000000000000000001",
        "00000000000000000001",
    ] {
        let mut set = redis::cmd("SET");
        set.arg(&name).arg(garbage).arg("EX").arg(600);
        harness.query::<()>(&set).await?;
        for error in [
            store.advance(&source, 9, HOUR).await.unwrap_err(),
            store.watermark(&source).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{garbage}: {error}");
        }
        let kept: String = harness.query(redis::cmd("GET").arg(&name)).await?;
        assert_eq!(kept, garbage);
    }
    harness.query::<()>(redis::cmd("DEL").arg(&name)).await?;
    let mut push = redis::cmd("RPUSH");
    harness.query::<()>(push.arg(&name).arg("a list")).await?;
    let error = store.advance(&source, 9, HOUR).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert_eq!(error.effect(), Effect::None, "{error}");
    Ok(())
}
