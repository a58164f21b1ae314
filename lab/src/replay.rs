//! Replay: repeats recorded calls on a store, in their order and with their overlaps.
//!
//! A schedule of threads and packets cannot be repeated, so one try shows little: of many tries,
//! some meet the fault again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use idem_core::{
    AttemptId, BoxError, Checkpoint, Claim, ClaimOutcome, ClaimRequest, FailedPolicy, Failure,
    Fingerprint, IdempotencyStore, Key, Response, StalePolicy,
};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::history::{Calls, Seen};
use crate::spec::{Answer, Call, Op};

/// How long a call may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The claims of this replay, by the tokens of the recorded ones.
type Claims = Arc<Mutex<HashMap<i64, Claim>>>;

/// Repeats the calls, each at the recorded distance from the first, on fresh keys whose ids begin
/// with `prefix`. Faults are not repeated. Errors of the store are part of what is recorded.
///
/// # Errors
///
/// A recorded request that no store accepts.
pub async fn replay(
    store: &Arc<dyn IdempotencyStore>,
    calls: &Calls,
    prefix: &str,
) -> Result<(), BoxError> {
    let first = calls.seen.iter().map(|seen| seen.invocation.c0).min();
    let began = Instant::now();
    let claims = Claims::default();
    let mut tasks = JoinSet::new();
    for seen in &calls.seen {
        let after = seen.invocation.c0 - first.unwrap_or_default();
        let at = began + Duration::from_micros(after.unsigned_abs());
        let (store, claims) = (Arc::clone(store), Arc::clone(&claims));
        let step = Step::of(seen, prefix)?;
        tasks.spawn(async move {
            tokio::time::sleep_until(at).await;
            let _ = tokio::time::timeout(PATIENCE, step.run(&*store, &claims)).await;
        });
    }
    tasks.join_all().await;
    Ok(())
}

/// A recorded call that can be made again.
enum Step {
    Claim {
        request: ClaimRequest,
        /// The token of the recorded claim, if it was acquired.
        token: Option<i64>,
    },
    Holder {
        call: Call,
    },
    Get(Key),
    Sweep,
    /// What is no call.
    Nothing,
}

impl Step {
    fn of(seen: &Seen, prefix: &str) -> Result<Self, BoxError> {
        let call = &seen.invocation.call;
        let key = || Key::new("prove", "replay", format!("{prefix}-{}", seen.invocation.k));
        Ok(match &call.op {
            Op::Claim {
                fp,
                lease,
                ret,
                takeover,
                retry,
            } => {
                let stale = match takeover {
                    true => StalePolicy::TakeOver,
                    false => StalePolicy::Fail,
                };
                let failed = match retry {
                    true => FailedPolicy::Retry,
                    false => FailedPolicy::Replay,
                };
                let request = ClaimRequest::new(key()?, Fingerprint::raw(format!("{fp}")))
                    .with_attempt(attempt(call.attempt))
                    .with_lease(micros(*lease))
                    .with_retention(micros(*ret))
                    .with_on_stale(stale)
                    .with_on_failed(failed);
                let token = match seen.answer.as_ref().map(|answer| &answer.answer) {
                    Some(Answer::Acquired { tok, .. }) => Some(*tok),
                    _ => None,
                };
                Self::Claim { request, token }
            }
            Op::Get => Self::Get(key()?),
            Op::Sweep => Self::Sweep,
            Op::Loss | Op::TakeBack | Op::Clock { .. } => Self::Nothing,
            _ => Self::Holder { call: call.clone() },
        })
    }

    async fn run(self, store: &dyn IdempotencyStore, claims: &Claims) {
        match self {
            Self::Claim { request, token } => {
                let outcome = store.claim(&request).await;
                if let (Ok(ClaimOutcome::Acquired(claim)), Some(token)) = (outcome, token) {
                    lock(claims).insert(token, claim);
                }
            }
            Self::Holder { call } => {
                let claim = lock(claims).get(&call.token).cloned();
                // The recorded claim was not acquired this time.
                let Some(claim) = claim else { return };
                hold(store, &claim, &call.op).await;
            }
            Self::Get(key) => drop(store.get(&key).await),
            Self::Sweep => drop(store.fail_abandoned(50).await),
            Self::Nothing => {}
        }
    }
}

async fn hold(store: &dyn IdempotencyStore, claim: &Claim, op: &Op) {
    match op {
        Op::Complete { seal, ret } => {
            let response = Response::new(200, format!("{seal}"));
            let _ = store.complete(claim, &response, micros(*ret)).await;
        }
        Op::Fail { seal, ret } => {
            let failure = Failure::new("replayed", format!("{seal}"));
            let _ = store.fail(claim, &failure, micros(*ret)).await;
        }
        Op::Release => drop(store.release(claim).await),
        Op::Renew { lease } => drop(store.renew(claim, micros(*lease)).await),
        Op::Save { cp } => {
            let checkpoint = Checkpoint::new("step", cp.to_be_bytes().to_vec());
            if let (Some(store), Ok(checkpoint)) = (store.checkpoints(), checkpoint) {
                let _ = store.checkpoint(claim, &checkpoint).await;
            }
        }
        Op::Load => {
            if let Some(store) = store.checkpoints() {
                let _ = store.last_checkpoint(claim).await;
            }
        }
        Op::Claim { .. } | Op::Get | Op::Sweep | Op::Loss | Op::TakeBack | Op::Clock { .. } => {}
    }
}

fn lock(claims: &Claims) -> std::sync::MutexGuard<'_, HashMap<i64, Claim>> {
    claims.lock().unwrap_or_else(PoisonError::into_inner)
}

fn attempt(number: u64) -> AttemptId {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    // Never the nil id, which no caller may use.
    bytes[15] = 1;
    AttemptId::from_bytes(bytes)
}

fn micros(micros: i64) -> Duration {
    Duration::from_micros(micros.unsigned_abs())
}
