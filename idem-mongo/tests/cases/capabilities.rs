//! Checkpoints and watermarks as the documents store them.

use std::time::Duration;

use idem_conformance::{Case, CaseResult, Context};
use idem_core::limits::MAX_VERSION;
use idem_core::{
    Advance, Checkpoint, CheckpointStore, ErrorKind, FailedPolicy, Failure, IdempotencyStore,
    Response, StalePolicy, WatermarkStore,
};
use idem_mongo::mongodb::Collection;
use idem_mongo::mongodb::bson::{Document, doc};
use idem_mongo::{MongoStore, Transactions};

use super::case;
use crate::support::{self, Watch, documents};

pub(super) const A_CHECKPOINT_CHANGES_NOTHING_ELSE_OF_ITS_RECORD: Case =
    case(8, "a_checkpoint_changes_nothing_else_of_its_record", |cx| {
        Box::pin(a_checkpoint_changes_nothing_else_of_its_record(cx))
    });
pub(super) const A_CHECKPOINT_GOES_WITH_THE_CLAIM: Case =
    case(8, "a_checkpoint_goes_with_the_claim", |cx| {
        Box::pin(a_checkpoint_goes_with_the_claim(cx))
    });
pub(super) const A_CHECKPOINT_LEFT_BY_AN_EARLIER_VERSION_IS_NOT_TAKEN_FOR_ANOTHERS: Case = case(
    8,
    "a_checkpoint_left_by_an_earlier_version_is_not_taken_for_anothers",
    |cx| Box::pin(a_checkpoint_left_by_an_earlier_version_is_not_taken_for_anothers(cx)),
);
pub(super) const VERSIONS_ARE_COMPARED_TO_THE_LAST_DIGIT: Case =
    case(5, "versions_are_compared_to_the_last_digit", |cx| {
        Box::pin(versions_are_compared_to_the_last_digit(cx))
    });
pub(super) const WHAT_DOES_NOT_ADVANCE_LEAVES_NOTHING_IN_THE_LOG: Case = case(
    15,
    "what_does_not_advance_leaves_nothing_in_the_log",
    |cx| Box::pin(what_does_not_advance_leaves_nothing_in_the_log(cx)),
);
pub(super) const A_STORE_MIGRATED_BEFORE_WATERMARKS_KEEPS_WORKING: Case = case(
    12,
    "a_store_migrated_before_watermarks_keeps_working",
    |cx| Box::pin(a_store_migrated_before_watermarks_keeps_working(cx)),
);
pub(super) const CHECKPOINT_AND_MARK_COMMIT_WITH_THE_TRANSACTION: Case = case(
    12,
    "checkpoint_and_mark_commit_with_the_transaction",
    |cx| Box::pin(checkpoint_and_mark_commit_with_the_transaction(cx)),
);

const HOUR: Duration = Duration::from_secs(3600);

async fn marks(cx: &Context) -> CaseResult<Collection<Document>> {
    let database = support::harness()?.database(cx.namespace()).await?;
    Ok(database.collection("idem_records_watermarks"))
}

fn checkpoint() -> CaseResult<Checkpoint> {
    Ok(Checkpoint::new("charged", &b"\x00\xff"[..])?)
}

async fn a_checkpoint_changes_nothing_else_of_its_record(cx: &Context) -> CaseResult {
    let store = support::harness()?.store(cx.namespace()).await?;
    let request = cx.request(&cx.key("one")).with_on_stale(StalePolicy::Fail);
    let claim = store.claim(&request).await?.acquired().expect("fresh");
    let before = documents(cx).await?;
    store.checkpoint(&claim, &checkpoint()?).await?;
    let mut after = documents(cx).await?;
    let stored = after[0].remove("checkpoint").expect("a checkpoint");
    assert!(format!("{stored:?}").contains("Binary"), "{stored:?}");
    assert_eq!(after, before);
    Ok(())
}

