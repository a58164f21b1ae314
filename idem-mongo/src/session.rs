//! Where a statement runs: in the store's own session, or in the caller's transaction.

use std::future::{Future, IntoFuture};
use std::time::Duration;

use futures_util::TryStreamExt;
use idem_core::{Effect, Error, ErrorKind, Result};
use mongodb::bson::{Document, doc, serialize_to_bson};
use mongodb::error::Error as MongoError;
use mongodb::options::{FindOneAndUpdateOptions, ReturnDocument};
use mongodb::{ClientSession, Collection};
use tokio::time::{Instant, timeout_at};

use crate::config::Config;
use crate::error::{
    Access, classify, is_lost_race, is_out_of_time, is_unconfirmed, is_unconfirmed_answer,
};

/// How often an operation is repeated after a statement that lost a race (11000, 112) or found the
/// record changed. Each time another caller has made progress, so more than a few retries are a
/// sign of trouble.
pub(crate) const MAX_RETRIES: u32 = 16;

/// The longest pause before the last retry; the first is a sixteenth of it.
const MAX_PAUSE: Duration = Duration::from_millis(32);

/// Runs the statements of one operation, all within its time limit.
#[derive(Debug)]
pub(crate) struct Session<'s> {
    transaction: Option<&'s mut ClientSession>,
    deadline: Instant,
    timeout: Duration,
}

/// An update of one document.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) filter: Document,
    pub(crate) update: Vec<Document>,
    /// Whether a document is inserted when the filter finds none.
    pub(crate) upsert: bool,
}

/// The result of an update of one document by its key.
#[derive(Debug)]
pub(crate) enum Changed {
    /// The document after the update.
    Document(Document),
    /// The server answered without a document: the filter found none. No `mongod` answers so after
    /// an upsert, but compatible servers do when a claim loses a race, so the effect is unknown
    /// then.
    Nothing,
    /// The update lost a race and was undone; only outside a transaction.
    LostRace,
    /// Another caller of this process has just written this key, so the update was not sent.
    AfterAnother,
}

/// The result of an update with a time limit at the server.
#[derive(Debug)]
pub(crate) enum Tried {
    Changed(Changed),
    /// The server ended it before it wrote.
    OutOfTime,
    /// The document is written, but not yet confirmed as the write concern requires.
    Unconfirmed,
}

/// What became of an update of many documents. Which of them are written, a read shows.
#[derive(Debug)]
pub(crate) enum Batched {
    /// The server has handled each of them, perhaps with errors for some.
    Done,
    /// As for [`Tried`]; some of them may be written.
    OutOfTime,
    /// As for [`Tried`].
    Unconfirmed,
}

impl<'s> Session<'s> {
    pub(crate) fn alone(config: &Config) -> Self {
        Self {
            transaction: None,
            deadline: Instant::now() + config.timeout(),
            timeout: config.timeout(),
        }
    }

    pub(crate) fn in_transaction(session: &'s mut ClientSession, config: &Config) -> Self {
        Self {
            transaction: Some(session),
            ..Self::alone(config)
        }
    }

    /// Returns the documents that a pipeline of reads finds.
    pub(crate) async fn read(
        &mut self,
        collection: &Collection<Document>,
        pipeline: Vec<Document>,
        sent: Access,
    ) -> Result<Vec<Document>> {
        let left = self.left();
        let found = match &mut self.transaction {
            Some(session) => {
                let reading = async {
                    let aggregate = collection.aggregate(pipeline).session(&mut **session);
                    let mut cursor = aggregate.await?;
                    let mut found = Vec::new();
                    while let Some(document) = cursor.next(session).await {
                        found.push(document?);
                    }
                    Ok(found)
                };
                in_time(self.deadline, self.timeout, sent, reading).await
            }
            None => {
                let collection = collection.clone();
                self.by_itself(sent, async move {
                    let aggregate = collection.aggregate(pipeline).max_time(left);
                    aggregate.await?.try_collect().await
                })
                .await
            }
        };
        found?.map_err(|error| classify(error, sent))
    }

