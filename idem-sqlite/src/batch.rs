//! Many claims or completions in one transaction: one wait for the write lock, one commit to disk.

use idem_core::backend::check;
use idem_core::{ClaimOutcome, ClaimRequest, Finish, Result};
use idem_sql::batch::{CheckedFinish, Item as _};
use idem_sql::claim::ClaimParams;
use idem_sql::operations::Operations as _;

use crate::drivers::on;
use crate::operations::Operations;
use crate::session::Session;

/// A claim, and the position of its answer.
pub(crate) type Claim<'r> = (usize, ClaimParams<'r>);

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
        let limits = self.config.limits();
        let mut answers: Answers<_> = requests.iter().map(|_| None).collect();
        let mut claims = Vec::with_capacity(requests.len());
        for (position, request) in requests.iter().enumerate() {
            let checked = check::batch_items(requests.len());
            match checked.and_then(|()| ClaimParams::new(request, &limits)) {
                Ok(params) => claims.push((position, params)),
                Err(error) => answers[position] = Some(Err(error)),
            }
        }
        let is_duplicate = |claim: &&Claim<'_>| self.estimator.expects_duplicate(claim.1.key());
        let (duplicates, writes): (Vec<_>, Vec<_>) = claims.iter().partition(is_duplicate);
        let unheld = self.answer_held(session, duplicates, &mut answers).await;
        self.insert_at_once(session, &writes, &mut answers).await;
        let mut writes = self.answer_held(session, writes, &mut answers).await;
        writes.extend(unheld);
        if !writes.is_empty() {
            let claimed = self.claim_in_one_commit(session, &writes, &answers).await;
            let positions: Vec<_> = writes.iter().map(|(position, _)| *position).collect();
            fill(&mut answers, &positions, claimed);
        }
        answers.into_iter().flatten().collect()
    }

    /// Answers the claims that a read can answer and that have no answer yet; returns the others.
    async fn answer_held<'c>(
        &self,
        session: &mut Session<'_>,
        mut claims: Vec<&'c Claim<'c>>,
        answers: &mut Answers<ClaimOutcome>,
    ) -> Vec<&'c Claim<'c>> {
        claims.retain(|(position, _)| answers[*position].is_none());
        for (position, params) in &claims {
            answers[*position] = self.held(session, params).await.transpose();
        }
        claims.retain(|(position, _)| answers[*position].is_none());
        claims
    }

    async fn claim_in_one_commit(
        &self,
        session: &mut Session<'_>,
        claims: &[&Claim<'_>],
        answers: &Answers<ClaimOutcome>,
    ) -> Result<Vec<Result<ClaimOutcome>>> {
        let mut open = session.begin().await?;
        let mut session = Session::Transaction(on(open.connection()?));
        let mut claimed: Answers<_> = answers.iter().map(|_| None).collect();
        self.insert_many(&mut session, claims, &mut claimed).await?;
        for (position, params) in claims {
            if claimed[*position].is_none() {
                // The transaction has the write lock: the write comes first, and the record is read
                // where it acquires nothing.
                let outcome = self.claim_with(&mut session, params, true).await;
                claimed[*position] = Some(outcome);
            }
        }
        drop(session);
        open.commit().await?;
        let mut take = |claim: &&Claim<'_>| claimed[claim.0].take();
        Ok(claims.iter().filter_map(&mut take).collect())
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
        let mut session = Session::Transaction(on(open.connection()?));
        let mut finished = Vec::with_capacity(items.len());
        for item in items {
            let ended = self.finish(&mut session, item.claim, &item.result);
            finished.push(ended.await);
        }
        drop(session);
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
