//! Many claims or completions in one transaction: one wait for the write lock, one commit to disk.

use idem_core::backend::check;
use idem_core::{ClaimOutcome, ClaimRequest, Finish, Result};
use idem_sql::batch::CheckedFinish;

use crate::operations::Operations;
use crate::session::Session;

/// An answer for each item, or `None` so far.
pub(crate) type Answers<T> = Vec<Option<Result<T>>>;

impl Operations {
    /// Answers expected duplicates by a read, and inserts the rest if the write lock is free. Reads
    /// again for the claims that are left, so that no duplicate waits for the lock. Claims that may
    /// acquire their key run in one transaction.
    pub(crate) async fn claim_many(
        &self,
        session: &mut Session<'_>,
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
            .answer_held(session, requests, duplicates, &mut answers)
            .await;
        self.insert_at_once(session, requests, &writes, &mut answers)
            .await;
        writes.retain(|&position| answers[position].is_none());
        let mut writes = self
            .answer_held(session, requests, writes, &mut answers)
            .await;
        writes.extend(unheld);
        if !writes.is_empty() {
            let claimed = self.claim_in_one_commit(session, requests, &writes).await;
            fill(&mut answers, &writes, claimed);
        }
        answers.into_iter().flatten().collect()
    }

    /// Answers the claims of these positions that a read can answer; returns the other positions.
    async fn answer_held(
        &self,
        session: &mut Session<'_>,
        requests: &[ClaimRequest],
        mut positions: Vec<usize>,
        answers: &mut Answers<ClaimOutcome>,
    ) -> Vec<usize> {
        for &position in &positions {
            let held = self.held(session, &requests[position]).await;
            answers[position] = held.transpose();
        }
        positions.retain(|&position| answers[position].is_none());
        positions
    }

    async fn claim_in_one_commit(
        &self,
        session: &mut Session<'_>,
        requests: &[ClaimRequest],
        writes: &[usize],
    ) -> Result<Vec<Result<ClaimOutcome>>> {
        let mut open = session.begin().await?;
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

    pub(crate) async fn finish_many(
        &self,
        session: &mut Session<'_>,
        items: &[Finish],
    ) -> Vec<Result<()>> {
        let limits = self.config.limits();
        let checked: Vec<_> = items
            .iter()
            .map(|item| {
                check::batch_items(items.len())?;
                CheckedFinish::new(item, &limits)
            })
            .collect();
        let items: Vec<_> = checked.iter().flatten().collect();
        let finished = match items.is_empty() {
            true => Ok(Vec::new()),
            false => self.finish_in_one_commit(session, &items).await,
        };
        let writes: Vec<_> = (0..checked.len())
            .filter(|&position| checked[position].is_ok())
            .collect();
        let mut answers: Answers<()> = checked
            .into_iter()
            .map(|checked| checked.err().map(Err))
            .collect();
        fill(&mut answers, &writes, finished);
        answers.into_iter().flatten().collect()
    }

    async fn finish_in_one_commit(
        &self,
        session: &mut Session<'_>,
        items: &[&CheckedFinish<'_>],
    ) -> Result<Vec<Result<()>>> {
        let mut open = session.begin().await?;
        let mut session = Session::Transaction(open.connection()?);
        let mut finished = Vec::with_capacity(items.len());
        for item in items {
            let ended = self.finish(&mut session, item.claim, &item.result);
            finished.push(ended.await);
        }
        open.commit().await?;
        Ok(finished)
    }
}

/// Puts the answers of the transaction at their positions, or its error at each.
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
