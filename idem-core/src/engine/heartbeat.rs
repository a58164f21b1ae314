//! [`Heartbeat`]: keeps a lease alive while the work runs.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::time::{Instant, sleep_until};

use super::context::{Context, in_time};
use super::lease::Lease;
use super::observe::LeaseLoss;
use crate::backoff::Backoff;
use crate::{Error, ErrorKind, Result};

/// A task that renews the lease at each third of it, and ends when this is dropped.
///
/// It is a task of its own, so that work that blocks its thread does not stop it where the runtime has
/// another thread. It is never aborted: a renewal that is under way is heard.
#[derive(Debug)]
pub(super) struct Heartbeat {
    _stop: oneshot::Sender<()>,
}

impl Heartbeat {
    pub(super) fn start(context: &Context, lease: Arc<Lease>) -> Self {
        let (stop, stopped) = oneshot::channel();
        let third = (context.policy.lease() / 3).max(Duration::from_millis(1));
        let beating = Beating {
            context: context.clone(),
            lease,
            third,
            stopped,
        };
        let beating = context.observers.around(beating.run());
        context.runtime.spawn(beating);
        // A worker keeps the task it spawned last for itself, where no other can steal it (Tokio's LIFO slot).
        // The next spawn pushes it out of there, so that work that blocks this thread does not block it.
        context.runtime.spawn(std::future::ready(()));
        Self { _stop: stop }
    }
}

struct Beating {
    context: Context,
    lease: Arc<Lease>,
    third: Duration,
    stopped: oneshot::Receiver<()>,
}

impl Beating {
    /// A store that is out of reach is asked until the work ends, also when the claim can no longer be
    /// assumed to be held and the work was told so: if nobody else has acquired the key meanwhile, work that
    /// cannot be stopped is so protected again.
    async fn run(mut self) {
        let mut next = earlier(self.lease.deadline(), self.third * 2);
        while self.pause_until(next).await {
            self.context.tell_expiry(&self.lease);
            let mut backoff = Backoff::new(Duration::MAX);
            let sent = loop {
                let sent = Instant::now();
                match self.renew(sent).await {
                    Ok(()) => break sent,
                    Err(error) if is_final(error.kind()) => {
                        if error.is_claim_lost() && !self.is_stopped() {
                            self.context.tell_loss(&self.lease, LeaseLoss::Overtaken);
                        }
                        return self.lease.end();
                    }
                    Err(error) => self.renews_again(&error),
                }
                tokio::select! {
                    biased;
                    _ = &mut self.stopped => return,
                    _ = backoff.pause_at_most(self.third) => {}
                }
            };
            next = sent + self.third;
        }
    }

    /// Whether what is heard now concerns nobody.
    fn is_stopped(&mut self) -> bool {
        !matches!(self.stopped.try_recv(), Err(TryRecvError::Empty))
    }

    fn renews_again(&self, error: &Error) {
        self.context.tell_expiry(&self.lease);
        self.lease
            .with_claim(|claim| self.context.observers.retried(claim.key(), "renew", error));
    }

    /// `false` when the heartbeat is to stop.
    async fn pause_until(&mut self, next: Instant) -> bool {
        tokio::select! {
            biased;
            _ = &mut self.stopped => false,
            () = sleep_until(next) => true,
        }
    }

    async fn renew(&self, sent: Instant) -> Result<()> {
        let claim = self.lease.claim();
        let lease = self.context.policy.lease();
        let renewed = in_time(self.third, "renew", self.context.store.renew(&claim, lease)).await?;
        self.lease.extend(renewed, sent);
        Ok(())
    }
}

fn earlier(instant: Instant, by: Duration) -> Instant {
    instant.checked_sub(by).unwrap_or(instant)
}

/// Whether asking again is of no use.
fn is_final(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::ClaimLost | ErrorKind::AlreadySealed | ErrorKind::InvalidInput
    )
}
