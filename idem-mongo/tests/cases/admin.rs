//! Lists, and records that are forced to go.

use std::time::Duration;

use idem_conformance::{Case, CaseResult, Context};
use idem_core::admin::{
    Cursor, Forced, ForcedAction, ForcedStep, RecordFilter, RecordSummary, SummaryState,
};
use idem_core::{
    AttemptId, Checkpoint, CheckpointStore, ErrorKind, Failure, IdempotencyStore,
    IdempotencyStoreExt, RecordAdmin, Response, WatermarkStore,
};
use idem_mongo::mongodb::bson::{Bson, Document, doc};
use idem_mongo::{MongoStore, Transactions};

use super::case;
use crate::support::{self, Watch, documents};

pub(super) const A_LIST_HAS_EVERY_RECORD_AND_NOTHING_ELSE: Case =
    case(10, "a_list_has_every_record_and_nothing_else", |cx| {
        Box::pin(a_list_has_every_record_and_nothing_else(cx))
    });
pub(super) const A_LIST_LOADS_NO_LARGE_RESULT: Case =
    case(16, "a_list_loads_no_large_result", |cx| {
        Box::pin(a_list_loads_no_large_result(cx))
    });
pub(super) const A_RECORD_THAT_WAS_FORCED_TO_GO_LEAVES_ITS_TOKEN: Case =
    case(5, "a_record_that_was_forced_to_go_leaves_its_token", |cx| {
        Box::pin(a_record_that_was_forced_to_go_leaves_its_token(cx))
    });
pub(super) const A_FORCED_STEP_AND_ITS_ENTRY_ARE_ONE: Case =
    case(12, "a_forced_step_and_its_entry_are_one", |cx| {
        Box::pin(a_forced_step_and_its_entry_are_one(cx))
    });

const HOUR: Duration = Duration::from_secs(3600);

/// Returns the records of all pages.
async fn list_all(store: &MongoStore, limit: u32) -> CaseResult<Vec<RecordSummary>> {
    let filter = RecordFilter::new();
    let (mut records, mut cursor) = (Vec::new(), None);
    loop {
        let page = store.list(&filter, cursor.as_ref(), limit).await?;
        assert!(page.looked_at <= limit);
        records.extend(page.records);
        cursor = page.next;
        if cursor.is_none() {
            return Ok(records);
        }
    }
}

async fn a_list_has_every_record_and_nothing_else(cx: &Context) -> CaseResult {
    let harness = support::harness()?;
    let store = harness.store(cx.namespace()).await?;
    let claim = cx.claim(&cx.request(&cx.key("done"))).await?;
    store
        .complete(&claim, &Response::new(200, "done"), HOUR)
        .await?;
    let claim = cx.claim(&cx.request(&cx.key("failed"))).await?;
    store
        .fail(&claim, &Failure::new("declined", "no"), HOUR)
        .await?;
    let claim = cx.claim(&cx.request(&cx.key("held"))).await?;
    let point = Checkpoint::new("charged", "receipt 1")?;
    store.checkpoint(&claim, &point).await?;
    cx.leave_stale(&cx.request(&cx.key("stale"))).await?;
    let claim = cx.claim(&cx.request(&cx.key("released"))).await?;
    store.release(&claim).await?;
    store.advance(&cx.key("mark"), 7, HOUR).await?;
    cx.hold(&cx.request(&cx.key("broken"))).await?;
    let records = harness.database(cx.namespace()).await?;
    let records = records.collection::<Document>("idem_records");
    let broken = doc! { "_id": cx.key("broken").path() };
    let garbage = doc! { "$set": { "attempts": "two" }, "$unset": { "fingerprint": "" } };
    records.update_one(broken, garbage).await?;
    // Of others, or of nobody.
    for id in [
        "theirs".into(),
        "a:b:{c}".into(),
        Bson::Int64(7),
        Bson::ObjectId(Default::default()),
    ] {
        records.insert_one(doc! { "_id": id }).await?;
    }
    for limit in [1, 2, 100] {
        let listed = list_all(&store, limit).await?;
        let states: Vec<_> = listed.iter().map(|r| (r.key.id(), r.state)).collect();
        let expected = [
            ("broken", SummaryState::Unreadable),
            ("done", SummaryState::Completed),
            ("failed", SummaryState::Failed),
            ("held", SummaryState::InFlight),
            ("stale", SummaryState::Stale),
        ];
        assert_eq!(states, expected, "pages of {limit}, in order");
        assert_eq!(listed[2].failure_code.as_deref(), Some("declined"));
        assert_eq!(listed[3].checkpoint.as_deref(), Some("charged"));
        let bytes = point.encode(&store.limits())?.len() as u64;
        assert_eq!(listed[3].result_bytes, bytes);
        for record in listed {
            let mut one = store.summary(&record.key).await?.expect("there");
            one.observed_at = record.observed_at;
            assert_eq!(one, record);
        }
    }
    assert_eq!(store.summary(&cx.key("released")).await?, None);
    assert_eq!(store.summary(&cx.key("never")).await?, None);
    let foreign = Cursor::new("0 a:b:c");
    let listed = store.list(&RecordFilter::new(), Some(&foreign), 1).await;
    assert_eq!(listed.unwrap_err().kind(), ErrorKind::InvalidInput);
    Ok(())
}

