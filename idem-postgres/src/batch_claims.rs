//! Many claims in one statement.

use idem_core::backend::check::CheckedClaim;
use idem_core::backend::decision::is_abandoned;
use idem_core::{ClaimOutcome, ClaimRequest, FailedPolicy, Key, Result, StalePolicy};
use idem_sql::batch::{Batch, Item as _, RoundLimits, may_be_anothers};
use idem_sql::cells::Columns;
use idem_sql::claim::ClaimParams;
use idem_sql::parameters::Value;

use crate::error::Access;
use crate::operations::Operations;
use crate::row;
use crate::session::Session;

/// The limits of one statement, in bytes of results; larger batches take several statements.
pub(crate) const LIMITS: RoundLimits = RoundLimits {
    items: 1_000,
    bytes: 16 << 20,
    beside: |_| 0,
};

/// The most records that one statement reads; each may come with its result.
const MAX_READS: usize = 128;

/// How many items that are sent one by one are under way at a time.
pub(crate) const AT_A_TIME: usize = 8;

type KeyParts<'k> = (&'k str, &'k str, &'k str);

/// The parts of a key in the order in which the keys of a statement, and [`Key`]s, are sorted: byte
/// by byte, as in the server's collation "C".
fn parts(key: &Key) -> KeyParts<'_> {
    (key.scope(), key.operation(), key.id())
}

/// The answers; `None` where the row changed under the statement.
type Answers = Vec<Option<Result<ClaimOutcome>>>;

fn unanswered(items: usize) -> Answers {
    std::iter::repeat_with(|| None).take(items).collect()
}

impl Operations {
    pub(crate) async fn claim_many(
        &self,
        session: &mut Session<'_>,
        requests: &[ClaimRequest],
    ) -> Vec<Result<ClaimOutcome>> {
        let limits = self.config.limits();
        let mut batch = Batch::new(requests, |request| ClaimParams::new(request, &limits));
        self.read_first(session, &mut batch).await;
        batch.take_turns(&self.locked);
        while let Some(round) = batch.next_round(LIMITS) {
            let answers = self.claim_round(session, &round.items).await;
            let answers = answers.map(|answers| {
                let each = round.items.iter().zip(answers);
                let settled = |(claim, answer): (&ClaimParams<'_>, Option<_>)| {
                    answer.filter(|answer| is_settled(claim, answer))
                };
                each.map(settled).collect()
            });
            batch.settle(round, answers, may_be_anothers);
        }
        let apart = batch.apart();
        let claims = apart.iter().filter_map(|(position, claim)| {
            Some(self.claim_apart(session.beside()?, *position, claim))
        });
        batch.ask(claims.collect(), AT_A_TIME).await;
        batch.answers()
    }

    async fn claim_apart(
        &self,
        mut session: Session<'_>,
        position: usize,
        claim: &ClaimParams<'_>,
    ) -> (usize, Result<ClaimOutcome>) {
        let claimed = self.claim_alone(&mut session, claim);
        (position, Box::pin(claimed).await)
    }

    /// Answers the claims that a read of their records decides, where records are expected. A read
    /// waits for no lock and writes nothing.
    async fn read_first(
        &self,
        session: &mut Session<'_>,
        batch: &mut Batch<ClaimParams<'_>, ClaimOutcome>,
    ) {
        if self.expects_fresh(batch.pending()) {
            return;
        }
        let mut expected = batch.take(|claim| self.estimator.expects_duplicate(claim.key()));
        let mut left = Vec::new();
        while !expected.is_empty() {
            let rest = expected.split_off(MAX_READS.min(expected.len()));
            let chunk = std::mem::replace(&mut expected, rest);
            match self.read_round(session, &chunk).await {
                Ok(found) => {
                    for ((position, claim), outcome) in chunk.into_iter().zip(found) {
                        match outcome {
                            Some(outcome) => {
                                self.estimator.record(claim.key(), true);
                                batch.answer(position, Ok(outcome));
                            }
                            None => left.push((position, claim)),
                        }
                    }
                }
                // A record may be damaged: each claim is sent alone.
                Err(error) if may_be_anothers(&error) => left.extend(chunk),
                Err(error) => {
                    let each = error.for_each_item();
                    for (position, _) in chunk.into_iter().chain(expected.drain(..)) {
                        batch.answer(position, Err(each()));
                    }
                }
            }
        }
        batch.put_back(left);
    }

