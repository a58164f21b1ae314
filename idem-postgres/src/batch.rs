//! Many claims or completions in one statement.

use std::collections::{HashMap, HashSet};

use idem_core::{
    ClaimOutcome, ClaimRequest, Completion, FailedPolicy, Key, Result, StalePolicy, check,
};
use sqlx::Row;

use crate::error::{Sent, decode};
use crate::operations::{Operations, Sealing, is_abandoned};
use crate::row::Columns;
use crate::session::Session;

/// Most items, and about most bytes of results, that one statement takes; larger batches take several.
const MAX_ITEMS: usize = 1_000;
const MAX_BYTES: usize = 16 << 20;

/// How often a batch is repeated after a deadlock, which completions that name the keys of a batch of claims
/// can run into.
const MAX_DEADLOCKS: u32 = 3;

type KeyParts<'k> = (&'k str, &'k str, &'k str);

fn parts(key: &Key) -> KeyParts<'_> {
    (key.scope(), key.operation(), key.id())
}

/// The positions that one statement takes: each key once, within the limits; the others are left in `pending`.
fn next_round<'k>(
    pending: &mut Vec<usize>,
    key: impl Fn(usize) -> &'k Key,
    bytes: impl Fn(usize) -> usize,
) -> Vec<usize> {
    let mut seen = HashSet::new();
    let mut size = 0;
    let (round, rest) = std::mem::take(pending).into_iter().partition(|&position| {
        let fits = seen.len() < MAX_ITEMS && (size == 0 || size + bytes(position) <= MAX_BYTES);
        let takes = fits && seen.insert(key(position));
        if takes {
            size += bytes(position);
        }
        takes
    });
    *pending = rest;
    round
}

impl Operations {
    pub(crate) async fn claim_many(
        &self,
        session: &mut Session<'_>,
        requests: &[ClaimRequest],
    ) -> Vec<Result<ClaimOutcome>> {
        let mut answers: Vec<Option<Result<ClaimOutcome>>> = Vec::new();
        answers.resize_with(requests.len(), || None);
        let mut pending = Vec::new();
        for (position, request) in requests.iter().enumerate() {
            let checked = check::batch_items(requests.len())
                .and_then(|()| check::claim(request, &self.config.limits()));
            match checked {
                Ok(_) => pending.push(position),
                Err(error) => answers[position] = Some(Err(error)),
            }
        }
        while !pending.is_empty() {
            let round = next_round(&mut pending, |position| requests[position].key(), |_| 0);
            let asked: Vec<_> = round.iter().map(|&position| &requests[position]).collect();
            match self.claim_round(session, &asked).await {
                Ok(found) => {
                    for (position, answer) in round.into_iter().zip(found) {
                        answers[position] = Some(match answer {
                            Some(outcome) if !is_abandoned(&outcome, &requests[position]) => {
                                Ok(outcome)
                            }
                            // Rare: the row changed under the statement, or is to be failed.
                            _ => self.claim(session, &requests[position]).await,
                        });
                    }
                }
                Err(error) => {
                    let each = error.for_each_item();
                    for position in round.into_iter().chain(std::mem::take(&mut pending)) {
                        answers[position] = Some(Err(each()));
                    }
                }
            }
        }
        answers.into_iter().flatten().collect()
    }

    /// One statement; an answer for each request, or none where the row changed under it.
    async fn claim_round(
        &self,
        session: &mut Session<'_>,
        requests: &[&ClaimRequest],
    ) -> Result<Vec<Option<ClaimOutcome>>> {
        let column = |part: fn(&Key) -> &str| -> Vec<&str> {
            requests.iter().map(|request| part(request.key())).collect()
        };
        let checked: Vec<_> = requests
            .iter()
            .map(|request| check::claim(request, &self.config.limits()))
            .collect::<Result<_>>()?;
        let fingerprints: Vec<_> = requests
            .iter()
            .map(|request| request.fingerprint().to_bytes().to_vec())
            .collect();
        let attempts: Vec<_> = requests
            .iter()
            .map(|request| request.attempt().as_bytes().to_vec())
            .collect();
        let mut deadlocks = 0;
        let rows = loop {
            let query = sqlx::query(self.sql.claim_many.text())
                .bind(column(Key::scope))
                .bind(column(Key::operation))
                .bind(column(Key::id))
                .bind(&fingerprints)
                .bind(&attempts)
                .bind(checked.iter().map(|claim| claim.lease).collect::<Vec<_>>())
                .bind(
                    checked
                        .iter()
                        .map(|claim| claim.retention)
                        .collect::<Vec<_>>(),
                )
                .bind(flags(requests, |request| {
                    request.on_stale() == StalePolicy::Fail
                }))
                .bind(flags(requests, |request| {
                    request.on_failed() == FailedPolicy::Retry
                }))
                .bind(
                    checked
                        .iter()
                        .map(|claim| claim.metadata.as_deref())
                        .collect::<Vec<_>>(),
                );
            match session.rows(query, Sent::Write).await {
                Err(error) if repeats(session, &error, &mut deadlocks) => {}
                rows => break rows?,
            }
        };
        let positions: HashMap<KeyParts<'_>, usize> = requests
            .iter()
            .enumerate()
            .map(|(position, request)| (parts(request.key()), position))
            .collect();
        let mut answers = vec![None; requests.len()];
        for row in &rows {
            let columns = Columns(row);
            if let Some(&position) = positions.get(&columns.key()?) {
                answers[position] = Some(columns.outcome(requests[position])?);
            }
        }
        Ok(answers)
    }