/// However the claim ends, the document keeps nothing of its checkpoint.
async fn a_checkpoint_goes_with_the_claim(cx: &Context) -> CaseResult {
    let store = support::harness()?.store(cx.namespace()).await?;
    for how in ["complete", "fail", "release", "sweep", "claim"] {
        let request = cx.request(&cx.key(how)).with_on_stale(StalePolicy::Fail);
        let abandoned = matches!(how, "sweep" | "claim");
        let lease = if abandoned { cx.short() } else { HOUR };
        let claim = store.claim(&request.clone().with_lease(lease)).await?;
        let claim = claim.acquired().expect("fresh");
        store.checkpoint(&claim, &checkpoint()?).await?;
        match how {
            "complete" => {
                store
                    .complete(&claim, &Response::new(200, "x"), HOUR)
                    .await?;
            }
            "fail" => store.fail(&claim, &Failure::new("no", "no"), HOUR).await?,
            "release" => store.release(&claim).await?,
            _ => drop(cx.until_stale(claim.key()).await?),
        }
        match how {
            "sweep" => assert_eq!(store.fail_abandoned(10).await?, 1),
            "claim" => assert_eq!(
                store.claim(&cx.request(claim.key())).await?.name(),
                "failed"
            ),
            _ => {}
        }
    }
    let left = documents(cx).await?;
    assert_eq!(left.len(), 5);
    for document in left {
        assert!(!document.contains_key("checkpoint"), "{document}");
    }
    Ok(())
}

/// A version without checkpoints seals a record and leaves the field.
async fn a_checkpoint_left_by_an_earlier_version_is_not_taken_for_anothers(
    cx: &Context,
) -> CaseResult {
    let store = support::harness()?.store(cx.namespace()).await?;
    let request = cx.request(&cx.key("one"));
    let claim = store.claim(&request).await?.acquired().expect("fresh");
    store.fail(&claim, &Failure::new("no", "no"), HOUR).await?;
    let database = support::harness()?.database(cx.namespace()).await?;
    let records = database.collection::<Document>("idem_records");
    let stored = checkpoint()?.encode(&store.limits())?;
    let binary = idem_mongo::mongodb::bson::Binary {
        subtype: idem_mongo::mongodb::bson::spec::BinarySubtype::Generic,
        bytes: stored.to_vec(),
    };
    let leave = doc! { "$set": { "checkpoint": binary } };
    records
        .update_one(doc! { "_id": claim.key().path() }, leave)
        .await?;
    let retry = cx.request(claim.key()).with_on_failed(FailedPolicy::Retry);
    let claim = store.claim(&retry).await?.acquired().expect("tried again");
    assert_eq!(store.last_checkpoint(&claim).await?, None);
    Ok(())
}

async fn versions_are_compared_to_the_last_digit(cx: &Context) -> CaseResult {
    let store = support::harness()?.store(cx.namespace()).await?;
    for (lower, higher) in [
        (0, 1),
        (u64::from(u32::MAX), u64::from(u32::MAX) + 1),
        (1 << 53, (1 << 53) + 1),
        (MAX_VERSION - 1, MAX_VERSION),
    ] {
        let source = cx.key(format!("{lower}"));
        let advance = async |version| store.advance(&source, version, HOUR).await;
        assert_eq!(advance(lower).await?, Advance::Advanced, "{lower}");
        assert_eq!(advance(higher).await?, Advance::Advanced, "{higher}");
        assert_eq!(advance(higher).await?, Advance::Unchanged, "{higher}");
        let stale = Advance::Stale { current: higher };
        assert_eq!(advance(lower).await?, stale, "{lower}");
        assert_eq!(store.watermark(&source).await?, Some(higher));
    }
    Ok(())
}

async fn logged(cx: &Context) -> CaseResult<u64> {
    let local = support::harness()?.database("local").await?;
    let log = local.collection::<Document>("oplog.rs");
    let marks = format!("{}.idem_records_watermarks", cx.namespace());
    Ok(log.count_documents(doc! { "ns": marks }).await?)
}

