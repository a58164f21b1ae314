//! Every row of the tables in `idem_core::backend::decision`, tested on the store.

use futures_util::future::join_all;
use idem_core::backend::decision::{
    ClaimDecision, RecordFacts, RecordState, StepDecision, decide, decide_release, decide_renewal,
    decide_seal,
};
use idem_core::{
    AttemptId, Claim, ClaimOutcome, ClaimRequest, Error, ErrorKind, FailedPolicy, Failure,
    FencingToken, Fingerprint, Record, Response, Result, StalePolicy, Timestamp,
};

use crate::case::cases;
use crate::context::LONG;
use crate::failure::{ensure, ensure_eq};
use crate::{CaseError, CaseResult, Context, expect, race};

cases! { LAW01, law 1:
    claims_meet_every_record_as_the_decision_says: expensive,
}

cases! { LAW05, law 5:
    steps_meet_every_record_as_the_decision_says,
}

/// How many keys are prepared and tested at a time.
const AT_A_TIME: usize = 16;

/// The record under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stored {
    Nothing,
    Released,
    Expired,
    InFlight(StalePolicy),
    Stale(StalePolicy),
    Completed,
    Failed,
    Abandoned,
}

const STORED: [Stored; 10] = [
    Stored::Nothing,
    Stored::Released,
    Stored::Expired,
    Stored::InFlight(StalePolicy::TakeOver),
    Stored::InFlight(StalePolicy::Fail),
    Stored::Stale(StalePolicy::TakeOver),
    Stored::Stale(StalePolicy::Fail),
    Stored::Completed,
    Stored::Failed,
    Stored::Abandoned,
];

const NOW: Timestamp = Timestamp::from_micros(1_000);
const BEFORE: Timestamp = Timestamp::from_micros(500);
const LATER: Timestamp = Timestamp::from_micros(1_500);

impl Stored {
    /// Returns the facts that the decision functions need.
    fn facts(self, request: &ClaimRequest, token: FencingToken) -> Option<RecordFacts> {
        let (state, expires_at) = match self {
            Self::Nothing => return None,
            Self::Released => (RecordState::Released, BEFORE),
            Self::Expired => (RecordState::Completed, BEFORE),
            Self::InFlight(_) | Self::Stale(_) => (RecordState::InFlight, LATER),
            Self::Completed => (RecordState::Completed, LATER),
            Self::Failed | Self::Abandoned => (RecordState::Failed, LATER),
        };
        Some(RecordFacts {
            state,
            fingerprint: *request.fingerprint(),
            token,
            attempt: match self {
                Self::Abandoned => AttemptId::NIL,
                _ => request.attempt(),
            },
            on_stale: request.on_stale(),
            lease_ends_at: match self {
                Self::Stale(_) => BEFORE,
                _ => LATER,
            },
            expires_at,
        })
    }

    /// Returns the request that makes the record.
    fn request(self, cx: &Context, id: String) -> ClaimRequest {
        let request = cx.request(&cx.key(id));
        match self {
            Self::InFlight(policy) => request.with_on_stale(policy),
            Self::Stale(policy) => request.with_on_stale(policy).with_lease(cx.short()),
            Self::Abandoned => {
                let fails = request.with_on_stale(StalePolicy::Fail);
                fails.with_lease(cx.short())
            }
            _ => request,
        }
    }
}

/// One key with its record.
struct Prepared {
    stored: Stored,
    request: ClaimRequest,
    /// The claim that made the record; an invented one where there is none.
    claim: Claim,
}

fn response() -> Response {
    Response::new(200, "the stored one")
}

fn failure() -> Failure {
    Failure::new("declined", "the stored one")
}

/// Stores the record; time still has to pass over it.
async fn store(cx: &Context, stored: Stored, id: String) -> CaseResult<Prepared> {
    let request = stored.request(cx, id);
    if stored == Stored::Nothing {
        let token = FencingToken::from_i64(1);
        let key = request.key().clone();
        let claim = Claim::new(key, token, request.attempt(), 1, NOW, LATER);
        return Ok(Prepared {
            stored,
            request,
            claim,
        });
    }
    let again = || cx.store().claim(&request);
    let claim = expect::acquired(race::ask(cx.asked_again(), again).await?)?;
    let store = cx.store();
    match stored {
        Stored::Released => store.release(&claim).await?,
        Stored::Expired => store.complete(&claim, &response(), cx.short()).await?,
        Stored::Completed => store.complete(&claim, &response(), LONG).await?,
        Stored::Failed => store.fail(&claim, &failure(), LONG).await?,
        _ => {}
    }
    Ok(Prepared {
        stored,
        request,
        claim,
    })
}