    pub(crate) async fn complete_many(
        &self,
        session: &mut Session<'_>,
        completions: &[Completion],
    ) -> Vec<Result<()>> {
        let mut answers: Vec<Option<Result<()>>> = Vec::new();
        answers.resize_with(completions.len(), || None);
        let mut sealings: Vec<Option<Sealing>> = Vec::with_capacity(completions.len());
        let mut pending = Vec::new();
        for (position, item) in completions.iter().enumerate() {
            let sealing = check::batch_items(completions.len())
                .and_then(|()| self.response(&item.response, item.retention));
            match sealing {
                Ok(sealing) => {
                    sealings.push(Some(sealing));
                    pending.push(position);
                }
                Err(error) => {
                    sealings.push(None);
                    answers[position] = Some(Err(error));
                }
            }
        }
        let bytes = |position: usize| sealings[position].as_ref().map_or(0, Sealing::len);
        while !pending.is_empty() {
            let key = |position: usize| completions[position].claim.key();
            let round = next_round(&mut pending, key, bytes);
            let items: Vec<_> = round
                .iter()
                .filter_map(|&position| {
                    let sealing = sealings[position].as_ref()?;
                    Some((&completions[position], sealing))
                })
                .collect();
            match self.complete_round(session, &items).await {
                Ok(sealed) => {
                    for ((position, sealed), (item, sealing)) in
                        round.into_iter().zip(sealed).zip(items)
                    {
                        answers[position] = Some(if sealed {
                            Ok(())
                        } else {
                            // Lost, sealed before, or sealed otherwise: the single operation tells.
                            self.seal(session, &item.claim, sealing).await
                        });
                    }
                }
                Err(error) => {
                    let each = error.for_each_item();
                    for position in round.into_iter().chain(std::mem::take(&mut pending)) {
                        answers[position] = Some(Err(each()));
                    }
                }
            }
        }
        answers.into_iter().flatten().collect()
    }

    /// One statement; whether each item was sealed by it.
    async fn complete_round(
        &self,
        session: &mut Session<'_>,
        items: &[(&Completion, &Sealing)],
    ) -> Result<Vec<bool>> {
        let column = |part: fn(&Key) -> &str| -> Vec<&str> {
            items
                .iter()
                .map(|(item, _)| part(item.claim.key()))
                .collect()
        };
        let tokens: Vec<_> = items
            .iter()
            .map(|(item, _)| item.claim.token().as_i64())
            .collect();
        let attempts: Vec<_> = items
            .iter()
            .map(|(item, _)| item.claim.attempt().as_bytes().to_vec())
            .collect();
        let results: Vec<_> = items.iter().map(|(_, sealing)| sealing.result()).collect();
        let retentions: Vec<_> = items
            .iter()
            .map(|(_, sealing)| sealing.retention())
            .collect();
        let told = |(item, _): &(&Completion, &Sealing)| item.claim.key().hashed();
        let told = self.config.announces().then(|| items.iter().map(told));
        let told: Option<Vec<_>> = told.map(Iterator::collect);
        let mut deadlocks = 0;
        let rows = loop {
            let query = sqlx::query(self.sql.complete_many.text())
                .bind(column(Key::scope))
                .bind(column(Key::operation))
                .bind(column(Key::id))
                .bind(&tokens)
                .bind(&attempts)
                .bind(&results)
                .bind(&retentions);
            let query = match &told {
                Some(told) => query.bind(told),
                None => query,
            };
            match session.rows(query, Sent::Write).await {
                Err(error) if repeats(session, &error, &mut deadlocks) => {}
                rows => break rows?,
            }
        };
        let mut sealed: HashSet<KeyParts<'_>> = HashSet::with_capacity(rows.len());
        for row in &rows {
            let text = |index| row.try_get_unchecked::<&str, usize>(index).map_err(decode);
            sealed.insert((text(0)?, text(1)?, text(2)?));
        }
        Ok(items
            .iter()
            .map(|(item, _)| sealed.contains(&parts(item.claim.key())))
            .collect())
    }
}

fn flags(requests: &[&ClaimRequest], flag: impl Fn(&ClaimRequest) -> bool) -> Vec<bool> {
    requests.iter().map(|request| flag(request)).collect()
}

/// Whether a statement that lost a race is sent again. In a caller's transaction it cannot be: the transaction
/// has failed.
fn repeats(session: &Session<'_>, error: &idem_core::Error, deadlocks: &mut u32) -> bool {
    *deadlocks += 1;
    matches!(session, Session::Pool(..))
        && error.kind() == idem_core::ErrorKind::Contention
        && *deadlocks <= MAX_DEADLOCKS
}
