//! Law 15, observed in the files.

use std::path::Path;
use std::time::Duration;

use idem_conformance::{Case, CaseResult, Context};
use idem_core::{
    AttemptId, BatchStore, ClaimOutcome, ClaimRequest, Failure, IdempotencyStore, Response,
};
use sqlx::Connection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};

use super::case;
use crate::support;

pub(super) const DUPLICATES_LEAVE_THE_FILES_AS_THEY_ARE: Case = case(
    15,
    "a_thousand_duplicates_leave_the_files_as_they_are",
    |cx| Box::pin(a_thousand_duplicates_leave_the_files_as_they_are(cx)),
);
pub(super) const DUPLICATES_ARE_ANSWERED_WHILE_ANOTHER_PROCESS_WRITES: Case = case(
    15,
    "duplicates_are_answered_while_another_connection_writes",
    |cx| Box::pin(duplicates_are_answered_while_another_connection_writes(cx)),
);
pub(super) const DUPLICATES_ARE_ANSWERED_WHILE_A_CALLER_WRITES: Case = case(
    15,
    "unexpected_duplicates_are_answered_while_a_caller_writes",
    |cx| Box::pin(unexpected_duplicates_are_answered_while_a_caller_writes(cx)),
);

async fn a_thousand_duplicates_leave_the_files_as_they_are(cx: &Context) -> CaseResult {
    let requests = duplicates(cx).await?;
    // Only fresh keys, so that the first duplicates are unexpected.
    for number in 0..50 {
        cx.hold(&cx.request(&cx.key(format!("fresh-{number}"))))
            .await?;
    }
    let before = files(cx)?;
    for number in 0..1000 {
        let outcome = cx.store().claim(&requests[number % requests.len()]).await?;
        assert!(!matches!(outcome, ClaimOutcome::Acquired(_)));
    }
    assert!(files(cx)? == before, "database and write-ahead log");
    Ok(())
}

/// A duplicate needs no write lock: it is answered while another connection holds the lock.
async fn duplicates_are_answered_while_another_connection_writes(cx: &Context) -> CaseResult {
    let requests = duplicates(cx).await?;
    let options = SqliteConnectOptions::new().filename(Path::new(cx.namespace()).join("idem.db"));
    let mut writer = SqliteConnection::connect_with(&options).await?;
    sqlx::raw_sql("BEGIN IMMEDIATE; CREATE TABLE business (row)")
        .execute(&mut writer)
        .await?;
    for request in &requests {
        let outcome = cx.store().claim(request).await?;
        assert!(!matches!(outcome, ClaimOutcome::Acquired(_)));
    }
    let batch = cx.open_batch().await?.claim_many(&requests).await;
    assert!(
        batch
            .iter()
            .all(|outcome| matches!(outcome, Ok(outcome) if outcome.name() != "acquired"))
    );
    sqlx::raw_sql("ROLLBACK").execute(&mut writer).await?;
    Ok(writer.close().await?)
}

/// The same while a transaction of the store's own pool holds the lock, and where all keys were
/// fresh so far.
async fn unexpected_duplicates_are_answered_while_a_caller_writes(cx: &Context) -> CaseResult {
    let requests = duplicates(cx).await?;
    let store = support::store(cx.namespace()).await?;
    for number in 0..50 {
        let fresh = cx.request(&cx.key(format!("fresh-{number}")));
        assert_eq!(store.claim(&fresh).await?.name(), "acquired");
    }
    let transaction = store.pool().begin_with("BEGIN IMMEDIATE").await?;
    for request in &requests {
        assert_ne!(store.claim(request).await?.name(), "acquired");
    }
    for answer in store.claim_many(&requests).await {
        assert_ne!(answer?.name(), "acquired");
    }
    Ok(transaction.rollback().await?)
}

/// Returns requests for a key in each state, and one in conflict.
async fn duplicates(cx: &Context) -> CaseResult<Vec<ClaimRequest>> {
    let hour = Duration::from_secs(3600);
    let [done, failed, held] = ["done", "failed", "held"].map(|id| cx.request(&cx.key(id)));
    let claim = cx.claim(&done).await?;
    cx.store()
        .complete(&claim, &Response::new(200, "done"), hour)
        .await?;
    let claim = cx.claim(&failed).await?;
    cx.store()
        .fail(&claim, &Failure::new("no", "no"), hour)
        .await?;
    cx.hold(&held).await?;
    let conflict = cx.other_request(done.key());
    let again = |request: ClaimRequest| request.with_attempt(AttemptId::random());
    Ok([done, failed, held, conflict].map(again).into())
}

/// Returns the bytes of the database and of its write-ahead log.
fn files(cx: &Context) -> CaseResult<[Vec<u8>; 2]> {
    let read = |name| std::fs::read(Path::new(cx.namespace()).join(name));
    Ok([read("idem.db")?, read("idem.db-wal")?])
}