    /// Sends one read; returns the outcome of each claim that meets a live record which it must not
    /// touch.
    async fn read_round(
        &self,
        session: &mut Session<'_>,
        claims: &[(usize, ClaimParams<'_>)],
    ) -> Result<Vec<Option<ClaimOutcome>>> {
        let requests: Vec<_> = claims.iter().map(|(_, claim)| claim.request).collect();
        let query = self.sql.lookup_many.batch(named(&requests));
        let rows = session.rows(query, Access::Read).await?;
        let mut found: Vec<_> = claims.iter().map(|_| None).collect();
        for row in &rows {
            let columns = Columns::of(row);
            // The server counts from one.
            let index = usize::try_from(columns.number(Columns::AFTER)? - 1).ok();
            if let Some((index, (_, claim))) = index.and_then(|at| Some((at, claims.get(at)?))) {
                found[index] = row::lost(columns, claim.request)?;
            }
        }
        Ok(found)
    }

    /// Sends one statement, or two. Where the estimator expects fresh keys, the claims are inserted
    /// first, and those whose key has a row go to the statement that decides everything.
    async fn claim_round(
        &self,
        session: &mut Session<'_>,
        claims: &[ClaimParams<'_>],
    ) -> Result<Answers> {
        let mut answers = unanswered(claims.len());
        if self.expects_fresh(claims.iter()) {
            self.insert_round(session, claims, &mut answers).await?;
        }
        let left: Vec<usize> = (0..claims.len())
            .filter(|&at| answers[at].is_none())
            .collect();
        if !left.is_empty() {
            let left_claims: Vec<_> = left.iter().map(|&at| &claims[at]).collect();
            match self.decide_round(session, &left_claims).await {
                Ok(found) => left
                    .into_iter()
                    .zip(found)
                    .for_each(|(at, found)| answers[at] = found),
                // The inserted claims are won, whatever happens to the others.
                Err(error) => {
                    let each = error.for_each_item();
                    left.into_iter()
                        .for_each(|at| answers[at] = Some(Err(each())));
                }
            }
        }
        for (claim, answer) in claims.iter().zip(&answers) {
            let acquired = matches!(answer, Some(Ok(ClaimOutcome::Acquired(_))));
            self.estimator.record(claim.key(), !acquired);
        }
        Ok(answers)
    }

    fn expects_fresh<'c>(
        &self,
        claims: impl ExactSizeIterator<Item = &'c ClaimParams<'c>>,
    ) -> bool {
        let all = claims.len();
        let duplicates = claims.filter(|claim| self.estimator.expects_duplicate(claim.key()));
        // Up to an eighth of duplicates cost no more than a second statement.
        duplicates.count() * 8 <= all
    }

    /// Claims the keys that have no row.
    async fn insert_round(
        &self,
        session: &mut Session<'_>,
        claims: &[ClaimParams<'_>],
        answers: &mut Answers,
    ) -> Result<()> {
        let claims: Vec<_> = claims.iter().collect();
        let mut values = bound(&claims);
        values.push(metadata(&claims));
        let query = self.sql.insert_many.batch(values);
        let rows = session.rows(query, Access::Write).await?;
        let mut next = 0;
        for row in &rows {
            let columns = Columns::of(row);
            if let Some(at) = index_of(&claims, next, row::key(columns, 2)?) {
                next = at + 1;
                let claim = claims[at].inserted(columns.number(0)?);
                answers[at] = Some(Ok(ClaimOutcome::Acquired(claim)));
            }
        }
        Ok(())
    }

    async fn decide_round(
        &self,
        session: &mut Session<'_>,
        claims: &[&ClaimParams<'_>],
    ) -> Result<Answers> {
        let retries = |request: &ClaimRequest| request.on_failed() == FailedPolicy::Retry;
        let mut values = bound(claims);
        values.push(flags(claims, retries));
        values.push(metadata(claims));
        let query = self.sql.claim_many.batch(values);
        let rows = session.rows(query, Access::Write).await?;
        let mut answers = unanswered(claims.len());
        let mut next = 0;
        for row in &rows {
            let columns = Columns::of(row);
            if let Some(at) = index_of(claims, next, row::key(columns, Columns::AFTER)?) {
                next = at + 1;
                answers[at] = Some(Ok(columns.outcome(claims[at].request)?));
            }
        }
        Ok(answers)
    }
}

/// Returns whether this is the item's own answer. The item is sent alone where its record has to be
/// failed first, and where the statement had no effect, perhaps because of another item.
fn is_settled(claim: &ClaimParams<'_>, answer: &Result<ClaimOutcome>) -> bool {
    match answer {
        Ok(outcome) => !is_abandoned(outcome, claim.request),
        Err(error) => !may_be_anothers(error),
    }
}

/// Returns the index of the key among the claims, which are sorted; mostly it is the next one.
fn index_of(claims: &[&ClaimParams<'_>], next: usize, key: KeyParts<'_>) -> Option<usize> {
    if claims
        .get(next)
        .is_some_and(|next| parts(next.key()) == key)
    {
        return Some(next);
    }
    claims
        .binary_search_by(|claim| parts(claim.key()).cmp(&key))
        .ok()
}

/// Returns a column of keys' parts.
pub(crate) fn column<'k>(keys: impl Iterator<Item = &'k Key>, part: fn(&Key) -> &str) -> Value<'k> {
    Value::Texts(keys.map(|key| part(key).into()).collect())
}

fn flags<'q>(claims: &[&ClaimParams<'_>], flag: impl Fn(&ClaimRequest) -> bool) -> Value<'q> {
    Value::Flags(claims.iter().map(|claim| flag(claim.request)).collect())
}

