//! [`LastCall`]: how far a case has come.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The call of a store that a case began last, and when any call was answered last.
#[derive(Debug, Clone)]
pub(crate) struct LastCall(Arc<Mutex<State>>);

#[derive(Debug, Clone, Copy)]
struct State {
    last: Option<Call>,
    answered: Instant,
}

#[derive(Debug, Clone, Copy)]
struct Call {
    operation: &'static str,
    begun: Instant,
    ended: Option<Instant>,
}

impl LastCall {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Awaits the answer of this operation.
    pub(crate) async fn during<T>(
        &self,
        operation: &'static str,
        call: impl Future<Output = T>,
    ) -> T {
        let begun = Instant::now();
        self.lock().last = Some(Call {
            operation,
            begun,
            ended: None,
        });
        let answer = call.await;
        let mut state = self.lock();
        state.answered = Instant::now();
        let ended = Some(state.answered);
        // A later call is the last one, whether this one has ended or not.
        if let Some(last) = state.last.as_mut().filter(|last| last.begun == begun) {
            last.ended = ended;
        }
        answer
    }

    /// Counts something else that went on as an answer.
    pub(crate) fn goes_on(&self) {
        self.lock().answered = Instant::now();
    }

    /// Waits until no call was answered for this long.
    pub(crate) async fn stands_still(&self, limit: Duration) {
        loop {
            let quiet = self.lock().answered.elapsed();
            match limit.checked_sub(quiet).filter(|rest| !rest.is_zero()) {
                Some(rest) => tokio::time::sleep(rest).await,
                None => return,
            }
        }
    }
}

impl Default for LastCall {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State {
            last: None,
            answered: Instant::now(),
        })))
    }
}

impl fmt::Display for LastCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ago = |instant: Instant| instant.elapsed().as_secs_f64();
        match self.lock().last {
            None => f.write_str("it called no store"),
            Some(Call {
                operation,
                begun,
                ended: None,
            }) => write!(
                f,
                "its last call, `{operation}`, has had no answer for {:.1} s",
                ago(begun)
            ),
            Some(Call {
                operation,
                ended: Some(ended),
                ..
            }) => write!(
                f,
                "its last call, `{operation}`, was answered {:.1} s before",
                ago(ended)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_call_is_shown_with_or_without_its_answer() {
        let last = LastCall::default();
        assert_eq!(last.to_string(), "it called no store");
        last.during("claim", async {}).await;
        assert_eq!(
            last.to_string(),
            "its last call, `claim`, was answered 0.0 s before"
        );
        let pending = last.during("get", std::future::pending::<()>());
        let _ = tokio::time::timeout(Duration::from_millis(1), pending).await;
        let shown = last.to_string();
        assert!(
            shown.starts_with("its last call, `get`, has had no answer for 0."),
            "{shown}"
        );
    }
}
