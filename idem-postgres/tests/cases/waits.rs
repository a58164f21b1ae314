//! Claims while another caller's transaction holds the key.

use std::time::Duration;

use idem_conformance::{Case, CaseError, CaseResult, Context, in_time};
use idem_core::{
    Advance, Checkpoint, Claim, ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind,
    IdempotencyStore, Key, Response, StalePolicy, WatermarkStore,
};
use idem_postgres::{PostgresStore, Transactions};
use sqlx::{AssertSqlSafe, PgTransaction, Row};
use tokio::time::Instant;

use super::case;
use crate::support;

pub(super) const A_CLAIM_BESIDE_THE_TRANSACTION_THAT_CLAIMED_IS_TOLD_ITS_END: Case = case(
    2,
    "a_claim_beside_the_transaction_that_claimed_is_told_its_end",
    |cx| {
        Box::pin(a_claim_beside_the_transaction_that_claimed_is_told_its_end(
            cx,
        ))
    },
);
pub(super) const A_CALLERS_LOCK_TIMEOUT_IS_AS_BEFORE: Case =
    case(16, "a_callers_lock_timeout_is_as_before", |cx| {
        Box::pin(a_callers_lock_timeout_is_as_before(cx))
    });
pub(super) const TRANSACTIONS_ARE_REPEATED_UNTIL_THE_KEY_IS_FREE: Case =
    case(1, "transactions_are_repeated_until_the_key_is_free", |cx| {
        Box::pin(transactions_are_repeated_until_the_key_is_free(cx))
    });
pub(super) const A_MARK_THAT_IS_LOCKED_IS_CONTENDED_AND_AN_OLD_VERSION_IS_NOT: Case = case(
    16,
    "a_mark_that_is_locked_is_contended_and_an_old_version_is_not",
    |cx| Box::pin(a_mark_that_is_locked_is_contended_and_an_old_version_is_not(cx)),
);
pub(super) const A_WAIT_THAT_IS_TOO_LONG_IS_AN_UNKNOWN_EFFECT: Case =
    case(14, "a_wait_that_is_too_long_is_an_unknown_effect", |cx| {
        Box::pin(a_wait_that_is_too_long_is_an_unknown_effect(cx))
    });

pub(super) const A_CLAIM_THAT_LAPSED_UNSEEN_IS_FAILED_AND_NOT_TAKEN_OVER: Case = case(
    5,
    "a_claim_that_lapsed_unseen_is_failed_and_not_taken_over",
    |cx| Box::pin(a_claim_that_lapsed_unseen_is_failed_and_not_taken_over(cx)),
);

/// The next claim has not seen the record live, so only the statement that writes can know that the
/// work must not run again.
async fn a_claim_that_lapsed_unseen_is_failed_and_not_taken_over(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    let request = cx.request(&cx.key("one")).with_lease(cx.short());
    let request = request.with_on_stale(StalePolicy::Fail);
    let mut transaction = store.pool().begin().await?;
    let _claim = store.claim_in(&mut transaction, &request).await?;
    // Time is the subject: the lease has to end while the record is not committed.
    tokio::time::sleep(cx.short() * 2).await;
    let request = cx.request(request.key());
    is_contended(cx.store().claim(&request).await)?;
    transaction.commit().await?;
    let outcome = claimed(cx, &request).await?;
    assert!(
        matches!(outcome, ClaimOutcome::Failed(_)),
        "{}",
        outcome.name()
    );
    Ok(())
}

/// Returns a claim's answer once the store has noticed that the transaction has ended.
async fn claimed(cx: &Context, request: &ClaimRequest) -> CaseResult<ClaimOutcome> {
    let claim = || cx.store().claim(request);
    Ok(support::until_free(claim).await?)
}

fn is_contended<T: std::fmt::Debug>(returned: Result<T, Error>) -> CaseResult {
    let error = match returned {
        Err(error) => error,
        Ok(returned) => return Err(CaseError::new(format!("returned {returned:?}"))),
    };
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Contention, Effect::None),
        "{error}"
    );
    assert!(error.is_retryable());
    Ok(())
}