/// Waits until time has passed over the record.
async fn ripen(cx: &Context, prepared: &Prepared) -> CaseResult {
    let key = prepared.request.key();
    match prepared.stored {
        Stored::Expired => cx.until_free(key).await,
        Stored::Stale(_) => cx.until_stale(key).await.map(drop),
        Stored::Abandoned => {
            cx.until_stale(key).await?;
            let other = prepared.request.clone().with_attempt(AttemptId::random());
            let outcome = race::ask(cx.asked_again(), || cx.store().claim(&other)).await?;
            expect::failed(outcome).map(drop)
        }
        _ => Ok(()),
    }
}

/// Prepares every kind of record, `of_each` times.
async fn prepared(cx: &Context, of_each: usize) -> CaseResult<Vec<Prepared>> {
    let wanted: Vec<_> = STORED
        .iter()
        .flat_map(|stored| (0..of_each).map(move |number| (*stored, number)))
        .collect();
    let mut all = Vec::with_capacity(wanted.len());
    for some in wanted.chunks(AT_A_TIME) {
        let some = some.iter();
        let stored = some.map(|(stored, at)| store(cx, *stored, format!("{stored:?} {at}")));
        for prepared in join_all(stored).await {
            all.push(prepared?);
        }
    }
    for some in all.chunks(AT_A_TIME) {
        for ripe in join_all(some.iter().map(|prepared| ripen(cx, prepared))).await {
            ripe?;
        }
    }
    Ok(all)
}

/// Returns the claims that may meet a record, with every choice that the decision depends on.
fn claims(made: &ClaimRequest) -> Vec<ClaimRequest> {
    let mut claims = Vec::new();
    for fingerprint in [*made.fingerprint(), Fingerprint::raw("another request")] {
        for attempt in [made.attempt(), AttemptId::random()] {
            for on_stale in [StalePolicy::TakeOver, StalePolicy::Fail] {
                for on_failed in [FailedPolicy::Replay, FailedPolicy::Retry] {
                    claims.push(
                        ClaimRequest::new(made.key().clone(), fingerprint)
                            .with_attempt(attempt)
                            .with_on_stale(on_stale)
                            .with_on_failed(on_failed)
                            .with_lease(LONG)
                            .with_retention(LONG),
                    );
                }
            }
        }
    }
    claims
}

const CLAIMS: usize = 16;

async fn claims_meet_every_record_as_the_decision_says(cx: &Context) -> CaseResult {
    let all = prepared(cx, CLAIMS).await?;
    for (at, some) in all.chunks(AT_A_TIME).enumerate() {
        let answers = some.iter().enumerate().map(|(place, prepared)| {
            let number = (at * AT_A_TIME + place) % CLAIMS;
            meet(cx, prepared, number)
        });
        for answer in join_all(answers).await {
            answer?;
        }
    }
    Ok(())
}

async fn meet(cx: &Context, prepared: &Prepared, number: usize) -> CaseResult {
    let Prepared {
        stored,
        request: made,
        claim: old,
    } = prepared;
    let request = claims(made).swap_remove(number);
    let facts = stored.facts(made, old.token());
    let decision = decide(facts.as_ref(), &request, NOW);
    let outcome = race::ask(cx.asked_again(), || cx.store().claim(&request)).await?;
    let what = format!(
        "{stored:?}, claim {number}, {decision:?}: {}",
        outcome.name()
    );
    judge(decision, &outcome, &request, prepared).map_err(|error| error.while_doing(&what))?;
    let record = expect::record(cx.store().get(made.key()).await?)
        .map_err(|error| error.while_doing(&what))?;
    let left = match (&outcome, &record) {
        (ClaimOutcome::Acquired(claim), Record::InFlight(_)) => {
            record.info().token == claim.token()
        }
        (ClaimOutcome::Conflict(_), _)
        | (ClaimOutcome::InFlight(_), Record::InFlight(_))
        | (ClaimOutcome::Completed(_), Record::Completed(_))
        | (ClaimOutcome::Failed(_), Record::Failed(_)) => record.info().token == old.token(),
        _ => false,
    };
    ensure!(left, "{what}: the record that is left is another");
    Ok(())
}

