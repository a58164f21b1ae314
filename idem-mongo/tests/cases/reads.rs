//! Law 15 as the server sees it: its log of operations records every write.

use std::time::Duration;

use idem_conformance::{Case, CaseError, CaseResult, Context};
use idem_core::{
    AttemptId, ClaimOutcome, ClaimRequest, FailedPolicy, Failure, IdempotencyStore, Response,
    StalePolicy,
};
use idem_mongo::mongodb::bson::{Document, doc};

use super::case;
use crate::support::{self, Watch, documents};

pub(super) const DUPLICATES_LEAVE_NOTHING_IN_THE_LOG: Case =
    case(15, "duplicates_leave_nothing_in_the_log", |cx| {
        Box::pin(duplicates_leave_nothing_in_the_log(cx))
    });
pub(super) const OF_A_STORM_ONE_WRITE_IS_LOGGED: Case =
    case(1, "of_a_storm_one_write_is_logged", |cx| {
        Box::pin(of_a_storm_one_write_is_logged(cx))
    });
pub(super) const A_CLAIM_THAT_LOSES_WHERE_IT_WRITES_CHANGES_NOTHING: Case = case(
    15,
    "a_claim_that_loses_where_it_writes_changes_nothing",
    |cx| Box::pin(a_claim_that_loses_where_it_writes_changes_nothing(cx)),
);

const HOUR: Duration = Duration::from_secs(3600);

/// Returns the writes in the server's log to the case's records; none on a standalone server, which
/// has no log. An entry `n` is the image that a `mongod` before 6.0 keeps of a `findAndModify`.
async fn end_of_log(cx: &Context) -> CaseResult<u64> {
    let local = support::harness()?.database("local").await?;
    let log = local.collection::<Document>("oplog.rs");
    let records = format!("{}.idem_records", cx.namespace());
    Ok(log
        .count_documents(doc! { "ns": records, "op": { "$ne": "n" } })
        .await?)
}

/// Returns the entries since then.
async fn logged(cx: &Context, since: u64) -> CaseResult<u64> {
    Ok(end_of_log(cx).await? - since)
}

/// Returns a request for a key in each state, and one in conflict.
pub(super) async fn duplicates(cx: &Context) -> CaseResult<Vec<ClaimRequest>> {
    let [done, failed, held] = ["done", "failed", "held"].map(|id| cx.request(&cx.key(id)));
    let claim = cx.claim(&done).await?;
    let response = Response::new(200, "done");
    cx.store().complete(&claim, &response, HOUR).await?;
    let claim = cx.claim(&failed).await?;
    let failure = Failure::new("no", "no");
    cx.store().fail(&claim, &failure, HOUR).await?;
    cx.hold(&held).await?;
    let conflict = cx.other_request(done.key());
    let again = |request: ClaimRequest| request.with_attempt(AttemptId::random());
    Ok([done, failed, held, conflict].map(again).into())
}

async fn duplicates_leave_nothing_in_the_log(cx: &Context) -> CaseResult {
    let (harness, watch) = (support::harness()?, Watch::default());
    let requests = duplicates(cx).await?;
    let store = watch.store(&harness, harness.config(cx.namespace())?);
    let store = store.await?;
    let (before, end) = (documents(cx).await?, end_of_log(cx).await?);
    for number in 0..400 {
        let request = &requests[number % requests.len()];
        let outcome = store.claim(request).await?;
        assert!(!matches!(outcome, ClaimOutcome::Acquired(_)));
    }
    assert_eq!(documents(cx).await?, before, "the documents");
    assert_eq!(logged(cx, end).await?, 0, "entries of the log");
    let writes = watch.take(&["findAndModify", "update", "insert", "delete"]);
    assert!(writes.is_empty(), "{} writes were sent", writes.len());
    Ok(())
}

/// Most of them find the key free and lose at the write: by 11000, 112, or the existing document.
async fn of_a_storm_one_write_is_logged(cx: &Context) -> CaseResult {
    for round in 0..5 {
        let end = end_of_log(cx).await?;
        let key = cx.key(format!("contended {round}"));
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..64 {
            let (store, request) = (cx.store().clone(), cx.request(&key));
            tasks.spawn(async move { store.claim(&request).await });
        }
        let mut acquired = 0;
        while let Some(outcome) = tasks.join_next().await {
            acquired += usize::from(matches!(outcome??, ClaimOutcome::Acquired(_)));
        }
        assert_eq!(acquired, 1, "winners");
        let written = logged(cx, end).await?;
        assert!(written <= 1, "{written} entries of the log");
    }
    Ok(())
}

/// The update of a claim that found the key free, sent to a key held in each way: the loser of a
/// race sends it so.
async fn a_claim_that_loses_where_it_writes_changes_nothing(cx: &Context) -> CaseResult {
    let (harness, watch) = (support::harness()?, Watch::default());
    let store = watch.store(&harness, harness.config(cx.namespace())?);
    let store = store.await?;
    let requests = duplicates(cx).await?;
    let (before, end) = (documents(cx).await?, end_of_log(cx).await?);
    let database = harness.database(cx.namespace()).await?;
    for request in &requests {
        let update = update_of(cx, &store, &watch, request).await?;
        let answer = database.run_command(update).await?;
        let value = answer.get_document("value")?;
        assert!(value.get_str("_id")?.contains(request.key().id()));
    }
    let mut after = documents(cx).await?;
    after.retain(|document| {
        before
            .iter()
            .any(|old| old.get("_id") == document.get("_id"))
    });
    assert_eq!(after, before, "the documents");
    // A key was claimed and released for each request, to see its command.
    let own = 2 * requests.len() as u64;
    assert!(logged(cx, end).await? <= own, "more was logged");
    Ok(())
}

/// Returns the command that a claim of this request sends, with another key in it.
async fn update_of(
    cx: &Context,
    store: &idem_mongo::MongoStore,
    watch: &Watch,
    request: &ClaimRequest,
) -> CaseResult<Document> {
    let key = cx.key(format!("to see the command for {}", request.key().id()));
    let free = ClaimRequest::new(key, *request.fingerprint())
        .with_on_stale(StalePolicy::Fail)
        .with_on_failed(FailedPolicy::Replay);
    watch.take(&[]);
    store
        .release(&store.claim(&free).await?.acquired().expect("free"))
        .await?;
    let mut commands = watch.take(&["findAndModify"]).into_iter();
    let command = commands
        .next()
        .ok_or_else(|| CaseError::new("no command"))?;
    let mut update = doc! { "findAndModify": "idem_records" };
    for field in ["update", "upsert", "new"] {
        update.insert(field, command.get(field).cloned());
    }
    update.insert("query", doc! { "_id": request.key().path() });
    Ok(update)
}
