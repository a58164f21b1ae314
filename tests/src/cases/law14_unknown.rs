//! Law 14: an error says whether the operation may have taken effect, and never denies an effect
//! wrongly.

use std::sync::Arc;
use std::time::Duration;

use idem_core::{
    Claim, ClaimRequest, Effect, Error, ErrorKind, Failure, IdempotencyStore, Record, Response,
    Result,
};

use super::checkpoint::point;
use crate::case::cases;
use crate::context::LONG;
use crate::eventually::eventually;
use crate::expect::{marks, points};
use crate::failure::{ensure, ensure_eq};
use crate::proxy::Proxy;
use crate::secrets::secret;
use crate::{CaseError, CaseResult, Context, expect};

cases! { law 14:
    a_claim_cut_off_is_not_reported_as_undone [Network],
    a_claim_cut_off_while_it_connects_is_not_reported_as_undone [Network],
    a_completion_cut_off_is_not_reported_as_undone [Network],
    a_failure_cut_off_is_not_reported_as_undone [Network],
    a_release_cut_off_is_not_reported_as_undone [Network],
    a_renewal_cut_off_is_not_reported_as_undone [Network],
    a_checkpoint_cut_off_is_not_reported_as_undone [Checkpoints, Network],
    an_advance_cut_off_is_not_reported_as_undone [Watermarks, Network],
    a_server_out_of_reach_is_unavailable [Network],
    a_handle_works_again_after_a_cut [Network],
    a_refusal_is_certain_that_nothing_was_done,
}

/// More messages than any operation needs, including the connection's set-up.
const MOST_MESSAGES: u32 = 40;

/// How often the cuts are repeated if all fell elsewhere.
const SWEEPS: u32 = 5;

/// A store behind a proxy.
pub(super) struct Proxied {
    pub(super) proxy: Proxy,
    pub(super) store: Arc<dyn IdempotencyStore>,
}

impl Proxied {
    pub(super) async fn start(cx: &Context) -> CaseResult<Self> {
        let missing = || CaseError::new("`server_address` and `open_through` are needed");
        let server = cx.harness().server_address().ok_or_else(missing)?;
        let proxy = Proxy::start(server).await?;
        let opened = cx
            .harness()
            .open_through(cx.namespace(), proxy.address())
            .await?;
        let store = cx.watching(opened.ok_or_else(missing)?);
        Ok(Self { proxy, store })
    }

    /// Connects, and prepares everything that a first operation prepares.
    pub(super) async fn warm_up(&self, cx: &Context, id: &str) -> CaseResult {
        self.proxy.disarm();
        let request = cx.request(&cx.key(id));
        let claim = || async { Ok(self.store.claim(&request).await.ok()) };
        let outcome = eventually(cx.profile().max_wait(), "a connection", claim).await?;
        let claim = expect::acquired(outcome)?;
        let claim = self.store.renew(&claim, LONG).await?;
        self.store.release(&claim).await?;
        self.proxy.quiet().await;
        Ok(())
    }
}

/// What the client has done before the interrupted operation.
#[derive(Clone, Copy)]
enum Before {
    /// Its connection is open and prepared.
    WarmUp,
    /// It has only opened the store.
    Open,
}

/// Cuts the operation after each of its messages in turn, until it needs no more of them. At least
/// one cut has to fall between the operation and its answer; a client's own housekeeping may take
/// some of the cuts.
async fn cut_everywhere(cx: &Context, operation: Operation, before: Before) -> CaseResult {
    let mut proxied = Proxied::start(cx).await?;
    for sweep in 0..SWEEPS {
        let mut hidden = 0;
        for messages in 0..MOST_MESSAGES {
            let id = format!("sweep {sweep}, cut after {messages}");
            match before {
                Before::WarmUp => proxied.warm_up(cx, &format!("warm up, {id}")).await?,
                Before::Open => {
                    proxied = Proxied::start(cx).await?;
                    proxied.proxy.quiet().await;
                }
            }
            match cut_once(cx, &proxied, operation, &id, messages).await? {
                Cut::Nowhere if hidden > 0 => return Ok(()),
                Cut::Nowhere => break,
                Cut::BeforeItsAnswer => hidden += 1,
                Cut::Elsewhere => {}
            }
        }
    }
    Err(CaseError::new(
        "no cut fell between the operation and its answer",
    ))
}

/// Where a cut fell.
enum Cut {
    BeforeItsAnswer,
    Elsewhere,
    Nowhere,
}

