//! The record and the caller's rows commit together.

use std::time::Duration;

use idem_conformance::{Case, CaseResult, Context};

use super::case;
use crate::support;

pub(super) const LEASES_END_DURING_A_LONG_TRANSACTION: Case =
    case(9, "leases_end_during_a_long_transaction", |cx| {
        Box::pin(leases_end_during_a_long_transaction(cx))
    });

pub(super) const HOUR: Duration = Duration::from_secs(3600);

/// Returns the name of a table in the case's namespace.
pub(super) fn quoted(cx: &Context, table: &str) -> String {
    format!("\"{}\".{table}", cx.namespace())
}

/// `now()` stands still in a transaction; leases are judged by the clock.
async fn leases_end_during_a_long_transaction(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    let key = cx.key("one");
    let mut transaction = store.pool().begin().await?;
    sqlx::query("SELECT now()")
        .persistent(false)
        .execute(&mut *transaction)
        .await?;
    cx.leave_stale(&cx.request(&key)).await?;
    let outcome = store.claim_in(&mut transaction, &cx.request(&key)).await?;
    let claim = outcome
        .acquired()
        .expect("the lease ended after the transaction began");
    assert_eq!(claim.attempts(), 2);
    transaction.commit().await?;
    Ok(())
}
