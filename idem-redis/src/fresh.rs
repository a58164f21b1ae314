//! [`FreshClaim`]: claims of keys without a record, many by one script.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::join_all;
use idem_core::backend::check;
use idem_core::{Claim, ClaimOutcome, ClaimRequest, FencingToken, Result, StalePolicy, Timestamp};
use redis::Value;

use crate::error::{Access, routes_one_key};
use crate::link::Link;
use crate::operations::{Operations, items, nonsense};
use crate::record;

/// Most bytes of arguments of one script, beside the keys.
const SCRIPT_BYTES: usize = 1 << 20;

/// Most claims of one script.
const SCRIPT_CLAIMS: usize = 128;

/// A claim, to be sent with others.
#[derive(Debug)]
pub(crate) struct FreshClaim {
    key: String,
    terms: Terms,
    /// The stored form from the attempt id on.
    rest: Vec<u8>,
}

/// The common values of the claims of one script, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Terms {
    lease: i64,
    retention: i64,
    fails_when_stale: bool,
}

/// The server's clock when the claim was written; `None` when it was not, because there is a record
/// or for another reason, which the claim gets when it is sent by itself.
pub(crate) type FreshAnswer = Result<Option<i64>>;

impl FreshClaim {
    pub(crate) fn new(request: &ClaimRequest, operations: &Operations) -> Result<Self> {
        let checked = check::claim(request, &operations.config.limits())?;
        Ok(Self {
            key: operations.record_key(request.key()),
            terms: Terms {
                lease: checked.lease,
                retention: checked.retention,
                fails_when_stale: request.on_stale() == StalePolicy::Fail,
            },
            rest: record::rest(request, checked.metadata.as_deref().unwrap_or_default()),
        })
    }

    /// Returns the claim that was written at this instant.
    pub(crate) fn won(request: &ClaimRequest, lease: i64, now: i64) -> ClaimOutcome {
        ClaimOutcome::Acquired(Claim::new(
            request.key().clone(),
            FencingToken::from_i64(now),
            request.attempt(),
            1,
            Timestamp::from_micros(now),
            Timestamp::from_micros(now.saturating_add(lease)),
        ))
    }

    /// Returns the lease in microseconds.
    pub(crate) fn lease(&self) -> i64 {
        self.terms.lease
    }
}

/// Returns an answer for each of them.
pub(crate) async fn claim_fresh(
    link: Arc<Link>,
    operations: Arc<Operations>,
    is_split: Arc<AtomicBool>,
    claims: Vec<FreshClaim>,
) -> Vec<FreshAnswer> {
    let scripts = scripts(&claims);
    let runs = scripts
        .iter()
        .map(|indexes| run(&link, &operations, &is_split, &claims, indexes));
    let mut answers: Vec<_> = claims.iter().map(|_| Ok(None)).collect();
    for (indexes, answered) in scripts.iter().zip(join_all(runs).await) {
        for (&index, answer) in indexes.iter().zip(answered) {
            answers[index] = answer;
        }
    }
    answers
}

/// Groups the claims into scripts: those with the same terms.
fn scripts(claims: &[FreshClaim]) -> Vec<Vec<usize>> {
    let mut scripts: Vec<(Terms, usize, Vec<usize>)> = Vec::new();
    for (index, claim) in claims.iter().enumerate() {
        let bytes = claim.rest.len();
        let room = scripts.iter_mut().find(|(terms, taken, indexes)| {
            *terms == claim.terms && *taken + bytes <= SCRIPT_BYTES && indexes.len() < SCRIPT_CLAIMS
        });
        match room {
            Some((_, taken, indexes)) => {
                *taken += bytes;
                indexes.push(index);
            }
            None => scripts.push((claim.terms, bytes, vec![index])),
        }
    }
    scripts.into_iter().map(|(.., indexes)| indexes).collect()
}

async fn run(
    link: &Link,
    operations: &Operations,
    is_split: &AtomicBool,
    claims: &[FreshClaim],
    indexes: &[usize],
) -> Vec<FreshAnswer> {
    let Some(terms) = indexes.first().map(|&first| claims[first].terms) else {
        return Vec::new();
    };
    let keys: Vec<_> = indexes.iter().map(|&at| claims[at].key.as_str()).collect();
    let mut call = operations
        .scripts
        .fresh_many
        .call_with(&keys)
        .arg(operations.config.grace_millis())
        .arg(terms.lease)
        .arg(terms.retention)
        .arg(&record::head(terms.fails_when_stale)[..]);
    for &at in indexes {
        call = call.arg(&claims[at].rest[..]);
    }
    let call = call.dated();
    let answered = link.run(&call, Access::Write, has_written).await;
    match answered.and_then(|answer| written(answer, indexes.len())) {
        Ok(answers) => answers.into_iter().map(Ok).collect(),
        Err(error) if routes_one_key(&error) => {
            is_split.store(true, Ordering::Relaxed);
            indexes.iter().map(|_| Ok(None)).collect()
        }
        Err(error) => {
            let each = error.for_each_item();
            indexes.iter().map(|_| Err(each())).collect()
        }
    }
}

/// Returns whether any of them was written.
fn has_written(answer: &Value) -> bool {
    matches!(answer, Value::Array(items) if items.iter().skip(1).any(|item| *item == Value::Int(1)))
}

fn written(answer: Value, count: usize) -> Result<Vec<Option<i64>>> {
    let answer = items(answer)?;
    let Some((&Value::Int(now), each)) = answer.split_first() else {
        return Err(nonsense());
    };
    if each.len() != count {
        return Err(nonsense());
    }
    Ok(each
        .iter()
        .map(|one| (*one == Value::Int(1)).then_some(now))
        .collect())
}
