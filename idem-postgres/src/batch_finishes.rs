//! The ends of many claims in one statement.

use idem_core::{Error, Finish, Key, Result};
use idem_sql::batch::{Batch, CheckedFinish, Item as _, finished, may_be_anothers};
use idem_sql::cells::Columns;
use idem_sql::operations::Operations as _;
use idem_sql::parameters::Value;

use crate::batch_claims::{AT_A_TIME, LIMITS, column};
use crate::error::Access;
use crate::operations::Operations;
use crate::query::Query;
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
            // The server counts from one.
            let index = usize::try_from(Columns::of(row).number(0)? - 1).ok();
            let item = index.and_then(|index| finished.get_mut(index));
            *item.ok_or_else(|| Error::corrupt("a claim that was not sent has ended"))? = true;
        }
        Ok(finished)
    }

    fn finishing<'q>(&'q self, items: &'q [CheckedFinish<'_>]) -> Query<'q> {
        let keys = || items.iter().map(CheckedFinish::key);
        let numbers = |number: fn(&CheckedFinish<'_>) -> i64| {
            Value::Numbers(items.iter().map(number).collect())
        };
        let attempts = items
            .iter()
            .map(|item| item.claim.attempt().as_bytes().to_vec());
        let results = items.iter().map(|item| item.result.bytes());
        let mut values = vec![
            column(keys(), Key::scope),
            column(keys(), Key::operation),
            column(keys(), Key::id),
            numbers(|item| item.claim.token().as_i64()),
            Value::ByteStrings(attempts.map(Into::into).collect()),
            numbers(|item| item.result.state()),
            Value::ByteStrings(results.map(Into::into).collect()),
            numbers(|item| item.result.retention()),
        ];
        if self.config.notifies() {
            values.push(Value::Texts(
                keys().map(|key| key.hashed().into()).collect(),
            ));
        }
        self.sql.finish_many.batch(values)
    }
}