/// Compares the answer with the decision.
fn judge(
    decision: ClaimDecision,
    outcome: &ClaimOutcome,
    request: &ClaimRequest,
    prepared: &Prepared,
) -> CaseResult {
    let Prepared {
        stored,
        request: made,
        claim: old,
    } = prepared;
    let same = made.fingerprint() == request.fingerprint();
    match (decision, outcome) {
        (ClaimDecision::Fresh, ClaimOutcome::Acquired(claim)) => {
            ensure_eq!(claim.attempts(), 1, "attempts");
            ensure!(
                claim.token() > old.token() || *stored == Stored::Nothing,
                "the token does not grow"
            );
        }
        (ClaimDecision::Own, ClaimOutcome::Acquired(claim)) => {
            ensure_eq!(claim.token(), old.token(), "token");
            ensure_eq!(claim.attempts(), old.attempts(), "attempts");
        }
        (ClaimDecision::TakeOver | ClaimDecision::Retry, ClaimOutcome::Acquired(claim)) => {
            ensure_eq!(claim.attempts(), old.attempts() + 1, "attempts");
            ensure!(claim.token() > old.token(), "the token does not grow");
        }
        (ClaimDecision::Abandon, ClaimOutcome::Failed(failed)) => {
            ensure_eq!(failed.failure.code(), Failure::ABANDONED, "the failure");
        }
        (ClaimDecision::Report, ClaimOutcome::Conflict(conflict)) if !same => {
            ensure_eq!(conflict.info.token, old.token(), "token");
        }
        (ClaimDecision::Report, ClaimOutcome::InFlight(_)) if same => {
            ensure!(matches!(stored, Stored::InFlight(_)), "not in flight");
        }
        (ClaimDecision::Report, ClaimOutcome::Completed(completed)) if same => {
            ensure_eq!(completed.response, response(), "the response");
        }
        (ClaimDecision::Report, ClaimOutcome::Failed(failed)) if same => {
            let code = match stored {
                Stored::Abandoned => Failure::ABANDONED.to_owned(),
                _ => failure().code().to_owned(),
            };
            ensure_eq!(failed.failure.code(), code, "the failure");
        }
        _ => return Err(CaseError::new("another answer than was decided")),
    }
    Ok(())
}

/// The steps of a holder.
#[derive(Debug, Clone, Copy)]
enum Step {
    CompleteAsStored,
    CompleteOtherwise,
    FailAsStored,
    FailOtherwise,
    Release,
    Renew,
}

const STEPS: [Step; 6] = [
    Step::CompleteAsStored,
    Step::CompleteOtherwise,
    Step::FailAsStored,
    Step::FailOtherwise,
    Step::Release,
    Step::Renew,
];

impl Step {
    fn decided(self, stored: Stored, facts: Option<&RecordFacts>, claim: &Claim) -> StepDecision {
        let is_same = || match self {
            Self::CompleteAsStored => stored == Stored::Completed,
            Self::FailAsStored => stored == Stored::Failed,
            _ => false,
        };
        match self {
            Self::Release => decide_release(facts, claim, NOW),
            Self::Renew => decide_renewal(facts, claim, NOW),
            _ => decide_seal(facts, claim, is_same, NOW),
        }
    }

    async fn take(self, cx: &Context, claim: &Claim) -> Result<()> {
        let store = cx.store();
        let (other, others) = (Response::new(409, "other"), Failure::new("other", "other"));
        match self {
            Self::CompleteAsStored => store.complete(claim, &response(), LONG).await,
            Self::CompleteOtherwise => store.complete(claim, &other, LONG).await,
            Self::FailAsStored => store.fail(claim, &failure(), LONG).await,
            Self::FailOtherwise => store.fail(claim, &others, LONG).await,
            Self::Release => store.release(claim).await,
            Self::Renew => store.renew(claim, LONG).await.map(drop),
        }
    }
}

async fn steps_meet_every_record_as_the_decision_says(cx: &Context) -> CaseResult {
    let all = prepared(cx, STEPS.len()).await?;
    for (at, some) in all.chunks(AT_A_TIME).enumerate() {
        let answers = some.iter().enumerate().map(|(place, prepared)| {
            let step = STEPS[(at * AT_A_TIME + place) % STEPS.len()];
            step_on(cx, prepared, step)
        });
        for answer in join_all(answers).await {
            answer?;
        }
    }
    Ok(())
}

async fn step_on(cx: &Context, prepared: &Prepared, step: Step) -> CaseResult {
    let Prepared {
        stored,
        request,
        claim,
    } = prepared;
    let facts = stored.facts(request, claim.token());
    let decision = step.decided(*stored, facts.as_ref(), claim);
    let returned = race::ask(cx.asked_again(), || step.take(cx, claim)).await;
    let kind = returned.as_ref().map_err(Error::kind);
    let fits = match decision {
        // The store may delete a released record at any time.
        StepDecision::Done if *stored == Stored::Released => {
            kind == Ok(&()) || kind == Err(ErrorKind::ClaimLost)
        }
        StepDecision::Apply | StepDecision::Done => kind == Ok(&()),
        StepDecision::Lost => kind == Err(ErrorKind::ClaimLost),
        StepDecision::AlreadySealed => kind == Err(ErrorKind::AlreadySealed),
    };
    ensure!(fits, "{stored:?}, {step:?}, {decision:?}: {kind:?}");
    Ok(())
}
