//! The checkpoint in the record's value.

use idem_conformance::{Case, CaseResult, Context};
use idem_core::{
    Checkpoint, CheckpointStore, Claim, ErrorKind, FailedPolicy, Failure, IdempotencyStore,
    Metadata, Record, Response,
};
use idem_redis::{Config, RedisStore, redis};

use super::{HOUR, case, on_the_wire, record_key};
use crate::support::{self, RedisHarness, Tap};

pub(super) const A_CHECKPOINT_CHANGES_NOTHING_ELSE_OF_ITS_RECORD: Case =
    case(8, "a_checkpoint_changes_nothing_else_of_its_record", |cx| {
        Box::pin(a_checkpoint_changes_nothing_else_of_its_record(cx))
    });
pub(super) const A_CHECKPOINT_FOLLOWS_THE_METADATA_OF_WHOEVER_HOLDS_IT: Case = case(
    6,
    "a_checkpoint_follows_the_metadata_of_whoever_holds_it",
    |cx| Box::pin(a_checkpoint_follows_the_metadata_of_whoever_holds_it(cx)),
);
pub(super) const A_CHECKPOINT_IS_SENT_TO_NOBODY_ELSE: Case =
    on_the_wire(10, "a_checkpoint_is_sent_to_nobody_else", |cx| {
        Box::pin(a_checkpoint_is_sent_to_nobody_else(cx))
    });
pub(super) const GARBAGE_WHERE_A_CHECKPOINT_IS_IS_CORRUPT: Case =
    case(14, "garbage_where_a_checkpoint_is_is_corrupt", |cx| {
        Box::pin(garbage_where_a_checkpoint_is_is_corrupt(cx))
    });

const HEADER_BYTES: usize = 100;

async fn value(harness: &RedisHarness, name: &str) -> CaseResult<Vec<u8>> {
    Ok(harness.query(redis::cmd("GET").arg(name)).await?)
}

/// Returns when the server deletes the key, to the millisecond.
async fn end(harness: &RedisHarness, name: &str) -> CaseResult<i64> {
    Ok(harness.query(redis::cmd("PEXPIRETIME").arg(name)).await?)
}

async fn a_checkpoint_changes_nothing_else_of_its_record(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let store = harness.store(cx.namespace()).await?;
    let request = cx.request(&cx.key("one"));
    let request = request.with_metadata(Metadata::from_iter([("host", "a")]));
    let claim = store.claim(&request).await?.acquired().expect("fresh");
    let name = record_key(&store, request.key());
    let (record, ends_at) = (value(&harness, &name).await?, end(&harness, &name).await?);
    assert!(ends_at > 0, "the key has no end");
    for data in [&b"a long one \x00\xff"[..], b"", b"short"] {
        let point = Checkpoint::new("charged", data)?;
        store.checkpoint(&claim, &point).await?;
        let stored = point.encode(&store.limits())?;
        let expected = [&record[..], &stored[..]].concat();
        assert_eq!(value(&harness, &name).await?, expected);
        assert_eq!(end(&harness, &name).await?, ends_at);
        assert_eq!(store.last_checkpoint(&claim).await?, Some(point));
    }
    store.release(&claim).await?;
    let released = value(&harness, &name).await?;
    assert_eq!(
        released.len(),
        HEADER_BYTES,
        "nothing but the token is kept"
    );
    Ok(())
}

async fn last(store: &RedisStore, claim: &Claim) -> CaseResult<Option<Checkpoint>> {
    Ok(store.last_checkpoint(claim).await?)
}

async fn a_checkpoint_follows_the_metadata_of_whoever_holds_it(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    let first = cx.request(&cx.key("one")).with_lease(cx.short());
    let claim = store.claim(&first).await?.acquired().expect("fresh");
    let point = Checkpoint::new("charged", &b"receipt 1"[..])?;
    store.checkpoint(&claim, &point).await?;
    cx.until_stale(first.key()).await?;
    let longer = Metadata::from_iter([("host", "a longer one than before"), ("zone", "b")]);
    let next = cx.request(first.key()).with_metadata(longer.clone());
    let mut claim = store.claim(&next).await?.acquired().expect("stale");
    assert_eq!(last(&store, &claim).await?.as_ref(), Some(&point));
    claim = store.renew(&claim, 2 * HOUR).await?;
    assert_eq!(last(&store, &claim).await?.as_ref(), Some(&point));
    let shorter = next.with_metadata(Metadata::new());
    let same = store.claim(&shorter).await?.acquired().expect("its own");
    assert_eq!(last(&store, &same).await?.as_ref(), Some(&point));
    let failure = Failure::new("declined", "no");
    store.fail(&same, &failure, HOUR).await?;
    let Some(Record::Failed(record)) = store.get(first.key()).await? else {
        return Err("not failed".into());
    };
    assert_eq!(record.failure, failure);
    let again = cx.request(first.key()).with_on_failed(FailedPolicy::Retry);
    let again = store.claim(&again).await?.acquired().expect("tried again");
    assert_eq!(last(&store, &again).await?, None);
    let response = Response::new(200, "done");
    store.complete(&again, &response, HOUR).await?;
    let error = store.last_checkpoint(&again).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ClaimLost, "{error}");
    Ok(())
}

/// A waiting run reads the record again and again: the server does not send it the work's notes
/// each time.
async fn a_checkpoint_is_sent_to_nobody_else(cx: &Context) -> CaseResult {
    let server = support::harness(cx)?.server_address().expect("an address");
    let tap = Tap::start(server).await?;
    let config = Config::new().with_namespace(cx.namespace())?;
    let other = RedisStore::connect(&format!("redis://{}", tap.address()), config).await?;
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    let request = cx.request(&cx.key("one"));
    let claim = store.claim(&request).await?.acquired().expect("fresh");
    let point = Checkpoint::new("charged", &b"the work's own notes"[..])?;
    store.checkpoint(&claim, &point).await?;
    let different = cx.other_request(request.key());
    assert_eq!(
        other.claim(&cx.request(request.key())).await?.name(),
        "in_flight"
    );
    assert_eq!(other.claim(&different).await?.name(), "conflict");
    let record = other.get(request.key()).await?;
    assert!(matches!(record, Some(Record::InFlight(_))), "{record:?}");
    let returned = tap.returned();
    assert!(!returned.contains("notes"), "{returned}");
    assert_eq!(other.last_checkpoint(&claim).await?, Some(point));
    assert!(tap.returned().contains("notes"), "the tap records nothing");
    Ok(())
}

async fn garbage_where_a_checkpoint_is_is_corrupt(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let store = harness.store(cx.namespace()).await?;
    let request = cx.request(&cx.key("one"));
    let claim = store.claim(&request).await?.acquired().expect("fresh");
    let name = record_key(&store, request.key());
    let mut append = redis::cmd("APPEND");
    harness
        .query::<()>(append.arg(&name).arg("\x10\x7fno"))
        .await?;
    let error = store.last_checkpoint(&claim).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    // The record is as good as it was, and the next checkpoint replaces the bad one.
    assert_eq!(
        store.claim(&cx.request(request.key())).await?.name(),
        "in_flight"
    );
    let point = Checkpoint::new("charged", &b""[..])?;
    store.checkpoint(&claim, &point).await?;
    assert_eq!(store.last_checkpoint(&claim).await?, Some(point));
    Ok(())
}
