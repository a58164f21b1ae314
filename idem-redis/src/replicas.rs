//! [`Waits`]: one `WAIT` for all callers that have written meanwhile.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use idem_core::{Effect, Error, ErrorKind, Result};
use redis::{Cmd, Value};
use tokio::sync::oneshot;

use crate::config::Replicas;
use crate::connect::Connection;

/// Callers that have written on one connection and wait for its replicas.
///
/// `WAIT` covers all writes that the connection has sent before, and keeps the server from
/// answering anything else on it (<https://redis.io/docs/latest/commands/wait/>). So one `WAIT`
/// serves all waiting callers, and those that arrive while it is under way share the next: however
/// many callers there are, each waits for at most two of them.
#[derive(Debug, Default)]
pub(crate) struct Waits(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    callers: Vec<oneshot::Sender<i64>>,
    /// Whether a task sends for the queued callers.
    is_served: bool,
}

impl Waits {
    /// Returns how many replicas have all writes of the connection so far.
    pub(crate) async fn acknowledged(
        self: &Arc<Self>,
        connection: &Connection,
        replicas: Replicas,
    ) -> Result<i64> {
        let (caller, answer) = oneshot::channel();
        let is_first = {
            let mut queue = self.queue();
            queue.callers.push(caller);
            !std::mem::replace(&mut queue.is_served, true)
        };
        if is_first {
            tokio::spawn(serve(Arc::clone(self), connection.clone(), replicas));
        }
        answer.await.map_err(|_| {
            Error::new(
                ErrorKind::Unavailable,
                Effect::Unknown,
                "the master has the write, but its connection was lost before replicas had",
            )
        })
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the waiting callers; if there are none, the task ends.
    fn next(&self) -> Vec<oneshot::Sender<i64>> {
        let mut queue = self.queue();
        let callers = std::mem::take(&mut queue.callers);
        queue.is_served = !callers.is_empty();
        callers
    }
}

async fn serve(waits: Arc<Waits>, mut connection: Connection, replicas: Replicas) {
    let wait = wait(replicas);
    loop {
        let callers = waits.next();
        if callers.is_empty() {
            return;
        }
        // A caller whose sender is dropped gets the error that the connection is lost.
        if let Ok(answer) = connection.command(&wait).await {
            let acknowledged = count(answer);
            for caller in callers {
                // A caller that was dropped no longer waits.
                let _ = caller.send(acknowledged);
            }
        }
    }
}

/// Returns the `WAIT` command.
pub(crate) fn wait(replicas: Replicas) -> Cmd {
    let millis = u64::try_from(replicas.within.as_millis()).unwrap_or(u64::MAX >> 12);
    let mut wait = redis::cmd("WAIT");
    wait.arg(replicas.count).arg(millis.max(1));
    wait
}

/// Returns the number of replicas in its answer; none when it failed.
pub(crate) fn count(answer: Value) -> i64 {
    redis::from_redis_value(answer).unwrap_or(0)
}

/// Checks that the required number of replicas have a write.
pub(crate) fn enough(wanted: Replicas, acknowledged: i64) -> Result<()> {
    if acknowledged >= i64::from(wanted.count) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Unavailable,
        Effect::Unknown,
        format!(
            "the master has it, but only {acknowledged} of {} replicas had it within {} ms",
            wanted.count,
            wanted.within.as_millis()
        ),
    ))
}
