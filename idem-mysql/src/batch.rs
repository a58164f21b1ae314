//! Many claims or completions in a few statements.

use std::collections::{HashMap, HashSet};

use idem_core::{ClaimOutcome, ClaimRequest, Completion, Key, Result, check};

use crate::error::Sent;
use crate::operations::{Asked, Operations, Sealing, bind_claim, bind_key};
use crate::row::{Columns, Found};
use crate::session::Session;
use crate::statements::{MAX_ITEMS, filled_up};

/// About most bytes of results that one statement takes; larger batches take several. MariaDB takes packets of 16 MiB
/// unless set otherwise.
const MAX_BYTES: usize = 4 << 20;

/// The positions that one statement takes: each key once, within the limits, in the order of keys, so that two batches
/// never wait for each other in a circle; the others are left in `pending`.
fn next_round<'k>(
    pending: &mut Vec<usize>,
    key: impl Fn(usize) -> &'k Key,
    bytes: impl Fn(usize) -> usize,
) -> Vec<usize> {
    let mut seen = HashSet::new();
    let mut size = 0;
    let (mut round, rest): (Vec<_>, _) =
        std::mem::take(pending).into_iter().partition(|&position| {
            let fits = seen.len() < MAX_ITEMS && (size == 0 || size + bytes(position) <= MAX_BYTES);
            let takes = fits && seen.insert(key(position));
            if takes {
                size += bytes(position);
            }
            takes
        });
    *pending = rest;
    round.sort_by_key(|&position| parts(key(position)));
    round
}

fn parts(key: &Key) -> (&[u8], &[u8], &[u8]) {
    (
        key.scope().as_bytes(),
        key.operation().as_bytes(),
        key.id().as_bytes(),
    )
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
                            Some(outcome) => Ok(outcome),
                            // There is a record, and it is to be taken over or failed.
                            None => self.claim(session, &requests[position]).await,
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

    /// An answer for each request, but for those that more has to be done for. Looks, inserts what is absent, and looks
    /// again at that.
    async fn claim_round(
        &self,
        session: &mut Session<'_>,
        requests: &[&ClaimRequest],
    ) -> Result<Vec<Option<ClaimOutcome>>> {
        let asked: Vec<_> = requests
            .iter()
            .map(|request| Asked::new(request, &self.config))
            .collect::<Result<_>>()?;
        let all: Vec<usize> = (0..asked.len()).collect();
        let mut answers = vec![None; asked.len()];
        let there = self
            .look_at(session, &asked, &all, false, &mut answers)
            .await?;
        let absent: Vec<usize> = all.into_iter().filter(|at| !there.contains(at)).collect();
        if absent.is_empty() {
            return Ok(answers);
        }
        let rows: Vec<_> = absent.iter().map(|&at| &asked[at]).collect();
        let (statement, size) = self.sql.insert.at_least(rows.len());
        let insert = || {
            filled_up(&rows, size).fold(sqlx::query(statement.text()), |query, row| {
                row.bind_row(query)
            })
        };
        session.write(insert).await?;
        self.look_at(session, &asked, &absent, true, &mut answers)
            .await?;
        Ok(answers)
    }

    /// Reads the records of these positions and answers what they answer; the positions that have one.
    async fn look_at(
        &self,
        session: &mut Session<'_>,
        asked: &[Asked<'_>],
        which: &[usize],
        has_written: bool,
        answers: &mut [Option<ClaimOutcome>],
    ) -> Result<HashSet<usize>> {
        let keys: HashMap<_, _> = which
            .iter()
            .map(|&at| (parts(asked[at].request.key()), at))
            .collect();
        let (statement, size) = self.sql.look_many.at_least(which.len());
        let query = || {
            filled_up(which, size).fold(sqlx::query(statement.text()), |query, &at| {
                bind_key(query, asked[at].request.key())
            })
        };
        let sent = if has_written {
            Sent::Write
        } else {
            Sent::Harmless
        };
        let rows = session.rows(query, sent).await?;
        let mut there = HashSet::new();
        for row in &rows {
            let columns = Columns(row);
            let Some(&at) = keys.get(&columns.key()?) else {
                continue;
            };
            there.insert(at);
            let request = asked[at].request;
            answers[at] = match columns.found(request)? {
                Found::Own if has_written => {
                    Some(ClaimOutcome::Acquired(columns.stored()?.claim(request)))
                }
                Found::Held => Some(columns.stored()?.loses(request)?),
                Found::Own | Found::Free | Found::Abandoned => None,
            };
        }
        Ok(there)
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
                Ok(all) => {
                    for (position, (item, sealing)) in round.into_iter().zip(items) {
                        answers[position] = Some(if all {
                            Ok(())
                        } else {
                            // One of them is lost or sealed already. Those that were sealed just now say so.
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

    /// One statement; whether all items were sealed by it.
    async fn complete_round(
        &self,
        session: &mut Session<'_>,
        items: &[(&Completion, &Sealing)],
    ) -> Result<bool> {
        let (statement, size) = self.sql.complete_many.at_least(items.len());
        let places: Vec<_> = (1..).zip(items).collect();
        let query = || {
            let rows = filled_up(&places, size).fold(
                sqlx::query(statement.text()),
                |query, (place, (item, sealing))| {
                    bind_claim(query, &item.claim)
                        .bind(sealing.retention())
                        .bind(*place)
                },
            );
            filled_up(items, size).fold(rows, |query, (_, sealing)| query.bind(sealing.result()))
        };
        Ok(session.write(query).await? == items.len() as u64)
    }
}
