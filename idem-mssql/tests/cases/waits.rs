//! Claims while another caller's transaction holds the key.

use std::time::{Duration, Instant};

use idem_conformance::{Case, CaseResult, Context};
use idem_core::{ClaimOutcome, Effect, ErrorKind, IdempotencyStore, Response, StalePolicy};
use idem_mssql::{Isolation, MssqlStore, Transaction};

use super::{case, claimed};
use crate::support;

pub(super) const A_CLAIM_WAITS_SHORTLY_FOR_THE_TRANSACTION_THAT_CLAIMED: Case = case(
    2,
    "a_claim_waits_shortly_for_the_transaction_that_claimed",
    |cx| Box::pin(a_claim_waits_shortly_for_the_transaction_that_claimed(cx)),
);
pub(super) const THE_CALLERS_SETTINGS_ARE_THE_SAME_AFTER_AN_OPERATION: Case = case(
    12,
    "the_callers_settings_are_the_same_after_an_operation",
    |cx| Box::pin(the_callers_settings_are_the_same_after_an_operation(cx)),
);
pub(super) const A_MIGRATION_LEAVES_NO_SETTING_BEHIND: Case =
    case(12, "a_migration_leaves_no_setting_behind", |cx| {
        Box::pin(a_migration_leaves_no_setting_behind(cx))
    });
pub(super) const A_CLAIM_THAT_LAPSED_UNSEEN_IS_FAILED_AND_NOT_TAKEN_OVER: Case = case(
    5,
    "a_claim_that_lapsed_unseen_is_failed_and_not_taken_over",
    |cx| Box::pin(a_claim_that_lapsed_unseen_is_failed_and_not_taken_over(cx)),
);
pub(super) const A_WAIT_THAT_IS_TOO_LONG_SAYS_WHAT_IT_KNOWS: Case =
    case(14, "a_wait_that_is_too_long_says_what_it_knows", |cx| {
        Box::pin(a_wait_that_is_too_long_says_what_it_knows(cx))
    });

const HOUR: Duration = Duration::from_secs(3600);

async fn a_claim_waits_shortly_for_the_transaction_that_claimed(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace())?;
    for commits in [true, false] {
        let key = cx.key(format!("commits-{commits}"));
        let mut transaction = Transaction::begin(store.pool(), Isolation::ReadCommitted).await?;
        let claim = store.claim_in(&mut transaction, &cx.request(&key)).await?;
        let claim = claim.acquired().expect("a fresh key");
        let request = cx.request(&key);
        let begun = Instant::now();
        let error = store.claim(&request).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Contention, "{error:?}");
        assert_eq!(error.effect(), Effect::None, "{error:?}");
        assert!(begun.elapsed() < store.config().timeout(), "a long wait");
        let response = Response::new(200, "done");
        store
            .complete_in(&mut transaction, &claim, &response, HOUR)
            .await?;
        let expected = if commits {
            transaction.commit().await?;
            "completed"
        } else {
            transaction.rollback().await?;
            "acquired"
        };
        let outcome = claimed(cx, &store, &request).await?;
        assert_eq!(outcome.name(), expected);
    }
    Ok(())
}

/// A claim that meets the lock has not seen the record, so only the statement that writes can know
/// that the work must not run again.
async fn a_claim_that_lapsed_unseen_is_failed_and_not_taken_over(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace())?;
    let request = cx.request(&cx.key("one")).with_lease(cx.short());
    let request = request.with_on_stale(StalePolicy::Fail);
    let mut transaction = Transaction::begin(store.pool(), Isolation::ReadCommitted).await?;
    let _claim = store.claim_in(&mut transaction, &request).await?;
    // Time is the subject: the lease has to end while the record is not committed.
    tokio::time::sleep(cx.short() * 2).await;
    let rival = cx.request(request.key());
    let error = store.claim(&rival).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Contention, "{error:?}");
    transaction.commit().await?;
    let outcome = claimed(cx, &store, &rival).await?;
    assert_eq!(outcome.name(), "failed");
    Ok(())
}

/// After an operation in its transaction, the caller's statements run with their former settings.
async fn the_callers_settings_are_the_same_after_an_operation(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let store = harness.store(cx.namespace())?;
    let mut client = harness.manager()?.connect().await?.into_client();
    client
        .simple_query("SET LOCK_TIMEOUT 7777; SET XACT_ABORT OFF;")
        .await?
        .into_results()
        .await?;
    client.begin_transaction().await?;
    let request = cx.request(&cx.key("one"));
    let claim = store.claim_in(&mut client, &request);
    let claim = claim.await?.acquired().expect("a fresh key");
    let response = Response::new(200, "done");
    store
        .complete_in(&mut client, &claim, &response, HOUR)
        .await?;
    let settings = "SELECT @@LOCK_TIMEOUT, @@OPTIONS & 16384, @@TRANCOUNT;";
    let rows = client.simple_query(settings).await?.into_first_result();
    let rows = rows.await?;
    let numbers: Vec<Option<i32>> = (0..3).map(|column| rows[0].get(column)).collect();
    assert_eq!(numbers, [Some(7777), Some(0), Some(1)]);
    client.commit_transaction().await?;
    Ok(())
}

/// A migration's settings stay on no connection that others get.
async fn a_migration_leaves_no_setting_behind(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let namespace = format!("{}_new", cx.namespace());
    let store = harness.store_with(1, &namespace)?;
    store.migrate().await?;
    let mut connection = store.pool().get().await?;
    let results = connection
        .run_script("SELECT @@OPTIONS & 16384, @@LOCK_TIMEOUT;")
        .await?;
    let row = &results[0][0];
    assert_eq!((row.get(0), row.get(1)), (Some(0_i32), Some(-1_i32)));
    drop(connection);
    cx.harness().destroy(&namespace).await?;
    Ok(())
}

/// If the server gives up first, it is known that nothing was done; if the client does, it is not.
async fn a_wait_that_is_too_long_says_what_it_knows(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace())?;
    let config = store.config().clone();
    let hasty = config.with_timeout(Duration::from_millis(900));
    let hasty = MssqlStore::with_config(store.pool().clone(), hasty);
    let request = cx.request(&cx.key("one"));
    let mut transaction = Transaction::begin(store.pool(), Isolation::ReadCommitted).await?;
    let first = store
        .claim_in(&mut transaction, &cx.request(request.key()))
        .await?;
    let error = hasty.claim(&request).await.unwrap_err();
    assert!(
        matches!(
            (error.kind(), error.effect()),
            (ErrorKind::Contention, Effect::None) | (ErrorKind::Unavailable, Effect::Unknown)
        ),
        "{error:?}"
    );
    drop(first);
    transaction.rollback().await?;
    let claim = claimed(cx, &store, &request).await?;
    let claim = claim.acquired();
    assert!(
        claim.is_some(),
        "the same attempt gets what it may have claimed"
    );
    let other = store.claim(&cx.request(request.key())).await?;
    assert!(
        matches!(other, ClaimOutcome::InFlight(_)),
        "{}",
        other.name()
    );
    Ok(())
}
