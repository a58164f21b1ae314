//! Many claims or completions in one transaction: one wait for the write lock, one commit to disk.

use idem_core::{ClaimOutcome, ClaimRequest, Completion, Result, check};

use crate::operations::Operations;
use crate::session::{Pools, Session};
use crate::tx::WriteTransaction;

impl Operations {
    /// Duplicates are answered by reads first; only what may be acquired waits for the write lock.
    pub(crate) async fn claim_many(
        &self,
        pools: &Pools,
        requests: &[ClaimRequest],
    ) -> Vec<Result<ClaimOutcome>> {
        let mut answers = Vec::with_capacity(requests.len());
        let mut writes = Vec::new();
        for (position, request) in requests.iter().enumerate() {
            let held = match check::batch_items(requests.len()) {
                Ok(()) => {
                    self.held(&mut Session::Pool(pools, &self.config), request)
                        .await
                }
                Err(error) => Err(error),
            };
            if let Ok(None) = held {
                writes.push(position);
            }
            answers.push(held.transpose());
        }
        if !writes.is_empty() {
            let claimed = self.claim_in_one_commit(pools, requests, &writes).await;
            fill(&mut answers, &writes, claimed);
        }
        answers.into_iter().flatten().collect()
    }

    async fn claim_in_one_commit(
        &self,
        pools: &Pools,
        requests: &[ClaimRequest],
        writes: &[usize],
    ) -> Result<Vec<Result<ClaimOutcome>>> {
        let mut open = WriteTransaction::begin(&pools.writer, &self.config).await?;
        let mut claimed = Vec::with_capacity(writes.len());
        for &position in writes {
            let mut session = Session::Transaction(open.connection());
            claimed.push(self.claim_seen(&mut session, &requests[position]).await);
        }
        open.commit().await?;
        Ok(claimed)
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
        let mut open = WriteTransaction::begin(&pools.writer, &self.config).await?;
        let mut sealed = Vec::with_capacity(writes.len());
        for &position in writes {
            let item = &completions[position];
            let sealing = self.response(&item.response, item.retention)?;
            let mut session = Session::Transaction(open.connection());
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
