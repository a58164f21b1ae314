//! [`Scene`]: what all scenarios share.

use std::path::Path;
use std::time::{Duration, Instant};

use idem_core::{
    AttemptId, BoxError, Claim, ClaimRequest, Fingerprint, IdempotencyStore, Key, Record, Response,
    Result,
};

use crate::history::{Calls, Head, Recorded, Recorder, VERSION};
use crate::spec::{Answer, Call, Op};

/// How long a condition may take on a busy machine.
const MAX_WAIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(10);

/// Longer than any scenario.
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// Who calls after a write that other servers do not have: a completion, or the claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// A claim of the same request by another attempt.
    Duplicate,
    /// A claim of another request with the same key, which meets the claim.
    Stranger,
    /// A read.
    Reader,
    /// The holder, which repeats its completion.
    Holder,
}

impl Caller {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Duplicate, Self::Stranger, Self::Reader, Self::Holder];

    /// Claims the key, if the write that other servers will not have is a completion.
    pub(crate) async fn claim_first(
        self,
        store: &impl IdempotencyStore,
        request: &ClaimRequest,
    ) -> Result<Option<Claim>, BoxError> {
        if self == Self::Stranger {
            return Ok(None);
        }
        let claim = store.claim(request).await?.acquired();
        Ok(Some(claim.ok_or("the key is fresh")?))
    }

    /// Calls.
    pub(crate) async fn call(
        self,
        store: impl IdempotencyStore,
        request: ClaimRequest,
        claim: Option<Claim>,
    ) -> Result<Told, BoxError> {
        let answer = match self {
            Self::Duplicate => {
                let again = request.with_attempt(AttemptId::random());
                store.claim(&again).await.map(|outcome| outcome.name())
            }
            Self::Stranger => {
                let other = Fingerprint::raw("another request");
                let other = ClaimRequest::new(request.key().clone(), other);
                store.claim(&other).await.map(|outcome| outcome.name())
            }
            Self::Reader => {
                let record = store.get(request.key()).await;
                record.map(|record| match record {
                    Some(Record::Completed(_)) => "completed",
                    _ => "not completed",
                })
            }
            Self::Holder => {
                let claim = claim.ok_or("the holder has a claim")?;
                let done = store.complete(&claim, &response(), HOUR).await;
                done.map(|()| "done")
            }
        };
        match (self, answer) {
            (Self::Duplicate | Self::Reader, Ok("completed"))
            | (Self::Stranger, Ok("conflict"))
            | (Self::Holder, Ok("done")) => Ok(Told::Stored),
            (_, Ok(other)) => Err(format!("{self:?} was told `{other}`").into()),
            (_, Err(error)) if error.is_retryable() => Ok(Told::Nothing),
            (_, Err(error)) => Err(error.into()),
        }
    }
}

/// What that caller was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// What is stored on the server.
    Stored,
    /// Nothing: it waited, too, until the server was gone.
    Nothing,
}

/// A history that is being recorded.
#[derive(Debug, Clone)]
pub struct Scene {
    recorder: Recorder,
}

impl Scene {
    /// Creates the file `0.ndjson` of the folder.
    ///
    /// # Errors
    ///
    /// The file cannot be created, or exists.
    pub fn begin(folder: &Path, cell: &str, seed: u64) -> std::io::Result<Self> {
        let head = Head {
            v: VERSION,
            cell: cell.to_owned(),
            seed,
            quantum: 1,
            asks_again: false,
            caches: false,
        };
        let recorder = Recorder::create(&folder.join("0.ndjson"), head)?;
        Ok(Self { recorder })
    }

    /// Returns the store with its calls noted.
    #[must_use]
    pub fn recorded<S: IdempotencyStore>(&self, store: S) -> Recorded<S> {
        Recorded::new(store, self.recorder.clone())
    }

    /// Runs a fail-over, after which the servers may have lost what they acknowledged.
    ///
    /// # Errors
    ///
    /// Those of the fail-over, and of the file.
    pub async fn fail_over<T>(
        &self,
        fault: impl Future<Output = Result<T, BoxError>>,
    ) -> Result<T, BoxError> {
        let call = Call {
            op: Op::Loss,
            attempt: 0,
            token: 0,
        };
        let id = self.recorder.invoke("", call)?;
        let done = fault.await?;
        self.recorder.answer(id, None, Answer::Done)?;
        Ok(done)
    }
}

/// Returns the calls without the losses that the scenario noted: what a configuration that promises
/// to lose nothing has to explain.
#[must_use]
pub fn without_losses(calls: &Calls) -> Calls {
    let is_call =
        |seen: &&crate::history::Seen| !matches!(seen.invocation.call.op, Op::Loss | Op::TakeBack);
    Calls {
        head: calls.head.clone(),
        seen: calls.seen.iter().filter(is_call).cloned().collect(),
    }
}

/// Returns a claim of this key that only its holder ends.
pub(crate) fn request(id: impl AsRef<str>) -> Result<ClaimRequest> {
    let key = Key::new("prove", "cluster", id)?;
    Ok(ClaimRequest::new(key, Fingerprint::raw("request")).with_lease(HOUR))
}

/// Writes what other servers will not have.
pub(crate) async fn write(
    store: &impl IdempotencyStore,
    request: &ClaimRequest,
    claim: Option<&Claim>,
) -> Result<()> {
    match claim {
        Some(claim) => store.complete(claim, &response(), HOUR).await,
        None => store.claim(request).await.map(drop),
    }
}

/// Checks that the server that leads now does not have it.
pub(crate) fn is_gone(record: Option<&Record>, claim: Option<&Claim>) -> Result<(), BoxError> {
    match (record, claim) {
        (Some(Record::InFlight(_)), Some(_)) | (None, None) => Ok(()),
        (other, _) => Err(format!("the new leader has {other:?}").into()),
    }
}

fn response() -> Response {
    Response::new(200, "result")
}

/// Waits until the condition holds.
pub(crate) async fn eventually<F>(
    what: &str,
    mut holds: impl FnMut() -> F + Send,
) -> Result<(), BoxError>
where
    F: Future<Output = Result<bool, BoxError>> + Send,
{
    let started = Instant::now();
    let mut last = None;
    loop {
        match holds().await {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) => last = Some(error),
        }
        if started.elapsed() > MAX_WAIT {
            let last = last.map(|error| format!(" ({error})")).unwrap_or_default();
            return Err(format!("waited {MAX_WAIT:?} in vain: {what}{last}").into());
        }
        tokio::time::sleep(PAUSE).await;
    }
}
