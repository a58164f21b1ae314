//! [`ClaimBatcher`]: batched claims.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use idem_core::backend::{Batcher, TryTurn, Turn, check};
use idem_core::{ClaimOutcome, ClaimRequest, Result};

use crate::error::{Access, classify};
use crate::locked::TIMEOUT_FACTOR;
use crate::operations::Operations;
use crate::row::Row;
use crate::session::{Batched, Session};
use crate::statements::{self, ClaimParams};

/// Most claims of one command. The server handles them one after the other, so this bounds how long
/// one of them can delay the others.
pub(crate) const MAX_BATCH_SIZE: usize = 64;

/// Most commands that claim at a time. While they are under way, further callers wait for the next
/// one, which then has more claims.
const AT_A_TIME: usize = 2;

/// The answer to a claim in a batch.
#[derive(Debug)]
pub(crate) enum Answer {
    Decided(Result<ClaimOutcome>),
    /// It has to be sent by itself; after a write, the batch may have written it.
    Alone(Access),
}

/// Claims the keys of concurrent callers with one command.
#[derive(Clone)]
pub(crate) struct ClaimBatcher(pub(crate) Arc<Batcher<ClaimRequest, Answer>>);

impl ClaimBatcher {
    pub(crate) fn new(operations: &Arc<Operations>) -> Self {
        let operations = Arc::clone(operations);
        Self(Batcher::new(MAX_BATCH_SIZE, AT_A_TIME, move |requests| {
            let operations = Arc::clone(&operations);
            async move {
                let requests: Vec<_> = requests.iter().collect();
                operations.claim_together(&requests).await
            }
        }))
    }
}

/// A claim of a batch without an answer, at this position, with the turn of its key.
struct Open<'r> {
    position: usize,
    params: ClaimParams<'r>,
    turn: Turn,
}

impl Operations {
    /// Claims these keys with one command; returns an answer for each claim.
    ///
    /// The command is an `update` with one upsert for each claim, because only the pipeline of an
    /// update can use the server's clock: an `insertMany` would write the client's. Its answer says
    /// which documents it has inserted, and not the instants in them, so one read follows. The read
    /// proves the claims, whatever became of the command: a record in flight with an attempt's id
    /// is the claim of that attempt.
    ///
    /// A key that an open transaction holds keeps those after it waiting, so the server ends the
    /// command after [`WriteTimeout`](crate::documents::WriteTimeout). It handles the claims in
    /// order, so of those that are not written the first one has met the lock, if any has. Then the
    /// others are sent by themselves. Otherwise the server is slow, and the next command has the
    /// claims that are not written yet; so a slow server writes none twice. A command that the
    /// server does not end (see [`crate::locked`]) is left, and its late claims are taken back.
    pub(crate) async fn claim_together(&self, requests: &[&ClaimRequest]) -> Vec<Answer> {
        let mut answers: Vec<Answer> = requests
            .iter()
            .map(|_| Answer::Alone(Access::Read))
            .collect();
        // An error leaves the claims to themselves: each has its own time and its own error.
        let _ = self.claim_open(requests, &mut answers).await;
        answers
    }

    async fn claim_open(&self, requests: &[&ClaimRequest], answers: &mut [Answer]) -> Result<()> {
        let session = Session::alone(&self.config);
        let mut open = self.open(requests);
        for claim in &open {
            answers[claim.position] = Answer::Alone(Access::Write);
        }
        let is_bounded = self.has_transactions.load(Ordering::Relaxed);
        let mut within = match is_bounded {
            true => self.write_timeout.get(),
            false => session.left(),
        };
        while !open.is_empty() {
            let params = open.iter().map(|claim| &claim.params);
            let updates = params.map(statements::claim_fresh).collect();
            let records = &self.records.collection;
            let mut command = session.update_many(records, updates, within);
            let count = open.len();
            let mut patience = match is_bounded {
                true => within * 2,
                false => session.left(),
            };
            let mut held = None;
            let done = loop {
                let done = session
                    .answer(Access::Write, &mut command, patience)
                    .await?;
                self.answer_written(&mut open, answers).await?;
                if let Some(done) = done {
                    break done.map_err(|error| classify(error, Access::Write))?;
                }
                let Some(first) = open.first() else {
                    return Ok(());
                };
                let (key, position) = (first.params.request.key(), first.position);
                let is_held = self.is_held(&session, &self.records, key).await?;
                if is_held && held == Some(position) {
                    let claims = open.iter().map(|claim| &claim.params);
                    self.take_back_after(command, claims.flat_map(statements::take_back));
                    open.swap_remove(0).turn.found_locked();
                    return Ok(());
                }
                held = is_held.then_some(position);
                patience = match is_held {
                    true => within,
                    false => patience.saturating_mul(TIMEOUT_FACTOR),
                };
            };
            match done {
                Batched::Done => return Ok(()),
                Batched::Unconfirmed if within >= session.left() => return Ok(()),
                Batched::Unconfirmed => {
                    self.write_timeout.record_unconfirmed(within);
                    within = session.left();
                }
                Batched::OutOfTime => {
                    let Some(first) = open.first() else {
                        return Ok(());
                    };
                    let key = first.params.request.key();
                    if self.is_held(&session, &self.records, key).await? {
                        // Another transaction has written it, so this claim has not.
                        let locked = open.swap_remove(0);
                        answers[locked.position] = Answer::Alone(Access::Read);
                        locked.turn.found_locked();
                        return Ok(());
                    }
                    if open.len() == count {
                        within = within.saturating_mul(TIMEOUT_FACTOR);
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the claims whose keys' turns are free. The others are sent by themselves, such as a
    /// second claim of a key.
    fn open<'r>(&self, requests: &[&'r ClaimRequest]) -> Vec<Open<'r>> {
        let limits = self.config.limits();
        let numbered = requests.iter().enumerate();
        let open = numbered.filter_map(|(position, request)| {
            let params = ClaimParams::new(request, check::claim(request, &limits).ok()?);
            match self.records.locked.try_turn(request.key()) {
                TryTurn::Turn(turn) => Some(Open {
                    position,
                    params,
                    turn,
                }),
                TryTurn::Busy | TryTurn::Locked(_) => None,
            }
        });
        open.collect()
    }

    /// Reads the records of these claims, and answers those that a record decides.
    async fn answer_written(&self, open: &mut Vec<Open<'_>>, answers: &mut [Answer]) -> Result<()> {
        let ids = open.iter().map(|claim| claim.params.request.key().path());
        let mut rows = self.rows_of(ids.collect()).await?;
        open.retain(|claim| self.is_open(claim, &mut rows, answers));
        Ok(())
    }

    /// Answers the claim if the record decides it; returns whether it does not.
    fn is_open(
        &self,
        claim: &Open<'_>,
        rows: &mut HashMap<String, Row>,
        answers: &mut [Answer],
    ) -> bool {
        let key = claim.params.request.key();
        let Some(row) = rows.remove(&key.path()) else {
            return true;
        };
        let outcome = row.decided_by_batch(&claim.params);
        if let Ok(Some(outcome)) = &outcome {
            let acquired = matches!(outcome, ClaimOutcome::Acquired(_));
            self.estimator.record(key, !acquired);
        }
        let Some(outcome) = outcome.transpose() else {
            return true;
        };
        answers[claim.position] = Answer::Decided(outcome);
        false
    }
}
