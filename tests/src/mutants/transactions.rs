//! Callers' transactions on a mutant, and what others see of an open one.

use std::time::Duration;

use async_trait::async_trait;
use idem_core::backend::LockedKeys;
use idem_core::{BoxError, Claim, ClaimOutcome, ClaimRequest, Error, Key, Response, Result};

use super::row::{Held, State};
use super::store::Shared;
use super::{Bug, MutantStore};
use crate::CallerTransaction;

/// How many calls a store makes at a time, for [`Bug::WaitsForTransactions`].
const CONNECTIONS: usize = 10;

impl MutantStore {
    /// Returns the committed row of the key, if an open transaction holds it and this store
    /// notices.
    fn held(&self, key: &Key) -> Option<Held> {
        match self.bug {
            Bug::IgnoresTransactions => None,
            _ => self.shared().held.get(&self.key(key)).cloned(),
        }
    }

    /// Returns whether a claim may proceed, or its answer while an open transaction holds the key.
    pub(super) async fn beside_transactions(
        &self,
        request: &ClaimRequest,
    ) -> Option<Result<ClaimOutcome>> {
        if self.bug == Bug::WaitsForTransactions {
            self.wait_on_a_connection(request.key()).await;
        }
        let committed = self.held(request.key())?;
        let Some(row) = committed else {
            return Some(Err(LockedKeys::error()));
        };
        // The committed row answers what a read can; the transaction decides the rest.
        let alone = MutantStore::new(self.bug);
        let mut rows = Shared::default();
        rows.rows.insert(self.key(request.key()), row);
        alone.replace(rows);
        match alone.claim_now(request) {
            ClaimOutcome::Acquired(_) => Some(Err(LockedKeys::error())),
            outcome => Some(Ok(outcome)),
        }
    }

    /// Waits for the end of the transaction and keeps one of few connections busy.
    async fn wait_on_a_connection(&self, key: &Key) {
        const PAUSE: Duration = Duration::from_millis(1);
        while self.shared().waiting >= CONNECTIONS {
            tokio::time::sleep(PAUSE).await;
        }
        self.shared().waiting += 1;
        let _waits = Waits(self);
        while self.held(key).is_some() {
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Refuses a step of a claim whose key an open transaction holds.
    pub(super) fn step_beside_transactions(&self, claim: &Claim) -> Result<()> {
        match self.held(claim.key()) {
            Some(_) if self.bug == Bug::LosesBesideTransactions => Err(Error::claim_lost()),
            Some(_) => Err(LockedKeys::error()),
            None => Ok(()),
        }
    }

    /// Returns the committed row of the key.
    pub(super) fn committed(&self, shared: &Shared, key: &[String]) -> Held {
        let held = shared.held.get(key);
        held.cloned()
            .unwrap_or_else(|| shared.rows.get(key).cloned())
    }
}

struct Waits<'s>(&'s MutantStore);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.shared().waiting -= 1;
    }
}

/// An open transaction. Its rows are in the store, and the committed ones are kept until it ends.
#[derive(Debug)]
pub(super) struct Transaction {
    store: MutantStore,
    holds: Vec<Vec<String>>,
}

impl Transaction {
    pub(super) fn begin(store: MutantStore) -> Self {
        Self {
            store,
            holds: Vec::new(),
        }
    }

    /// Locks the key; `false` when another transaction holds it.
    fn lock(&mut self, key: &Key) -> bool {
        let key = self.store.key(key);
        if self.holds.contains(&key) {
            return true;
        }
        let shared = &mut *self.store.shared();
        if shared.held.contains_key(&key) && self.store.bug != Bug::IgnoresTransactions {
            return false;
        }
        shared
            .held
            .insert(key.clone(), shared.rows.get(&key).cloned());
        self.holds.push(key);
        true
    }

    fn end(&mut self, commits: bool) {
        let shared = &mut *self.store.shared();
        for key in self.holds.drain(..) {
            match (shared.held.remove(&key), commits) {
                (Some(Some(row)), false) => drop(shared.rows.insert(key, row)),
                (Some(None), false) => drop(shared.rows.remove(&key)),
                _ => {}
            }
        }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.end(false);
    }
}

#[async_trait]
impl CallerTransaction for Transaction {
    async fn claim(&mut self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        match self.lock(request.key()) {
            true => Ok(self.store.claim_now(request)),
            false => Err(LockedKeys::error()),
        }
    }

    async fn complete(
        &mut self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        if !self.lock(claim.key()) {
            return Err(LockedKeys::error());
        }
        let state = State::Completed(response.clone(), 0);
        self.store.seal(claim, state, retention)
    }

    async fn commit(mut self: Box<Self>) -> Result<(), BoxError> {
        self.end(true);
        Ok(())
    }

    async fn rollback(mut self: Box<Self>) -> Result<(), BoxError> {
        self.end(false);
        Ok(())
    }
}