    /// Returns what `keep` makes of each document that a pipeline of reads finds, outside a
    /// transaction. It keeps no more documents in memory than the server sends at once.
    pub(crate) async fn read_each<T: Send + 'static>(
        &self,
        collection: &Collection<Document>,
        pipeline: Vec<Document>,
        keep: fn(Document) -> T,
    ) -> Result<Vec<T>> {
        let (collection, left) = (collection.clone(), self.left());
        let found = self.by_itself(Access::Read, async move {
            let mut cursor = collection.aggregate(pipeline).max_time(left).await?;
            let mut found = Vec::new();
            while let Some(document) = cursor.try_next().await? {
                found.push(keep(document));
            }
            Ok(found)
        });
        found.await?.map_err(|error| classify(error, Access::Read))
    }

    /// Updates the document that the filter finds, or inserts one if `upsert`, and returns it as it
    /// is then, without result and checkpoint.
    pub(crate) async fn change(
        &mut self,
        collection: &Collection<Document>,
        change: Change,
    ) -> Result<Changed> {
        let left = self.left();
        let changed = match &mut self.transaction {
            Some(session) => {
                let changing = collection
                    .find_one_and_update(change.filter, change.update)
                    .with_options(options(change.upsert, None))
                    .session(&mut **session)
                    .into_future();
                in_time(self.deadline, self.timeout, Access::Write, changing).await?
            }
            None => {
                let collection = collection.clone();
                self.by_itself(Access::Write, async move {
                    let changing = collection.find_one_and_update(change.filter, change.update);
                    changing
                        .with_options(options(change.upsert, Some(left)))
                        .await
                })
                .await?
            }
        };
        match changed {
            Err(error) if self.is_in_transaction() => Err(classify(error, Access::Write)),
            changed => into_changed(changed),
        }
    }

    /// Updates as [`change`](Self::change) does, in a session of the store's own, outside a
    /// transaction. The server ends the update after `within`.
    pub(crate) async fn try_change(
        &self,
        collection: &Collection<Document>,
        change: Change,
        within: Duration,
        mut own: ClientSession,
    ) -> Result<(ClientSession, Tried)> {
        let (collection, left) = (collection.clone(), self.left());
        let is_bounded = within < left;
        let tried = self.by_itself(Access::Write, async move {
            let changing = collection
                .find_one_and_update(change.filter, change.update)
                .with_options(options(change.upsert, Some(within.min(left))))
                .session(&mut own)
                .await;
            Ok((own, changing))
        });
        let (own, changed) = match tried.await? {
            Ok(done) => done,
            Err(error) => return Err(classify(error, Access::Write)),
        };
        let tried = match changed {
            Err(error) if is_bounded && is_out_of_time(&error) => Tried::OutOfTime,
            Err(error) if is_bounded && is_unconfirmed(&error) => Tried::Unconfirmed,
            changed => Tried::Changed(into_changed(changed)?),
        };
        Ok((own, tried))
    }

    /// Runs an `update` command with these statements, which the server ends after `within`. A
    /// statement that fails keeps no other from being done. The driver does not repeat the command.
    pub(crate) async fn update_many(
        &self,
        collection: &Collection<Document>,
        updates: Vec<Document>,
        within: Duration,
    ) -> Result<Batched> {
        let mut command =
            doc! { "update": collection.name(), "updates": updates, "ordered": false };
        let within = within.min(self.left()).as_millis();
        command.insert("maxTimeMS", i64::try_from(within).unwrap_or(i64::MAX));
        if let Some(concern) = collection.write_concern() {
            let concern = serialize_to_bson(concern);
            let concern = concern.map_err(|error| classify(error.into(), Access::Read))?;
            command.insert("writeConcern", concern);
        }
        let database = collection.client().database(&collection.namespace().db);
        let done = async move { database.run_command(command).await };
        match self.by_itself(Access::Write, done).await? {
            Ok(answer) if is_unconfirmed_answer(&answer) => Ok(Batched::Unconfirmed),
            Ok(_) => Ok(Batched::Done),
            Err(error) if is_out_of_time(&error) => Ok(Batched::OutOfTime),
            Err(error) => Err(classify(error, Access::Write)),
        }
    }

    pub(crate) fn is_in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// Repeats a statement that lost a race.
    pub(crate) async fn again<T, F>(&self, statement: impl Fn() -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, MongoError>> + Send + 'static,
    {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.by_itself(Access::Write, statement()).await? {
                Ok(done) => return Ok(done),
                Err(error) if is_lost_race(&error) && tries < MAX_RETRIES => pause(tries).await,
                Err(error) => return Err(classify(error, Access::Write)),
            }
        }
    }

    /// Runs a future of the driver in a task of its own, because a dropped one closes its
    /// connection (<https://docs.rs/mongodb/latest/mongodb/#warning-about-timeouts--cancellation>).
    /// The task goes on when the operation's time is over or no caller waits for it any more.
    pub(crate) async fn by_itself<T: Send + 'static>(
        &self,
        sent: Access,
        statement: impl Future<Output = Result<T, MongoError>> + Send + 'static,
    ) -> Result<Result<T, MongoError>> {
        let task = tokio::spawn(statement);
        match timeout_at(self.deadline, task).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(failed)) => {
                let failed = Error::new(
                    ErrorKind::Other,
                    effect(sent),
                    "the driver's task ended early",
                )
                .with_source(failed);
                Err(failed)
            }
            Err(_) => Err(sent.timed_out(self.timeout)),
        }
    }

    /// Waits for a batch, at most until the operation's time is over.
    pub(crate) async fn wait_for<T>(
        &self,
        sent: Access,
        batch: impl Future<Output = T> + Send,
    ) -> Result<T> {
        let answer = timeout_at(self.deadline, batch).await;
        answer.map_err(|_| sent.timed_out(self.timeout))
    }

    /// Returns the remaining time of the operation, for the server; never zero, which would mean no
    /// limit.
    pub(crate) fn left(&self) -> Duration {
        self.deadline
            .saturating_duration_since(Instant::now())
            .max(Duration::from_millis(1))
    }
}

