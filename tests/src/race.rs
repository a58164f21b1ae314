//! Concurrent callers.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use idem_core::{Claim, ClaimOutcome, ClaimRequest, Error, ErrorKind, IdempotencyStore};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::failure::ensure_eq;
use crate::{CaseResult, Context};

/// How long a caller that lost a race inside the server retries before the case fails. A busy server
/// may take seconds to end what a dropped call has begun.
const AGAIN: Duration = Duration::from_secs(20);

/// Repeats a call while the store reports a lost race that the next try may win, or a lock that a
/// dropped call still holds.
pub(crate) async fn ask<T, F>(
    asked_again: &AtomicU64,
    mut ask: impl FnMut() -> F + Send,
) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>> + Send,
{
    let (begun, mut tries) = (Instant::now(), 0);
    loop {
        match ask().await {
            Err(error) if error.kind() == ErrorKind::Contention && begun.elapsed() < AGAIN => {
                asked_again.fetch_add(1, Ordering::Relaxed);
                tries += 1;
                tokio::time::sleep(Duration::from_millis(tries % 10)).await;
            }
            answer => return answer,
        }
    }
}

/// Does the same for a case's own handle.
pub(crate) async fn again<T, F>(cx: &Context, call: impl FnMut() -> F + Send) -> CaseResult<T>
where
    F: Future<Output = Result<T, Error>> + Send,
{
    Ok(ask(cx.asked_again(), call).await?)
}

/// Runs one task per item at the same moment, alternating between two handles. Returns the answers
/// in order.
pub(crate) async fn at_once<I, T, F>(
    cx: &Context,
    items: Vec<I>,
    work: impl Fn(Arc<dyn IdempotencyStore>, Arc<AtomicU64>, I) -> F,
) -> CaseResult<Vec<T>>
where
    T: Send + 'static,
    F: Future<Output = CaseResult<T>> + Send + 'static,
{
    let handles = [Arc::clone(cx.store()), cx.open().await?];
    let barrier = Arc::new(Barrier::new(items.len()));
    let mut tasks = JoinSet::new();
    for (index, item) in items.into_iter().enumerate() {
        let store = Arc::clone(&handles[index % 2]);
        let (barrier, running) = (
            Arc::clone(&barrier),
            work(store, Arc::clone(cx.asked_again()), item),
        );
        tasks.spawn(async move {
            barrier.wait().await;
            (index, running.await)
        });
    }
    let mut answers = tasks.join_all().await;
    answers.sort_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// Claims at the same moment. Returns the answers in order.
pub(crate) async fn claims(
    cx: &Context,
    requests: Vec<ClaimRequest>,
) -> CaseResult<Vec<ClaimOutcome>> {
    at_once(cx, requests, |store, asked, request| async move {
        Ok(ask(&asked, || store.claim(&request)).await?)
    })
    .await
}

/// Checks that exactly one claim of one key was acquired, and returns it.
pub(crate) fn one_winner(outcomes: &[ClaimOutcome]) -> CaseResult<&Claim> {
    let winners: Vec<_> = outcomes
        .iter()
        .filter_map(|outcome| match outcome {
            ClaimOutcome::Acquired(claim) => Some(claim),
            _ => None,
        })
        .collect();
    ensure_eq!(winners.len(), 1, "winners among {}", outcomes.len());
    Ok(winners[0])
}
