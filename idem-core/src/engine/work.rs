//! [`Work`]: what the work knows about its run.

use std::sync::Arc;

use super::held::Held;
use super::lease::Lease;
use crate::digest::hex;
use crate::{AttemptId, Claim, FencingToken, Key, Result};

/// The argument of the work: its key, its claim, and whether it still holds the claim.
///
/// Clones share their state; give one to each task that the work spawns. When the run has ended, in
/// whatever way, the claim counts as lost, so that a task that outlives its run notices.
#[derive(Debug, Clone)]
pub struct Work(Inner);

#[derive(Debug, Clone)]
enum Inner {
    Keyed(Arc<Lease>),
    /// With a random key.
    Unkeyed(Key),
    /// In a transaction, which holds the claim.
    InTransaction(Key),
}

impl Work {
    /// Returns the work of a claim that is held.
    pub(super) fn of(held: &Held) -> Self {
        Self(Inner::Keyed(held.lease()))
    }

    /// Creates work without a key of its own; it gets a random key to derive from.
    pub(super) fn unkeyed() -> Result<Self> {
        let id = hex(AttemptId::random().as_bytes());
        Ok(Self(Inner::Unkeyed(Key::new("unkeyed", "unkeyed", id)?)))
    }

    /// Creates work whose claim is part of its transaction.
    pub(super) fn in_transaction(key: Key) -> Self {
        Self(Inner::InTransaction(key))
    }

    pub(super) fn is_in_transaction(&self) -> bool {
        matches!(self.0, Inner::InTransaction(_))
    }

    /// Returns the claim that is held; `None` without a key.
    pub(super) fn lease(&self) -> Option<&Lease> {
        match &self.0 {
            Inner::Keyed(lease) => Some(lease),
            Inner::Unkeyed(_) | Inner::InTransaction(_) => None,
        }
    }

    /// Returns the key; without one, a random key that no other run has.
    #[must_use]
    pub fn key(&self) -> &Key {
        match &self.0 {
            Inner::Keyed(lease) => lease.key(),
            Inner::Unkeyed(key) | Inner::InTransaction(key) => key,
        }
    }

    /// Returns the claim, with the end of its lease as last renewed. Seal it in a transaction
    /// together with the work's own rows, with [`Response::json`](crate::Response::json) of the
    /// value. `None` without a key, and in a transaction of the engine, which has the claim.
    #[must_use]
    pub fn claim(&self) -> Option<Claim> {
        self.lease().map(Lease::claim)
    }

    /// Returns the fencing token, to send along with writes to other systems. `None` without a key.
    #[must_use]
    pub fn token(&self) -> Option<FencingToken> {
        Some(self.lease()?.with_claim(Claim::token))
    }

    /// Returns the number of this attempt; more than 1 after a takeover or a retry of a failure.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        let attempts = |lease: &Lease| lease.with_claim(Claim::attempts);
        self.lease().map_or(1, attempts)
    }

    /// Returns whether another attempt has begun this work before, and may have done part of it.
    #[must_use]
    pub fn is_takeover(&self) -> bool {
        self.attempts() > 1
    }

    /// Derives a key for a system that the work calls, the same at every attempt: see
    /// [`Key::derive`].
    #[must_use]
    pub fn derive(&self, name: &str) -> Key {
        self.key().derive(name)
    }

    /// Lets the lease run out if the work ends with an error, as
    /// [`ErrorPolicy::LetExpire`](crate::ErrorPolicy::LetExpire) does, whatever the policy says: for
    /// work that may go on elsewhere, beside which no other attempt should begin. Does nothing
    /// without a key.
    pub fn let_expire(&self) {
        self.lease().into_iter().for_each(Lease::let_expire);
    }

    /// Returns whether the claim is lost, or can no longer be assumed to be held: the store was out
    /// of reach, or this process stopped, for longer than the lease. True also when the run has
    /// ended. Once true, it stays true. Never true without a key.
    ///
    /// Check it before each step that two attempts must not both do. It costs a read of the clock;
    /// no task has to have run in between. The clock is the process's monotonic one, which stands
    /// still while the machine sleeps: a step that must be safe even then needs the
    /// [`token`](Self::token).
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.lease().is_some_and(Lease::is_over)
    }

    /// Waits until the claim [`is_lost`](Self::is_lost): work that can be stopped selects on it.
    /// Never ends without a key.
    pub async fn lost(&self) {
        match self.lease() {
            Some(lease) => lease.over().await,
            None => std::future::pending().await,
        }
    }
}
