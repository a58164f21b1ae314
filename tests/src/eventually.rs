//! Waiting for a condition that has to become true.

use std::future::Future;
use std::time::{Duration, Instant};

use crate::{CaseError, CaseResult};

const PAUSE: Duration = Duration::from_millis(4);

/// Calls `ask` until it returns `Some`; fails after `max_wait`.
pub(crate) async fn eventually<T, F>(
    max_wait: Duration,
    what: &str,
    mut ask: impl FnMut() -> F + Send,
) -> CaseResult<T>
where
    T: Send,
    F: Future<Output = CaseResult<Option<T>>> + Send,
{
    let started = Instant::now();
    loop {
        if let Some(answer) = ask().await? {
            return Ok(answer);
        }
        if started.elapsed() > max_wait {
            return Err(CaseError::new(format!(
                "waited {max_wait:?} in vain: {what}"
            )));
        }
        tokio::time::sleep(PAUSE).await;
    }
}