fn options(upsert: bool, within: Option<Duration>) -> FindOneAndUpdateOptions {
    FindOneAndUpdateOptions::builder()
        .upsert(upsert)
        .return_document(ReturnDocument::After)
        .projection(doc! { "result": 0, "checkpoint": 0 })
        .max_time(within)
        .build()
}

/// Converts the answer to a statement outside a transaction, which may be repeated alone after a
/// lost race.
fn into_changed(changed: Result<Option<Document>, MongoError>) -> Result<Changed> {
    match changed {
        Ok(Some(document)) => Ok(Changed::Document(document)),
        Ok(None) => Ok(Changed::Nothing),
        Err(error) if is_lost_race(&error) => Ok(Changed::LostRace),
        Err(error) => Err(classify(error, Access::Write)),
    }
}

/// Waits for a statement of a transaction until the deadline. An abandoned statement closes the
/// connection, which ends the transaction.
async fn in_time<T>(
    deadline: Instant,
    timeout: Duration,
    sent: Access,
    statement: impl Future<Output = Result<T, MongoError>> + Send,
) -> Result<Result<T, MongoError>> {
    let done = timeout_at(deadline, statement).await;
    done.map_err(|_| sent.timed_out(timeout))
}

/// Waits before the next retry, for a random time, so that callers that lost together do not come
/// back together.
pub(crate) async fn pause(tries: u32) {
    let share = f64::from(tries) / f64::from(MAX_RETRIES);
    tokio::time::sleep(MAX_PAUSE.mul_f64(share * rand::random_range(0.0..=1.0))).await;
}

fn effect(sent: Access) -> Effect {
    match sent {
        Access::Read => Effect::None,
        Access::Write => Effect::Unknown,
    }
}
