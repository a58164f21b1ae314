//! Many completions in one statement.

use futures_util::StreamExt as _;
use futures_util::stream::iter;
use idem_core::backend::check;
use idem_core::{Completion, Error, Key, Result};
use sqlx::postgres::PgRow;

use crate::batch::{AT_A_TIME, Item, Split, may_be_anothers, next_round, split, unanswered};
use crate::error::Access;
use crate::operations::Operations;
use crate::query::Query;
use crate::row::cell;
use crate::session::Session;
use idem_core::backend::FinalResult;

/// A completion of a batch.
struct ClaimParams<'c> {
    position: usize,
    completion: &'c Completion,
    sealing: FinalResult,
}

impl Item for ClaimParams<'_> {
    fn key(&self) -> &Key {
        self.completion.claim.key()
    }

    fn bytes(&self) -> usize {
        self.sealing.bytes().len()
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
                Ok(sealing) => pending.push(ClaimParams {
                    position,
                    completion,
                    sealing,
                }),
                Err(error) => answers[position] = Some(Err(error)),
            }
        }
        let Split {
            together: mut pending,
            mut apart,
            turns,
        } = split(pending, &self.locked);
        while !pending.is_empty() {
            let round = next_round(&mut pending);
            match self.complete_round(session, &round).await {
                Ok(sealed) => {
                    for (asked, sealed) in round.into_iter().zip(sealed) {
                        match sealed {
                            true => answers[asked.position] = Some(Ok(())),
                            // Lost, sealed before, or sealed otherwise: the single operation tells.
                            false => apart.push(asked),
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
        let completions: Vec<_> = apart
            .iter()
            .filter_map(|asked| Some(self.complete_apart(session.beside()?, asked)))
            .collect();
        let mut completions = iter(completions).buffer_unordered(AT_A_TIME);
        while let Some((position, answer)) = completions.next().await {
            answers[position] = Some(answer);
        }
        answers.into_iter().flatten().collect()
    }

    async fn complete_apart(
        &self,
        mut session: Session<'_>,
        asked: &ClaimParams<'_>,
    ) -> (usize, Result<()>) {
        let sealed = self.seal(&mut session, &asked.completion.claim, &asked.sealing);
        (asked.position, Box::pin(sealed).await)
    }

    /// One statement; whether each item was sealed by it.
    async fn complete_round(
        &self,
        session: &mut Session<'_>,
        asked: &[ClaimParams<'_>],
    ) -> Result<Vec<bool>> {
        let rows = session.rows(self.completing(asked), Access::Write).await?;
        let mut sealed = vec![false; asked.len()];
        for row in &rows {
            let item = place(row)?.and_then(|at| sealed.get_mut(at));
            *item.ok_or_else(|| Error::corrupt("an item that was not sent was sealed"))? = true;
        }
        Ok(sealed)
    }

    fn completing(&self, asked: &[ClaimParams<'_>]) -> Query {
        let column =
            |part: fn(&Key) -> &str| -> Vec<&str> { asked.iter().map(|a| part(a.key())).collect() };
        let tokens = asked.iter().map(|a| a.completion.claim.token().as_i64());
        let attempts = asked
            .iter()
            .map(|a| *a.completion.claim.attempt().as_bytes());
        let results = asked.iter().map(|a| a.sealing.bytes());
        let retentions = asked.iter().map(|a| a.sealing.retention());
        let query = self
            .sql
            .complete_many
            .query()
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
    let number: i64 = cell(row, 0)?;
    Ok(usize::try_from(number - 1).ok())
}
