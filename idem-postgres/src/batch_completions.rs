//! Many completions in one statement.

use idem_core::{Completion, Error, Key, Result, check};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::batch::{Item, next_round, repeats, sort, unanswered};
use crate::error::{Sent, decode};
use crate::operations::{Operations, Sealing};
use crate::session::{Query, Session};

/// A completion of a batch.
struct Asked<'c> {
    position: usize,
    completion: &'c Completion,
    sealing: Sealing,
}

impl Item for Asked<'_> {
    fn key(&self) -> &Key {
        self.completion.claim.key()
    }

    fn bytes(&self) -> usize {
        self.sealing.len()
    }
}

impl Operations {
    pub(crate) async fn complete_many(
        &self,
        session: &mut Session<'_>,
        completions: &[Completion],
    ) -> Vec<Result<()>> {
        let mut answers = unanswered(completions.len());
        let mut pending = Vec::with_capacity(completions.len());
        for (position, completion) in completions.iter().enumerate() {
            let sealing = check::batch_items(completions.len())
                .and_then(|()| self.response(&completion.response, completion.retention));
            match sealing {
                Ok(sealing) => pending.push(Asked {
                    position,
                    completion,
                    sealing,
                }),
                Err(error) => answers[position] = Some(Err(error)),
            }
        }
        sort(&mut pending);
        while !pending.is_empty() {
            let round = next_round(&mut pending);
            match self.complete_round(session, &round).await {
                Ok(sealed) => {
                    for (asked, sealed) in round.iter().zip(sealed) {
                        answers[asked.position] = Some(match sealed {
                            true => Ok(()),
                            // Lost, sealed before, or sealed otherwise: the single operation tells.
                            false => {
                                let claim = &asked.completion.claim;
                                self.seal(session, claim, &asked.sealing).await
                            }
                        });
                    }
                }
                Err(error) => {
                    let each = error.for_each_item();
                    for asked in round.into_iter().chain(std::mem::take(&mut pending)) {
                        answers[asked.position] = Some(Err(each()));
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
        asked: &[Asked<'_>],
    ) -> Result<Vec<bool>> {
        let mut deadlocks = 0;
        let rows = loop {
            match session.rows(self.completing(asked), Sent::Write).await {
                Err(error) if repeats(session, &error, &mut deadlocks) => {}
                rows => break rows?,
            }
        };
        let mut sealed = vec![false; asked.len()];
        for row in &rows {
            let item = place(row)?.and_then(|at| sealed.get_mut(at));
            *item.ok_or_else(|| Error::corrupt("an item that was not sent was sealed"))? = true;
        }
        Ok(sealed)
    }

    fn completing<'q>(&self, asked: &'q [Asked<'q>]) -> Query<'q> {
        let column =
            |part: fn(&Key) -> &str| -> Vec<&str> { asked.iter().map(|a| part(a.key())).collect() };
        let tokens = asked.iter().map(|a| a.completion.claim.token().as_i64());
        let attempts = asked
            .iter()
            .map(|a| *a.completion.claim.attempt().as_bytes());
        let results = asked.iter().map(|a| a.sealing.result());
        let retentions = asked.iter().map(|a| a.sealing.retention());
        let query = sqlx::query(self.sql.complete_many.text())
            .bind(column(Key::scope))
            .bind(column(Key::operation))
            .bind(column(Key::id))
            .bind(tokens.collect::<Vec<_>>())
            .bind(attempts.collect::<Vec<_>>())
            .bind(results.collect::<Vec<_>>())
            .bind(retentions.collect::<Vec<_>>());
        match self.config.announces() {
            true => query.bind(asked.iter().map(|a| a.key().hashed()).collect::<Vec<_>>()),
            false => query,
        }
    }
}

/// Where in the arrays the sealed item was; the server counts from one.
fn place(row: &PgRow) -> Result<Option<usize>> {
    let number: i64 = row.try_get_unchecked(0).map_err(decode)?;
    Ok(usize::try_from(number - 1).ok())
}
