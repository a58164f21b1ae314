//! Many claims in one statement.

use futures_util::StreamExt as _;
use futures_util::stream::iter;
use idem_core::backend::check;
use idem_core::backend::check::CheckedClaim;
use idem_core::{ClaimOutcome, ClaimRequest, FailedPolicy, Key, Result, StalePolicy};

use crate::batch::{
    AT_A_TIME, Item, KeyParts, Split, may_be_anothers, next_round, parts, split, unanswered,
};
use crate::error::Access;
use crate::operations::Operations;
use crate::query::Query;
use crate::row::Columns;
use crate::session::Session;
use crate::statements::Statement;
use idem_core::backend::decision::is_abandoned;

/// Most records that one statement reads; each may come with its result.
const MAX_READS: usize = 128;

/// A claim of a batch.
struct ClaimParams<'r> {
    position: usize,
    request: &'r ClaimRequest,
    checked: CheckedClaim,
}

impl Item for ClaimParams<'_> {
    fn key(&self) -> &Key {
        self.request.key()
    }

    fn bytes(&self) -> usize {
        0
    }
}

/// An answer, or none where the row changed under the statement.
type Answers = Vec<Option<Result<ClaimOutcome>>>;

impl Operations {
    pub(crate) async fn claim_many(
        &self,
        session: &mut Session<'_>,
        requests: &[ClaimRequest],
    ) -> Vec<Result<ClaimOutcome>> {
        let mut answers = unanswered(requests.len());
        let mut pending = Vec::with_capacity(requests.len());
        for (position, request) in requests.iter().enumerate() {
            let checked = check::batch_items(requests.len())
                .and_then(|()| check::claim(request, &self.config.limits()));
            match checked {
                Ok(checked) => pending.push(ClaimParams {
                    position,
                    request,
                    checked,
                }),
                Err(error) => answers[position] = Some(Err(error)),
            }
        }
        let pending = self.read_first(session, pending, &mut answers).await;
        let Split {
            together: mut pending,
            mut apart,
            turns,
        } = split(pending, &self.locked);
        while !pending.is_empty() {
            let round = next_round(&mut pending);
            match self.claim_round(session, &round).await {
                Ok(found) => {
                    for (asked, found) in round.into_iter().zip(found) {
                        match found.filter(|found| is_settled(&asked, found)) {
                            Some(answer) => answers[asked.position] = Some(answer),
                            None => apart.push(asked),
                        }
                    }
                }
                Err(error) if may_be_anothers(&error) => apart.extend(round),
                Err(error) => {
                    let each = error.for_each_item();
                    for asked in round.into_iter().chain(std::mem::take(&mut pending)) {
                        answers[asked.position] = Some(Err(each()));
                    }
                }
            }
        }
        drop(turns);
        let claims: Vec<_> = apart
            .iter()
            .filter_map(|asked| Some(self.claim_apart(session.beside()?, asked)))
            .collect();
        let mut claims = iter(claims).buffer_unordered(AT_A_TIME);
        while let Some((position, answer)) = claims.next().await {
            answers[position] = Some(answer);
        }
        answers.into_iter().flatten().collect()
    }

    async fn claim_apart(
        &self,
        mut session: Session<'_>,
        asked: &ClaimParams<'_>,
    ) -> (usize, Result<ClaimOutcome>) {
        let claimed = self.claim_alone(&mut session, asked.request, &asked.checked);
        (asked.position, Box::pin(claimed).await)
    }

