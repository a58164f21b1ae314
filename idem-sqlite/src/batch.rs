//! Many claims or completions in one transaction: one wait for the write lock, one commit to disk.

use idem_core::backend::check;
use idem_core::{ClaimOutcome, ClaimRequest, Completion, Result};

use crate::operations::Operations;
use crate::pools::Pools;
use crate::session::Session;
use crate::transaction::WriteTransaction;

/// An answer for each item, or none yet.
pub(crate) type Answers<T> = Vec<Option<Result<T>>>;

impl Operations {
    /// What is expected to be a duplicate is answered by a read. The rest is inserted if the write lock is free; so is what
    /// then is left, so that no duplicate waits for the lock. What may be acquired is claimed in one transaction.
    pub(crate) async fn claim_many(
        &self,
        pools: &Pools,
        requests: &[ClaimRequest],
    ) -> Vec<Result<ClaimOutcome>> {
        let checked = requests.iter().map(|request| {
            check::batch_items(requests.len())?;
            check::claim(request, &self.config.limits())
        });
        let mut answers: Answers<_> = checked.map(|checked| checked.err().map(Err)).collect();
        let (duplicates, mut writes): (Vec<_>, Vec<_>) = (0..requests.len())
            .filter(|&position| answers[position].is_none())
            .partition(|&position| self.estimator.expects_duplicate(requests[position].key()));
        let unheld = self
            .answer_held(pools, requests, duplicates, &mut answers)
            .await;
        self.insert_at_once(pools, requests, &writes, &mut answers)
            .await;
        writes.retain(|&position| answers[position].is_none());
        let mut writes = self
            .answer_held(pools, requests, writes, &mut answers)
            .await;
        writes.extend(unheld);
        if !writes.is_empty() {
            let claimed = self.claim_in_one_commit(pools, requests, &writes).await;
            fill(&mut answers, &writes, claimed);
        }
        answers.into_iter().flatten().collect()
    }

    /// Answers what a read can answer of these positions; the others.
    async fn answer_held(
        &self,
        pools: &Pools,
        requests: &[ClaimRequest],
        mut positions: Vec<usize>,
        answers: &mut Answers<ClaimOutcome>,
    ) -> Vec<usize> {
        for &position in &positions {
            let mut session = Session::Pool(pools, &self.config);
            let held = self.held(&mut session, &requests[position]).await;
            answers[position] = held.transpose();
        }
        positions.retain(|&position| answers[position].is_none());
        positions
    }

    async fn claim_in_one_commit(
        &self,
        pools: &Pools,
        requests: &[ClaimRequest],
        writes: &[usize],
    ) -> Result<Vec<Result<ClaimOutcome>>> {
        let mut open = WriteTransaction::begin(pools, &self.config).await?;
        let mut session = Session::Transaction(open.connection()?);
        let mut claimed: Answers<_> = requests.iter().map(|_| None).collect();
        self.insert_many(&mut session, requests, writes, &mut claimed)
            .await?;
        for &position in writes {
            if claimed[position].is_none() {
                let outcome = self.claim_seen(&mut session, &requests[position]).await;
                claimed[position] = Some(outcome);
            }
        }
        open.commit().await?;
        let mut take = |&position: &usize| claimed[position].take();
        Ok(writes.iter().filter_map(&mut take).collect())
    }

    pub(crate) async fn complete_many(
        &self,
        pools: &Pools,
        completions: &[Completion],
    ) -> Vec<Result<()>> {
        let mut answers = Vec::with_capacity(completions.len());
        let mut writes = Vec::new();
        for (position, item) in completions.iter().enumerate() {
            let checked = check::batch_items(completions.len())
                .and_then(|()| self.response(&item.response, item.retention));
            answers.push(match checked {
                Ok(_) => {
                    writes.push(position);
                    None
                }
                Err(error) => Some(Err(error)),
            });
        }
        if !writes.is_empty() {
            let sealed = self
                .complete_in_one_commit(pools, completions, &writes)
                .await;
            fill(&mut answers, &writes, sealed);
        }
        answers.into_iter().flatten().collect()
    }

    async fn complete_in_one_commit(
        &self,
        pools: &Pools,
        completions: &[Completion],
        writes: &[usize],
    ) -> Result<Vec<Result<()>>> {
        let mut open = WriteTransaction::begin(pools, &self.config).await?;
        let mut sealed = Vec::with_capacity(writes.len());
        for &position in writes {
            let item = &completions[position];
            let sealing = self.response(&item.response, item.retention)?;
            let mut session = Session::Transaction(open.connection()?);
            sealed.push(self.seal(&mut session, &item.claim, &sealing).await);
        }
        open.commit().await?;
        Ok(sealed)
    }
}

/// Puts the answers of the transaction at their positions; when it failed, its error at each.
fn fill<T>(answers: &mut [Option<Result<T>>], writes: &[usize], result: Result<Vec<Result<T>>>) {
    match result {
        Ok(found) => {
            for (&position, answer) in writes.iter().zip(found) {
                answers[position] = Some(answer);
            }
        }
        Err(error) => {
            let each = error.for_each_item();
            for &position in writes {
                answers[position] = Some(Err(each()));
            }
        }
    }
}