/// Performs the operation through the proxy, checks its effect past the proxy, and repeats it
/// directly.
async fn cut_once(
    cx: &Context,
    proxied: &Proxied,
    operation: Operation,
    id: &str,
    messages: u32,
) -> CaseResult<Cut> {
    let request = cx.request(&cx.key(id));
    let held = match operation {
        Operation::Claim | Operation::Advance => None,
        _ => Some(cx.claim(&request).await?),
    };
    let before = proxied.proxy.cuts();
    proxied.proxy.cut_after(messages);
    let result = operation
        .perform(&*proxied.store, &request, held.as_ref())
        .await?;
    proxied.proxy.disarm();
    let cut = match result {
        Ok(_) if proxied.proxy.cuts() == before => Cut::Nowhere,
        // The store repeated the call itself.
        Ok(_) => Cut::BeforeItsAnswer,
        Err(error) => {
            ensure!(error.is_retryable(), "not retryable: {error}");
            let took_effect = operation.shows_in_time(cx, &request, held.as_ref()).await?;
            let undone = error.effect() == Effect::None;
            ensure!(
                !(took_effect && undone),
                "told that nothing was done: {error}"
            );
            match took_effect {
                true => Cut::BeforeItsAnswer,
                false => Cut::Elsewhere,
            }
        }
    };
    let again = operation
        .perform(&**cx.store(), &request, held.as_ref())
        .await??;
    if let Some(claim) = again {
        ensure_eq!(claim.attempts(), 1, "its own claim, asked for again");
        let same = held.is_none_or(|held| held.token() == claim.token());
        ensure!(same, "another token");
    }
    Ok(cut)
}

/// How often the case checks whether an interrupted operation took effect.
pub(super) const SETTLING_LOOKS: usize = 10;
pub(super) const SETTLING_PAUSE: Duration = Duration::from_millis(10);

#[derive(Clone, Copy)]
enum Operation {
    Claim,
    Complete,
    Fail,
    Release,
    Renew,
    Checkpoint,
    Advance,
}

impl Operation {
    /// Returns whether it took effect; a server that has the request may take a moment to act on
    /// it.
    async fn shows_in_time(
        self,
        cx: &Context,
        request: &ClaimRequest,
        held: Option<&Claim>,
    ) -> CaseResult<bool> {
        for _ in 0..SETTLING_LOOKS {
            if self.shows(cx, request, held).await? {
                return Ok(true);
            }
            tokio::time::sleep(SETTLING_PAUSE).await;
        }
        Ok(false)
    }

    async fn perform(
        self,
        store: &dyn IdempotencyStore,
        request: &ClaimRequest,
        held: Option<&Claim>,
    ) -> CaseResult<Result<Option<Claim>>> {
        Ok(match (self, held) {
            (Self::Checkpoint, Some(held)) => {
                let stored = points(store)?.checkpoint(held, &point("one")).await;
                stored.map(|()| None)
            }
            (Self::Advance, _) => {
                let returned = marks(store)?.advance(request.key(), 7, LONG).await;
                returned.map(|_| None)
            }
            (_, held) => self.perform_promised(store, request, held).await,
        })
    }

    async fn perform_promised(
        self,
        store: &dyn IdempotencyStore,
        request: &ClaimRequest,
        held: Option<&Claim>,
    ) -> Result<Option<Claim>> {
        let Some(held) = held else {
            return Ok(store.claim(request).await?.acquired());
        };
        match self {
            Self::Complete => {
                let response = Response::new(200, secret("x"));
                store.complete(held, &response, LONG).await?;
            }
            Self::Fail => {
                let failure = Failure::new("c", secret("m"));
                store.fail(held, &failure, LONG).await?;
            }
            Self::Release => store.release(held).await?,
            _ => return store.renew(held, LONG * 3).await.map(Some),
        }
        Ok(None)
    }

    /// Returns whether the store shows the effect.
    async fn shows(
        self,
        cx: &Context,
        request: &ClaimRequest,
        held: Option<&Claim>,
    ) -> CaseResult<bool> {
        let record = cx.store().get(request.key()).await?;
        Ok(match (self, held) {
            (Self::Checkpoint, Some(held)) => {
                let last = points(cx.store())?.last_checkpoint(held).await?;
                last.is_some()
            }
            (Self::Advance, _) => {
                let mark = marks(cx.store())?.watermark(request.key()).await?;
                mark == Some(7)
            }
            (Self::Claim, _) => record.is_some(),
            (Self::Complete, _) => matches!(record, Some(Record::Completed(_))),
            (Self::Fail, _) => matches!(record, Some(Record::Failed(_))),
            (Self::Release, _) => record.is_none(),
            _ => match record {
                Some(Record::InFlight(record)) => record.lease_remaining() > LONG * 2,
                _ => false,
            },
        })
    }
}

