//! Law 15, observed at the server.

use std::time::Duration;

use idem_conformance::{Case, CaseResult, Context};
use idem_core::{AttemptId, ClaimOutcome, ClaimRequest, Failure, IdempotencyStore, Response};
use idem_postgres::PostgresStore;
use sqlx::{AssertSqlSafe, PgTransaction, Row};

use super::case;
use crate::support;

pub(super) const DUPLICATES_TAKE_NO_TRANSACTION_ID: Case =
    case(15, "a_thousand_duplicates_take_no_transaction_id", |cx| {
        Box::pin(a_thousand_duplicates_take_no_transaction_id(cx))
    });

/// The server gives a transaction an id with its first write: a row version, a row's lock, a record
/// of the log. A thousand duplicates of every kind, in one transaction, get none.
async fn a_thousand_duplicates_take_no_transaction_id(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    let requests = duplicates(cx).await?;
    let before = versions(&store, cx).await?;
    let mut transaction = store.pool().begin().await?;
    let written = written_rows(&mut transaction).await?;
    for number in 0..1000 {
        let request = &requests[number % requests.len()];
        let outcome = store.claim_in(&mut transaction, request).await?;
        assert!(!matches!(outcome, ClaimOutcome::Acquired(_)));
    }
    let now_written = written_rows(&mut transaction).await?;
    assert!(
        now_written <= written,
        "{written} rows were written before, {now_written} now"
    );
    let id = sqlx::query("SELECT txid_current_if_assigned()").persistent(false);
    let id: Option<i64> = id.fetch_one(&mut *transaction).await?.try_get(0)?;
    assert_eq!(id, None, "the transaction's id");
    transaction.commit().await?;
    assert_eq!(
        versions(&store, cx).await?,
        before,
        "row versions and locks"
    );
    Ok(())
}

/// Returns requests for a key in each state, and one in conflict.
pub(super) async fn duplicates(cx: &Context) -> CaseResult<Vec<ClaimRequest>> {
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

/// Returns the rows that this server process wrote and has not reported to the statistics yet,
/// which it may do at any time.
async fn written_rows(transaction: &mut PgTransaction<'_>) -> CaseResult<i64> {
    let sum = sqlx::query(
        "SELECT CAST(COALESCE(sum(n_tup_ins + n_tup_upd + n_tup_del), 0) AS bigint)
        FROM pg_stat_xact_user_tables",
    );
    let row = sum.persistent(false).fetch_one(&mut **transaction).await?;
    Ok(row.try_get(0)?)
}

/// Returns position, creator and locker of each row.
async fn versions(store: &PostgresStore, cx: &Context) -> CaseResult<Vec<String>> {
    let sql = format!(
        "SELECT concat_ws(' ', ctid, xmin, xmax) FROM \"{}\".idem_records ORDER BY id",
        cx.namespace()
    );
    let rows = sqlx::query(AssertSqlSafe(sql)).persistent(false);
    let mut transaction = store.pool().begin().await?;
    let rows = rows.fetch_all(&mut *transaction).await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}