/// Returns this many bytes, which no compression makes fewer.
fn random(count: usize) -> Vec<u8> {
    let some = || *AttemptId::random().as_bytes();
    std::iter::repeat_with(some).flatten().take(count).collect()
}

/// Neither does the server send them.
async fn a_list_loads_no_large_result(cx: &Context) -> CaseResult {
    let (harness, watch) = (support::harness()?, Watch::default());
    let store = watch.store(&harness, harness.config(cx.namespace())?);
    let store = store.await?;
    let large = random(2 << 20);
    let claim = cx.claim(&cx.request(&cx.key("done"))).await?;
    store
        .complete(&claim, &Response::new(200, large.clone()), HOUR)
        .await?;
    let claim = cx.claim(&cx.request(&cx.key("done, small"))).await?;
    store
        .complete(&claim, &Response::new(200, "a secret"), HOUR)
        .await?;
    let claim = cx.claim(&cx.request(&cx.key("failed"))).await?;
    let failure = Failure::new("declined", "no").with_details(large.clone());
    store.fail(&claim, &failure, HOUR).await?;
    let claim = cx.claim(&cx.request(&cx.key("held"))).await?;
    let point = Checkpoint::new("charged", large)?;
    store.checkpoint(&claim, &point).await?;
    watch.take(&[]);
    let listed = list_all(&store, 100).await?;
    assert_eq!(listed.len(), 4);
    for record in &listed {
        let is_small = record.key.id() == "done, small";
        assert_eq!(
            record.result_bytes > 2 << 20,
            !is_small,
            "{}",
            record.key.id()
        );
        assert_ne!(record.state, SummaryState::Unreadable);
        assert_eq!((&record.failure_code, &record.checkpoint), (&None, &None));
    }
    let sent = watch.take(&["aggregate"]);
    assert_eq!(sent.len(), 1, "{sent:?}");
    let repeated = doc! {
        "aggregate": "idem_records", "pipeline": sent[0].get_array("pipeline")?.clone(), "cursor": {},
    };
    let database = harness.database(cx.namespace()).await?;
    let answer = database.run_command(repeated).await?;
    let bytes = answer.to_vec()?.len();
    assert!(bytes < 10_000, "{bytes} bytes");
    assert!(!answer.to_string().contains("result\":"), "{answer}");
    // That of one record may.
    for (id, code, checkpoint) in [
        ("failed", Some("declined"), None),
        ("held", None, Some("charged")),
    ] {
        let one = store.summary(&cx.key(id)).await?.expect("there");
        assert_eq!(one.failure_code.as_deref(), code);
        assert_eq!(one.checkpoint.as_deref(), checkpoint);
    }
    Ok(())
}