fn metadata<'q>(claims: &[&'q ClaimParams<'_>]) -> Value<'q> {
    let metadata = claims.iter().map(|claim| claim.checked.metadata.as_deref());
    Value::OptionalTexts(metadata.collect())
}

/// Returns the values that all statements about claims take first: keys, fingerprints, attempts.
fn named<'q>(requests: &[&'q ClaimRequest]) -> Vec<Value<'q>> {
    let keys = || requests.iter().map(|request| request.key());
    let fingerprints = requests
        .iter()
        .map(|request| request.fingerprint().to_bytes().to_vec());
    let attempts = requests
        .iter()
        .map(|request| request.attempt().as_bytes().to_vec());
    vec![
        column(keys(), Key::scope),
        column(keys(), Key::operation),
        column(keys(), Key::id),
        Value::ByteStrings(fingerprints.map(Into::into).collect()),
        Value::ByteStrings(attempts.map(Into::into).collect()),
    ]
}

/// Returns the values that both statements which write take first.
fn bound<'q>(claims: &[&'q ClaimParams<'_>]) -> Vec<Value<'q>> {
    let number = |part: fn(&CheckedClaim) -> i64| {
        Value::Numbers(claims.iter().map(|claim| part(&claim.checked)).collect())
    };
    let fails = |request: &ClaimRequest| request.on_stale() == StalePolicy::Fail;
    let requests: Vec<_> = claims.iter().map(|claim| claim.request).collect();
    let mut values = named(&requests);
    values.extend([
        number(|checked| checked.lease),
        number(|checked| checked.retention),
        flags(claims, fails),
    ]);
    values
}