const HOUR: Duration = Duration::from_secs(3600);

async fn a_claim_beside_the_transaction_that_claimed_is_told_its_end(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    for commits in [true, false] {
        let key = cx.key(format!("commits-{commits}"));
        let mut transaction = store.pool().begin().await?;
        let claim = store.claim_in(&mut transaction, &cx.request(&key)).await?;
        let claim = claim.acquired().expect("a fresh key");
        let begun = Instant::now();
        is_contended(cx.store().claim(&cx.request(&key)).await)?;
        in_time(begun.elapsed(), Duration::from_secs(5))?;
        let response = Response::new(200, "done");
        store
            .complete_in(&mut transaction, &claim, &response, HOUR)
            .await?;
        match commits {
            true => transaction.commit().await?,
            false => transaction.rollback().await?,
        }
        let outcome = claimed(cx, &cx.request(&key)).await?;
        let expected = if commits { "completed" } else { "acquired" };
        assert_eq!(outcome.name(), expected);
    }
    Ok(())
}

/// The statement's answer may come later than its caller waits. Here a lock of the whole table
/// delays the server; the statement's own bound does not cover that lock, because the server waits
/// for it before the statement begins.
async fn a_wait_that_is_too_long_is_an_unknown_effect(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let store = harness.store(cx.namespace()).await?;
    let config = store
        .config()
        .clone()
        .with_timeout(Duration::from_millis(150));
    let hasty =
        PostgresStore::with_config(harness.store(cx.namespace()).await?.pool().clone(), config);
    let request = cx.request(&cx.key("one"));
    let mut transaction = store.pool().begin().await?;
    let lock = format!("LOCK TABLE \"{}\".idem_records", cx.namespace());
    sqlx::raw_sql(AssertSqlSafe(lock))
        .execute(&mut *transaction)
        .await?;
    let error = hasty.claim(&request).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Unavailable, Effect::Unknown)
    );
    // The statement still waits on the server; when the lock is free, it may take effect.
    transaction.rollback().await?;
    let claim = claimed(cx, &request).await?.acquired();
    assert!(
        claim.is_some(),
        "the same attempt gets what it may have claimed"
    );
    let other = claimed(cx, &cx.request(request.key())).await?;
    assert!(
        matches!(other, ClaimOutcome::InFlight(_)),
        "{}",
        other.name()
    );
    Ok(())
}

/// A method in a caller's transaction waits as briefly, keeps to the transaction's own bound where
/// that is shorter, and restores it. Its error makes `Transactions` repeat the transaction.
async fn a_callers_lock_timeout_is_as_before(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    let mut holder = store.pool().begin().await?;
    let held = cx.request(&cx.key("held"));
    let _held = store.claim_in(&mut holder, &held).await?;
    let source = cx.key("source");
    store.advance_in(&mut holder, &source, 1, HOUR).await?;
    for own in ["0", "5s", "7ms", "2min"] {
        let mut transaction = store.pool().begin().await?;
        set_lock_timeout(&mut transaction, own).await?;
        let free = cx.request(&cx.key(own));
        let claim = store.claim_in(&mut transaction, &free).await?;
        let claim = claim.acquired().expect("a fresh key");
        assert_eq!(lock_timeout(&mut transaction).await?, own, "after claim_in");
        let checkpoint = Checkpoint::new("half", "")?;
        store
            .checkpoint_in(&mut transaction, &claim, &checkpoint)
            .await?;
        assert_eq!(lock_timeout(&mut transaction).await?, own, "checkpoint_in");
        let other = cx.key(format!("source {own}"));
        store.advance_in(&mut transaction, &other, 1, HOUR).await?;
        assert_eq!(lock_timeout(&mut transaction).await?, own, "advance_in");
        let done = Response::new(200, "done");
        store
            .complete_in(&mut transaction, &claim, &done, HOUR)
            .await?;
        assert_eq!(lock_timeout(&mut transaction).await?, own, "complete_in");
        // A claim without a holder: the probe for its lock leaves no trace either.
        let lost = store
            .complete_in(&mut transaction, &elsewhere(&claim), &done, HOUR)
            .await;
        assert!(lost.unwrap_err().is_claim_lost());
        assert_eq!(lock_timeout(&mut transaction).await?, own, "after a loss");
        let begun = Instant::now();
        let returned = store
            .claim_in(&mut transaction, &cx.request(held.key()))
            .await;
        in_time(begun.elapsed(), Duration::from_secs(5))?;
        let retryable = returned
            .as_ref()
            .is_err_and(|error| idem_postgres::is_transaction_retryable(error));
        assert!(retryable);
        is_contended(returned)?;
        transaction.rollback().await?;
    }
    let mut transaction = store.pool().begin().await?;
    is_contended(store.advance_in(&mut transaction, &source, 1, HOUR).await)?;
    transaction.rollback().await?;
    Ok(holder.rollback().await?)
}

