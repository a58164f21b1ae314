//! Law 15, as far as it is visible from outside of the server.

use std::time::Duration;

use idem_conformance::{Case, CaseResult, Context};
use idem_core::{AttemptId, ClaimOutcome, ClaimRequest, Failure, IdempotencyStore, Response};
use idem_mssql::{Isolation, Transaction};

use super::case;
use crate::support;

pub(super) const DUPLICATES_CHANGE_NO_COLUMN: Case =
    case(15, "a_hundred_duplicates_change_no_column", |cx| {
        Box::pin(a_hundred_duplicates_change_no_column(cx))
    });
pub(super) const DUPLICATES_HOLD_NOBODY_UP: Case = case(
    15,
    "duplicates_in_an_open_transaction_hold_nobody_up",
    |cx| Box::pin(duplicates_in_an_open_transaction_hold_nobody_up(cx)),
);

const HOUR: Duration = Duration::from_secs(3600);

async fn a_hundred_duplicates_change_no_column(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let requests = duplicates(cx).await?;
    let all = format!("SELECT * FROM [{}] ORDER BY id;", cx.namespace());
    let before = harness.run(cx.namespace(), &all).await?;
    for number in 0..100 {
        let request = &requests[number % requests.len()];
        let outcome = cx.store().claim(request).await?;
        assert!(!matches!(outcome, ClaimOutcome::Acquired(_)));
    }
    let after = harness.run(cx.namespace(), &all).await?;
    assert_eq!(format!("{before:?}"), format!("{after:?}"));
    Ok(())
}

/// A duplicate's locks end with the read, not with the transaction.
async fn duplicates_in_an_open_transaction_hold_nobody_up(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace())?;
    let request = cx.request(&cx.key("held"));
    let claim = cx.claim(&request).await?;
    let again = request.with_attempt(AttemptId::random());
    let mut transaction = Transaction::begin(store.pool(), Isolation::ReadCommitted).await?;
    for _ in 0..3 {
        let outcome = store.claim_in(&mut transaction, &again).await?;
        assert!(matches!(outcome, ClaimOutcome::InFlight(_)));
    }
    let claim = cx.store().renew(&claim, HOUR).await?;
    let response = Response::new(200, "done");
    cx.store().complete(&claim, &response, HOUR).await?;
    transaction.rollback().await?;
    Ok(())
}

/// Returns requests for a key in each state, and one in conflict.
async fn duplicates(cx: &Context) -> CaseResult<Vec<ClaimRequest>> {
    let [done, failed, held] = ["done", "failed", "held"].map(|id| cx.request(&cx.key(id)));
    let claim = cx.claim(&done).await?;
    cx.store()
        .complete(&claim, &Response::new(200, "done"), HOUR)
        .await?;
    let claim = cx.claim(&failed).await?;
    cx.store()
        .fail(&claim, &Failure::new("no", "no"), HOUR)
        .await?;
    cx.hold(&held).await?;
    let conflict = cx.other_request(done.key());
    let again = |request: ClaimRequest| request.with_attempt(AttemptId::random());
    Ok([done, failed, held, conflict].map(again).into())
}
