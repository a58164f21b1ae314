//! `fail_abandoned`, and which rows it and `delete_expired` read.

use idem_conformance::{Case, CaseResult, Context};
use idem_core::{BatchStore, ClaimRequest, IdempotencyStore, Response, StalePolicy};
use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Connection, Row};

use super::case;
use super::waits::HOUR;
use crate::support;

pub(super) const SWEEP_PASSES_OVER_WHAT_IS_LOCKED: Case =
    case(16, "sweep_passes_over_what_is_locked", |cx| {
        Box::pin(sweep_passes_over_what_is_locked(cx))
    });
pub(super) const SWEEP_AND_PURGE_GO_BY_THE_LAST_CLAIM: Case =
    case(16, "sweep_and_purge_go_by_the_last_claim", |cx| {
        Box::pin(sweep_and_purge_go_by_the_last_claim(cx))
    });
pub(super) const A_SWEEP_LEAVES_ALONE_WHAT_WAS_RENEWED: Case =
    case(16, "a_sweep_leaves_alone_what_was_renewed", |cx| {
        Box::pin(a_sweep_leaves_alone_what_was_renewed(cx))
    });
pub(super) const A_SWEEP_LEAVES_ALONE_WHAT_HAS_EXPIRED: Case =
    case(16, "a_sweep_leaves_alone_what_has_expired", |cx| {
        Box::pin(a_sweep_leaves_alone_what_has_expired(cx))
    });
pub(super) const ONLY_WHAT_IS_TO_BE_SWEPT_IS_WHERE_A_SWEEP_LOOKS: Case = case(
    16,
    "only_what_is_to_be_swept_is_where_a_sweep_looks",
    |cx| Box::pin(only_what_is_to_be_swept_is_where_a_sweep_looks(cx)),
);

/// A late holder's uncommitted completion does not block `fail_abandoned`.
async fn sweep_passes_over_what_is_locked(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    let requests = ["one", "two", "three"].map(|id| cx.request(&cx.key(id)));
    let mut late = Vec::new();
    for request in requests {
        let request = request.with_on_stale(StalePolicy::Fail);
        late.push(cx.stale_claim(&request).await?);
    }
    let mut transaction = store.pool().begin().await?;
    let response = Response::new(200, "late");
    store
        .complete_in(&mut transaction, &late[1], &response, HOUR)
        .await?;
    assert_eq!(store.fail_abandoned(10).await?, 2, "all but the locked one");
    transaction.commit().await?;
    assert_eq!(store.fail_abandoned(10).await?, 0, "it is completed");
    Ok(())
}

/// The policy and the retention of the last claim count, not those of an earlier one.
async fn sweep_and_purge_go_by_the_last_claim(cx: &Context) -> CaseResult {
    let [open, closed, brief] = ["open", "closed", "brief"].map(|id| cx.request(&cx.key(id)));
    let short = |request: &ClaimRequest| request.clone().with_lease(cx.short());
    let fails = |request: &ClaimRequest| request.clone().with_on_stale(StalePolicy::Fail);
    cx.hold(&short(&fails(&open)).with_retention(cx.short()))
        .await?;
    cx.hold(&short(&closed).with_retention(cx.short())).await?;
    cx.hold(&short(&brief)).await?;
    cx.until_free(open.key()).await?;
    cx.until_free(closed.key()).await?;
    let live = cx.claim(&cx.request(open.key())).await?;
    cx.leave_stale(&fails(&cx.request(closed.key()))).await?;
    assert_eq!(cx.store().fail_abandoned(10).await?, 1, "the closed one");
    let response = Response::new(200, "done");
    cx.store().complete(&live, &response, HOUR).await?;
    cx.until_stale(brief.key()).await?;
    let taken = short(&cx.request(brief.key())).with_retention(cx.short());
    cx.hold(&taken).await?;
    cx.until_free(brief.key()).await?;
    assert_eq!(cx.store().delete_expired(10).await?, 1, "the brief one");
    Ok(())
}