/// Creates a claim of a key that has no record.
fn elsewhere(claim: &Claim) -> Claim {
    let key = Key::new("nowhere", "pay", "none").expect("a valid key");
    Claim::new(
        key,
        claim.token(),
        claim.attempt(),
        1,
        claim.lease_ends_at(),
        claim.lease_ends_at(),
    )
}

async fn set_lock_timeout(transaction: &mut PgTransaction<'_>, to: &str) -> CaseResult {
    let set = format!("SET LOCAL lock_timeout = '{to}'");
    sqlx::raw_sql(AssertSqlSafe(set))
        .execute(&mut **transaction)
        .await?;
    Ok(())
}

async fn lock_timeout(transaction: &mut PgTransaction<'_>) -> CaseResult<String> {
    let shown = sqlx::raw_sql("SHOW lock_timeout");
    Ok(shown.fetch_one(&mut **transaction).await?.try_get(0)?)
}

/// A wait for others' transactions that hold the key repeats the whole transaction.
async fn transactions_are_repeated_until_the_key_is_free(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    let request = cx.request(&cx.key("one"));
    let mut holder = store.pool().begin().await?;
    let _held = store.claim_in(&mut holder, &request).await?;
    let mut attempts = Transactions::new(&store).attempts();
    let mut holder = Some(holder);
    let mut tries = 0;
    let outcome = loop {
        let mut transaction = attempts.begin().await?;
        let rival = cx.request(request.key());
        let returned = store.claim_in(&mut transaction, &rival).await;
        tries += 1;
        if tries == 2
            && let Some(holder) = holder.take()
        {
            holder.rollback().await?;
        }
        if let Some(returned) = attempts.finish(transaction, returned).await {
            break returned?;
        }
    };
    assert!(tries > 2, "{tries} tries");
    assert_eq!(outcome.name(), "acquired");
    let forever = Transactions::new(&store).with_limit(Duration::MAX);
    let _attempts = forever.attempts();
    Ok(())
}

/// A read answers a version that is not higher than the committed one.
async fn a_mark_that_is_locked_is_contended_and_an_old_version_is_not(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    let source = cx.key("source");
    store.advance(&source, 3, HOUR).await?;
    let mut transaction = store.pool().begin().await?;
    store.advance_in(&mut transaction, &source, 5, HOUR).await?;
    for _ in 0..2 {
        is_contended(store.advance(&source, 4, HOUR).await)?;
        let returned = store.advance(&source, 2, HOUR).await?;
        assert_eq!(returned, Advance::Stale { current: 3 });
    }
    transaction.rollback().await?;
    let advance = || store.advance(&source, 4, HOUR);
    let returned = support::until_free(advance).await?;
    assert_eq!(returned, Advance::Advanced);
    Ok(())
}