async fn a_record_that_was_forced_to_go_leaves_its_token(cx: &Context) -> CaseResult {
    let harness = support::harness()?;
    let store = harness.store(cx.namespace()).await?;
    let key = cx.key("ahead");
    let claim = cx.claim(&cx.request(&key)).await?;
    let wrong = Response::new(200, "wrong");
    store.complete(&claim, &wrong, HOUR).await?;
    // As a clock that was ahead by an hour would have written it.
    let database = harness.database(cx.namespace()).await?;
    let records = database.collection::<Document>("idem_records");
    let ahead = doc! { "$inc": { "token": 3_600_000_000_i64 } };
    records
        .update_one(doc! { "_id": key.path() }, ahead)
        .await?;
    let step = |token| ForcedStep::new(key.clone(), token, ForcedAction::Delete, "ada", "wrong");
    let refused = store.force(&step(claim.token())?).await?;
    assert!(
        matches!(refused, Forced::Refused { current: Some(_) }),
        "{refused:?}"
    );
    let before = store.summary(&key).await?.expect("there");
    let delete = step(before.token)?;
    let done = store.force(&delete).await?;
    assert!(matches!(done, Forced::Done { .. }), "{done:?}");
    assert_eq!(store.summary(&key).await?, None);
    let found = documents(cx).await?;
    let left = found
        .iter()
        .find(|found| found.get_str("_id").is_ok_and(|id| id == key.path()));
    let left = left.expect("its token");
    for field in ["result", "metadata", "sealed_at"] {
        assert!(!left.contains_key(field), "{field}");
    }
    let purge_at = left.get_datetime("purge_at")?.timestamp_millis();
    assert!(purge_at * 1000 > before.token.as_i64(), "too early");
    let late = store.complete(&claim, &wrong, HOUR).await.unwrap_err();
    assert!(late.is_claim_lost(), "{late}");
    let refused = store.force(&delete).await?;
    assert_eq!(refused, Forced::Refused { current: None });
    let next = cx.claim(&cx.other_request(&key)).await?;
    assert!(next.token() > before.token);
    assert!(!next.is_takeover(), "a fresh key");
    assert_eq!(store.history(&key).await?.len(), 1);
    Ok(())
}

/// A step that does not come to its end has no entry: a caller's transaction holds the record.
async fn a_forced_step_and_its_entry_are_one(cx: &Context) -> CaseResult {
    let harness = support::harness()?;
    let config = harness.config(cx.namespace())?;
    let config = config.with_timeout(Duration::from_millis(500));
    let impatient = Watch::default().store(&harness, config).await?;
    let store = harness.store(cx.namespace()).await?;
    let claim = cx.claim(&cx.request(&cx.key("one"))).await?;
    let mut attempts = Transactions::new(&store).attempts();
    let mut session = attempts.begin().await?;
    let response = Response::new(200, "done");
    store
        .complete_in(&mut session, &claim, &response, HOUR)
        .await?;
    let (key, token) = (claim.key().clone(), claim.token());
    let release = ForcedStep::new(key.clone(), token, ForcedAction::Release, "ada", "stuck")?;
    let error = impatient.force(&release).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    assert_eq!(documents(cx).await?.len(), 1, "there is an entry");
    assert_eq!(store.history(&key).await?.len(), 0);
    let committed = attempts
        .finish(session, Ok::<_, idem_core::Error>(()))
        .await;
    committed.expect("not to be repeated")?;
    let refused = store.force(&release).await?;
    let Forced::Refused {
        current: Some(record),
    } = refused
    else {
        return Err("not refused".into());
    };
    assert_eq!(record.state, SummaryState::Completed);
    assert_eq!(documents(cx).await?.len(), 1, "there is an entry");
    Ok(())
}
