//! Many completions in one statement.

use idem_core::{Completion, Error, Key, Result};
use idem_sql::batch::{Batch, CheckedCompletion, Item as _, may_be_anothers, sealed};
use sqlx::postgres::PgRow;

use crate::batch_claims::{AT_A_TIME, LIMITS};
use crate::error::Access;
use crate::operations::Operations;
use crate::query::Query;
use crate::row::cell;
use crate::session::Session;

impl Operations {
    pub(crate) async fn complete_many(
        &self,
        session: &mut Session<'_>,
        completions: &[Completion],
    ) -> Vec<Result<()>> {
        let limits = self.config.limits();
        let mut batch = Batch::new(completions, |item| CheckedCompletion::new(item, &limits));
        batch.take_turns(&self.locked);
        while let Some(round) = batch.next_round(LIMITS) {
            let done = self.complete_round(session, &round.items).await;
            batch.settle(round, done.map(sealed), may_be_anothers);
        }
        let apart = batch.apart();
        let completions = apart.iter().filter_map(|(position, item)| {
            Some(self.complete_apart(session.beside()?, *position, item))
        });
        batch.ask(completions.collect(), AT_A_TIME).await;
        batch.answers()
    }

    async fn complete_apart(
        &self,
        mut session: Session<'_>,
        position: usize,
        item: &CheckedCompletion<'_>,
    ) -> (usize, Result<()>) {
        let sealed = self.seal(&mut session, &item.completion.claim, &item.result);
        (position, Box::pin(sealed).await)
    }

    /// Sends one statement; returns whether it sealed each item.
    async fn complete_round(
        &self,
        session: &mut Session<'_>,
        items: &[CheckedCompletion<'_>],
    ) -> Result<Vec<bool>> {
        let rows = session.rows(self.completing(items), Access::Write).await?;
        let mut sealed = vec![false; items.len()];
        for row in &rows {
            let item = index(row)?.and_then(|index| sealed.get_mut(index));
            *item.ok_or_else(|| Error::corrupt("an item that was not sent was sealed"))? = true;
        }
        Ok(sealed)
    }

    fn completing(&self, items: &[CheckedCompletion<'_>]) -> Query {
        let column = |part: fn(&Key) -> &str| -> Vec<&str> {
            items.iter().map(|item| part(item.key())).collect()
        };
        let tokens = items
            .iter()
            .map(|item| item.completion.claim.token().as_i64());
        let attempts = items
            .iter()
            .map(|item| *item.completion.claim.attempt().as_bytes());
        let results = items.iter().map(|item| item.result.bytes());
        let retentions = items.iter().map(|item| item.result.retention());
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

/// Returns the index of the sealed item in the arrays; the server counts from one.
fn index(row: &PgRow) -> Result<Option<usize>> {
    let number: i64 = cell(row, 0)?;
    Ok(usize::try_from(number - 1).ok())
}