async fn a_sweep_leaves_alone_what_was_renewed(cx: &Context) -> CaseResult {
    let request = cx.request(&cx.key("one")).with_on_stale(StalePolicy::Fail);
    let claim = cx.claim(&request.with_lease(cx.short())).await?;
    let claim = cx.store().renew(&claim, HOUR).await?;
    // Time is the subject: the first lease has to end.
    tokio::time::sleep(cx.short() * 2).await;
    assert_eq!(cx.store().fail_abandoned(10).await?, 0);
    let response = Response::new(200, "done");
    Ok(cx.store().complete(&claim, &response, HOUR).await?)
}

/// An expired record counts as absent: there is nothing to fail.
async fn a_sweep_leaves_alone_what_has_expired(cx: &Context) -> CaseResult {
    let request = cx.request(&cx.key("one")).with_on_stale(StalePolicy::Fail);
    let request = request.with_lease(cx.short()).with_retention(cx.short());
    cx.hold(&request).await?;
    cx.until_free(request.key()).await?;
    assert_eq!(cx.store().fail_abandoned(10).await?, 0);
    assert_eq!(cx.store().delete_expired(10).await?, 1);
    Ok(())
}

/// One index serves both tasks: records that may be failed have a range of it to themselves, in
/// which `fail_abandoned` finds nothing else.
async fn only_what_is_to_be_swept_is_where_a_sweep_looks(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let mut connection = MySqlConnection::connect_with(&harness.options()?).await?;
    let sql = format!(
        "SELECT COUNT(CASE WHEN purge_at = sweep_at - 4611686018427387904 THEN 1 END), COUNT(sweep_at),
            COUNT(CASE WHEN sweep_at IS NULL AND purge_at >= expires_at THEN 1 END), COUNT(*)
        FROM `{}`.idem_records",
        cx.namespace()
    );
    let mut expect = async |swept: i64, others: i64| -> CaseResult {
        let query = sqlx::query(AssertSqlSafe(sql.clone()));
        let row = query.fetch_one(&mut connection).await?;
        let counts: [i64; 4] = [
            row.try_get(0)?,
            row.try_get(1)?,
            row.try_get(2)?,
            row.try_get(3)?,
        ];
        assert_eq!(counts, [swept, swept, others, swept + others]);
        Ok(())
    };
    let fails = |id: &str| cx.request(&cx.key(id)).with_on_stale(StalePolicy::Fail);
    let brief = |id: &str| fails(id).with_lease(cx.short());
    let _open = cx.claim(&cx.request(&cx.key("open"))).await?;
    let done = cx.claim(&fails("done")).await?;
    let renewed = cx.claim(&fails("renewed")).await?;
    let freed = cx.claim(&fails("freed")).await?;
    for answer in cx
        .open_batch()
        .await?
        .claim_many(&[fails("one"), fails("two")])
        .await
    {
        let _held = answer?;
    }
    cx.leave_stale(&brief("swept")).await?;
    cx.leave_stale(&brief("abandoned")).await?;
    expect(7, 1).await?;
    let _renewed = cx.store().renew(&renewed, HOUR).await?;
    expect(7, 1).await?;
    let response = Response::new(200, "done");
    cx.store().complete(&done, &response, HOUR).await?;
    cx.store().release(&freed).await?;
    expect(5, 3).await?;
    let failed = cx.store().claim(&fails("abandoned")).await?;
    assert_eq!(failed.name(), "failed");
    assert_eq!(cx.store().fail_abandoned(10).await?, 1);
    expect(3, 5).await?;
    let again = cx.claim(&fails("freed")).await?;
    expect(4, 4).await?;
    cx.store().release(&again).await?;
    let _taken = cx.claim(&cx.request(&cx.key("freed"))).await?;
    expect(3, 5).await
}
