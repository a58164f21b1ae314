//! The ends of many claims in one statement.

use idem_core::{Error, Finish, Key, Result};
use idem_sql::batch::{Batch, CheckedFinish, Item as _, finished, may_be_anothers};
use sqlx::postgres::PgRow;

use crate::batch_claims::{AT_A_TIME, LIMITS};
use crate::error::Access;
use crate::operations::Operations;
use crate::query::Query;
use crate::row::cell;
use crate::session::Session;

impl Operations {
    pub(crate) async fn finish_many(
        &self,
        session: &mut Session<'_>,
        items: &[Finish],
    ) -> Vec<Result<()>> {
        let limits = self.config.limits();
        let mut batch = Batch::new(items, |item| CheckedFinish::new(item, &limits));
        batch.take_turns(&self.locked);
        while let Some(round) = batch.next_round(LIMITS) {
            let done = self.finish_round(session, &round.items).await;
            batch.settle(round, done.map(finished), may_be_anothers);
        }
        let apart = batch.apart();
        let ends = apart.iter().filter_map(|(position, item)| {
            Some(self.finish_apart(session.beside()?, *position, item))
        });
        batch.ask(ends.collect(), AT_A_TIME).await;
        batch.answers()
    }

    async fn finish_apart(
        &self,
        mut session: Session<'_>,
        position: usize,
        item: &CheckedFinish<'_>,
    ) -> (usize, Result<()>) {
        let finished = self.finish(&mut session, item.claim, &item.result);
        (position, Box::pin(finished).await)
    }

    /// Sends one statement; returns whether it ended each claim.
    async fn finish_round(
        &self,
        session: &mut Session<'_>,
        items: &[CheckedFinish<'_>],
    ) -> Result<Vec<bool>> {
        let rows = session.rows(self.finishing(items), Access::Write).await?;
        let mut finished = vec![false; items.len()];
        for row in &rows {
            let item = index(row)?.and_then(|index| finished.get_mut(index));
            *item.ok_or_else(|| Error::corrupt("a claim that was not sent has ended"))? = true;
        }
        Ok(finished)
    }

    fn finishing(&self, items: &[CheckedFinish<'_>]) -> Query {
        let column = |part: fn(&Key) -> &str| -> Vec<&str> {
            items.iter().map(|item| part(item.key())).collect()
        };
        let tokens = items.iter().map(|item| item.claim.token().as_i64());
        let attempts = items.iter().map(|item| *item.claim.attempt().as_bytes());
        let states = items.iter().map(|item| item.result.state());
        let results = items.iter().map(|item| item.result.bytes());
        let retentions = items.iter().map(|item| item.result.retention());
        let query = self
            .sql
            .finish_many
            .query()
            .bind(column(Key::scope))
            .bind(column(Key::operation))
            .bind(column(Key::id))
            .bind(tokens.collect::<Vec<_>>())
            .bind(attempts.collect::<Vec<_>>())
            .bind(states.collect::<Vec<_>>())
            .bind(results.collect::<Vec<_>>())
            .bind(retentions.collect::<Vec<_>>());
        match self.config.notifies() {
            true => query.bind(
                items
                    .iter()
                    .map(|item| item.key().hashed())
                    .collect::<Vec<_>>(),
            ),
            false => query,
        }
    }
}

/// Returns the index of the ended claim in the arrays; the server counts from one.
fn index(row: &PgRow) -> Result<Option<usize>> {
    let number: i64 = cell(row, 0)?;
    Ok(usize::try_from(number - 1).ok())
}