async fn a_claim_cut_off_is_not_reported_as_undone(cx: &Context) -> CaseResult {
    cut_everywhere(cx, Operation::Claim, Before::WarmUp).await
}

async fn a_claim_cut_off_while_it_connects_is_not_reported_as_undone(cx: &Context) -> CaseResult {
    cut_everywhere(cx, Operation::Claim, Before::Open).await
}

async fn a_completion_cut_off_is_not_reported_as_undone(cx: &Context) -> CaseResult {
    cut_everywhere(cx, Operation::Complete, Before::WarmUp).await
}

async fn a_failure_cut_off_is_not_reported_as_undone(cx: &Context) -> CaseResult {
    cut_everywhere(cx, Operation::Fail, Before::WarmUp).await
}

async fn a_release_cut_off_is_not_reported_as_undone(cx: &Context) -> CaseResult {
    cut_everywhere(cx, Operation::Release, Before::WarmUp).await
}

async fn a_renewal_cut_off_is_not_reported_as_undone(cx: &Context) -> CaseResult {
    cut_everywhere(cx, Operation::Renew, Before::WarmUp).await
}

async fn a_checkpoint_cut_off_is_not_reported_as_undone(cx: &Context) -> CaseResult {
    cut_everywhere(cx, Operation::Checkpoint, Before::WarmUp).await
}

async fn an_advance_cut_off_is_not_reported_as_undone(cx: &Context) -> CaseResult {
    cut_everywhere(cx, Operation::Advance, Before::WarmUp).await
}

async fn a_server_out_of_reach_is_unavailable(cx: &Context) -> CaseResult {
    let proxied = Proxied::start(cx).await?;
    proxied.warm_up(cx, "warm up").await?;
    let claim = cx.claim(&cx.request(&cx.key("held"))).await?;
    proxied.proxy.close();
    let is_unavailable = |error: Option<Error>| {
        let error = error.ok_or_else(|| CaseError::new("it was reached"))?;
        ensure_eq!(error.kind(), ErrorKind::Unavailable, "kind of {error}");
        ensure!(error.is_retryable(), "not retryable");
        Ok(())
    };
    let store = &proxied.store;
    is_unavailable(store.claim(&cx.request(&cx.key("never"))).await.err())?;
    is_unavailable(
        store
            .complete(&claim, &Response::new(200, secret("x")), LONG)
            .await
            .err(),
    )?;
    is_unavailable(store.get(claim.key()).await.err())?;
    cx.store()
        .complete(&claim, &Response::new(200, secret("y")), LONG)
        .await?;
    Ok(())
}

async fn a_handle_works_again_after_a_cut(cx: &Context) -> CaseResult {
    let proxied = Proxied::start(cx).await?;
    for at in 0..10 {
        proxied.warm_up(cx, &format!("warm up {at}")).await?;
        proxied.proxy.cut_after(at % 3);
        let request = cx.request(&cx.key(format!("cut {at}")));
        let _ = proxied.store.claim(&request).await;
        proxied.proxy.disarm();
        let ask = || async { Ok(proxied.store.claim(&request).await.ok()) };
        let outcome = eventually(cx.profile().max_wait(), "an answer", ask).await?;
        let claim = expect::acquired(outcome)?;
        ensure_eq!(claim.attempts(), 1, "its own claim, asked for again");
        cx.store()
            .complete(&claim, &Response::new(200, secret("x")), LONG)
            .await?;
    }
    Ok(())
}

async fn a_refusal_is_certain_that_nothing_was_done(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("released"))).await?;
    cx.store().release(&claim).await?;
    let error = expect::lost(cx.store().renew(&claim, LONG).await)?;
    ensure!(!error.is_retryable(), "asking again cannot help: {error}");
    let done = cx.claim(&cx.request(&cx.key("done"))).await?;
    cx.store()
        .complete(&done, &Response::new(200, secret("x")), LONG)
        .await?;
    let refused = cx
        .store()
        .complete(&done, &Response::new(200, secret("y")), LONG)
        .await;
    let error = expect::refused(refused, ErrorKind::AlreadySealed)?;
    ensure!(!error.is_retryable(), "asking again cannot help: {error}");
    Ok(())
}