    /// Answers the claims whose records decide them, where records are expected, and returns the others. A read waits for
    /// no lock and writes nothing.
    async fn read_first<'r>(
        &self,
        session: &mut Session<'_>,
        pending: Vec<ClaimParams<'r>>,
        answers: &mut Answers,
    ) -> Vec<ClaimParams<'r>> {
        if self.expects_fresh(&pending) {
            return pending;
        }
        let (expected, mut left): (Vec<_>, Vec<_>) = pending
            .into_iter()
            .partition(|asked| self.estimator.expects_duplicate(asked.key()));
        let mut expected = expected.into_iter().peekable();
        while expected.peek().is_some() {
            let chunk: Vec<_> = expected.by_ref().take(MAX_READS).collect();
            match self.read_round(session, &chunk).await {
                Ok(found) => {
                    for (asked, found) in chunk.into_iter().zip(found) {
                        match found {
                            Some(outcome) => {
                                self.estimator.record(asked.key(), true);
                                answers[asked.position] = Some(Ok(outcome));
                            }
                            None => left.push(asked),
                        }
                    }
                }
                // A record that is damaged, perhaps: each is asked for by itself.
                Err(error) if may_be_anothers(&error) => left.extend(chunk),
                Err(error) => {
                    let each = error.for_each_item();
                    for asked in chunk.into_iter().chain(expected.by_ref()) {
                        answers[asked.position] = Some(Err(each()));
                    }
                }
            }
        }
        left
    }

    /// One statement; what each claim learns from a live record that it may not touch.
    async fn read_round(
        &self,
        session: &mut Session<'_>,
        asked: &[ClaimParams<'_>],
    ) -> Result<Vec<Option<ClaimOutcome>>> {
        let column =
            |part: fn(&Key) -> &str| -> Vec<&str> { asked.iter().map(|a| part(a.key())).collect() };
        let fingerprints = asked.iter().map(|a| a.request.fingerprint().to_bytes());
        let attempts = asked.iter().map(|a| *a.request.attempt().as_bytes());
        let query = self
            .sql
            .look_many
            .query()
            .bind(column(Key::scope))
            .bind(column(Key::operation))
            .bind(column(Key::id))
            .bind(fingerprints.collect::<Vec<_>>())
            .bind(attempts.collect::<Vec<_>>());
        let rows = session.rows(query, Access::Read).await?;
        let mut found: Vec<_> = asked.iter().map(|_| None).collect();
        for row in &rows {
            let columns = Columns(row);
            let at = usize::try_from(columns.number()? - 1).ok();
            if let Some(at) = at.filter(|&at| at < asked.len()) {
                found[at] = columns.lost(asked[at].request)?;
            }
        }
        Ok(found)
    }

    /// One statement, or two: where the traffic has taught that the keys are mostly fresh, they are inserted first,
    /// and what has a row already is left to the statement that decides everything.
    async fn claim_round(
        &self,
        session: &mut Session<'_>,
        asked: &[ClaimParams<'_>],
    ) -> Result<Answers> {
        let mut answers = unanswered(asked.len());
        if self.expects_fresh(asked) {
            self.insert_round(session, asked, &mut answers).await?;
        }
        let left: Vec<usize> = (0..asked.len())
            .filter(|&at| answers[at].is_none())
            .collect();
        if !left.is_empty() {
            let left_asked: Vec<_> = left.iter().map(|&at| &asked[at]).collect();
            match self.decide_round(session, &left_asked).await {
                Ok(found) => left
                    .into_iter()
                    .zip(found)
                    .for_each(|(at, found)| answers[at] = found),
                // What was inserted is won, whatever becomes of the others.
                Err(error) => {
                    let each = error.for_each_item();
                    left.into_iter()
                        .for_each(|at| answers[at] = Some(Err(each())));
                }
            }
        }
        for (asked, answer) in asked.iter().zip(&answers) {
            let acquired = matches!(answer, Some(Ok(ClaimOutcome::Acquired(_))));
            self.estimator.record(asked.key(), !acquired);
        }
        Ok(answers)
    }

    fn expects_fresh(&self, asked: &[ClaimParams<'_>]) -> bool {
        let duplicates = asked
            .iter()
            .filter(|asked| self.estimator.expects_duplicate(asked.key()));
        // An eighth of them costs what a second statement does, or less.
        duplicates.count() * 8 <= asked.len()
    }

    /// The claims of those keys that had no row.
    async fn insert_round(
        &self,
        session: &mut Session<'_>,
        asked: &[ClaimParams<'_>],
        answers: &mut Answers,
    ) -> Result<()> {
        let asked: Vec<_> = asked.iter().collect();
        let query = bound(&self.sql.insert_many, &asked).bind(metadata(&asked));
        let rows = session.rows(query, Access::Write).await?;
        let mut next = 0;
        for row in &rows {
            let columns = Columns(row);
            if let Some(at) = place(&asked, next, columns.inserted_key()?) {
                next = at + 1;
                answers[at] = Some(Ok(columns.inserted(asked[at].request)?));
            }
        }
        Ok(())
    }

    async fn decide_round(
        &self,
        session: &mut Session<'_>,
        asked: &[&ClaimParams<'_>],
    ) -> Result<Answers> {
        let retries = |request: &ClaimRequest| request.on_failed() == FailedPolicy::Retry;
        let query = bound(&self.sql.claim_many, asked)
            .bind(flags(asked, retries))
            .bind(metadata(asked));
        let rows = session.rows(query, Access::Write).await?;
        let mut answers = unanswered(asked.len());
        let mut next = 0;
        for row in &rows {
            let columns = Columns(row);
            if let Some(at) = place(asked, next, columns.key()?) {
                next = at + 1;
                answers[at] = Some(Ok(columns.outcome(asked[at].request)?));
            }
        }
        Ok(answers)
    }
}

/// Whether it is the item's own answer: it is asked for by itself where the record is to be failed first, and where the
/// statement has done nothing, perhaps because of another item.
fn is_settled(asked: &ClaimParams<'_>, answer: &Result<ClaimOutcome>) -> bool {
    match answer {
        Ok(outcome) => !is_abandoned(outcome, asked.request),
        Err(error) => !may_be_anothers(error),
    }
}

/// Where the key stands among those that were asked for, which are sorted; mostly it is the next one.
fn place(asked: &[&ClaimParams<'_>], next: usize, key: KeyParts<'_>) -> Option<usize> {
    if asked.get(next).is_some_and(|next| parts(next.key()) == key) {
        return Some(next);
    }
    asked
        .binary_search_by(|asked| parts(asked.key()).cmp(&key))
        .ok()
}

fn flags(asked: &[&ClaimParams<'_>], flag: impl Fn(&ClaimRequest) -> bool) -> Vec<bool> {
    asked.iter().map(|asked| flag(asked.request)).collect()
}

fn metadata<'q>(asked: &'q [&'q ClaimParams<'_>]) -> Vec<Option<&'q str>> {
    let metadata = asked.iter().map(|asked| asked.checked.metadata.as_deref());
    metadata.collect()
}

/// The statement with what both take first.
fn bound(statement: &Statement, asked: &[&ClaimParams<'_>]) -> Query {
    let column =
        |part: fn(&Key) -> &str| -> Vec<&str> { asked.iter().map(|a| part(a.key())).collect() };
    let number = |part: fn(&CheckedClaim) -> i64| -> Vec<i64> {
        asked.iter().map(|a| part(&a.checked)).collect()
    };
    let fingerprints = asked.iter().map(|a| a.request.fingerprint().to_bytes());
    let attempts = asked.iter().map(|a| *a.request.attempt().as_bytes());
    statement
        .query()
        .bind(column(Key::scope))
        .bind(column(Key::operation))
        .bind(column(Key::id))
        .bind(fingerprints.collect::<Vec<_>>())
        .bind(attempts.collect::<Vec<_>>())
        .bind(number(|checked| checked.lease))
        .bind(number(|checked| checked.retention))
        .bind(flags(asked, |request| {
            request.on_stale() == StalePolicy::Fail
        }))
}