/// Alone, and with the command of a caller that found no mark and lost the race.
async fn what_does_not_advance_leaves_nothing_in_the_log(cx: &Context) -> CaseResult {
    let (harness, watch) = (support::harness()?, Watch::default());
    let store = watch.store(&harness, harness.config(cx.namespace())?);
    let (store, source) = (store.await?, cx.key("one"));
    store.advance(&source, 7, HOUR).await?;
    let mut raising = watch.take(&["findAndModify"]).pop().expect("an upsert");
    let (before, end) = (marks(cx).await?.find_one(doc! {}).await?, logged(cx).await?);
    for _ in 0..50 {
        assert_eq!(
            store.advance(&source, 7, 2 * HOUR).await?,
            Advance::Unchanged
        );
        assert!(store.advance(&source, 6, 2 * HOUR).await?.is_stale());
    }
    let writes = watch.take(&["findAndModify", "update", "insert", "delete"]);
    assert!(writes.is_empty(), "{} writes were sent", writes.len());
    for field in ["lsid", "$db", "$clusterTime", "txnNumber"] {
        raising.remove(field);
    }
    let database = harness.database(cx.namespace()).await?;
    let answer = database.run_command(raising).await?;
    assert_eq!(answer.get_document("value")?.get_i64("version")?, 7);
    assert_eq!(marks(cx).await?.find_one(doc! {}).await?, before);
    assert_eq!(logged(cx).await?, end, "entries of the log");
    let mark = before.expect("a mark");
    let purge_at = mark.get_datetime("purge_at")?.timestamp_millis() * 1000;
    let expires_at = mark.get_i64("expires_at")?;
    assert!(purge_at >= expires_at + 60_000_000 - 1000, "too early");
    Ok(())
}

/// The older features still work; the watermark operations say what to do, and do not let the
/// server create a collection without indexes.
async fn a_store_migrated_before_watermarks_keeps_working(cx: &Context) -> CaseResult {
    marks(cx).await?.drop().await?;
    let store: MongoStore = support::harness()?.store(cx.namespace()).await?;
    let source = cx.key("one");
    let request = cx.request(&source);
    let claim = store.claim(&request).await?.acquired().expect("fresh");
    store.checkpoint(&claim, &checkpoint()?).await?;
    for error in [
        store.verify().await.unwrap_err(),
        store.advance(&source, 1, HOUR).await.unwrap_err(),
        store.watermark(&source).await.unwrap_err(),
        store.delete_expired_watermarks(1).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        assert!(error.to_string().contains("migrate()"), "{error}");
    }
    let database = support::harness()?.database(cx.namespace()).await?;
    let names = database.list_collection_names().await?;
    assert!(!names.contains(&"idem_records_watermarks".to_owned()));
    store.migrate().await?;
    store.verify().await?;
    assert_eq!(store.advance(&source, 1, HOUR).await?, Advance::Advanced);
    let expires = marks(cx).await?.list_index_names().await?;
    assert!(expires.contains(&"idem_purge_at".to_owned()), "{expires:?}");
    Ok(())
}

async fn checkpoint_and_mark_commit_with_the_transaction(cx: &Context) -> CaseResult {
    let store = support::harness()?.store(cx.namespace()).await?;
    let request = cx.request(&cx.key("one"));
    let claim = store.claim(&request).await?.acquired().expect("fresh");
    let transactions = Transactions::new(&store);
    for commits in [false, true] {
        let mut attempts = transactions.attempts();
        let mut session = attempts.begin().await?;
        store
            .checkpoint_in(&mut session, &claim, &checkpoint()?)
            .await?;
        let advanced = store.advance_in(&mut session, claim.key(), 7, HOUR).await?;
        assert_eq!(advanced, Advance::Advanced);
        let again = store.advance_in(&mut session, claim.key(), 7, HOUR).await?;
        assert_eq!(again, Advance::Unchanged);
        let result = if commits { Ok(()) } else { Err("declined") };
        let finished = attempts.finish(session, result).await;
        assert_eq!(finished.expect("not to be repeated").is_ok(), commits);
        let expected = commits.then(checkpoint).transpose()?;
        assert_eq!(store.last_checkpoint(&claim).await?, expected);
        let mark = store.watermark(claim.key()).await?;
        assert_eq!(mark, commits.then_some(7));
    }
    Ok(())
}
