//! Where a statement runs: in the store's own session, or in the caller's transaction.

use std::future::{Future, IntoFuture};
use std::time::Duration;

use futures_util::TryStreamExt;
use idem_core::{Effect, Error, ErrorKind, Result};
use mongodb::bson::{Bson, Document, deserialize_from_document, doc, serialize_to_bson};
use mongodb::error::{Error as MongoError, ErrorKind as MongoKind, WriteFailure};
use mongodb::options::{FindOneAndUpdateOptions, ReturnDocument};
use mongodb::{ClientSession, Collection};
use tokio::task::JoinHandle;
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

/// A statement in a task of its own.
pub(crate) type Task<T> = JoinHandle<Result<T, MongoError>>;

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
    pub(crate) form: Form,
}

/// The command of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// `findAndModify`, which inserts a document when the filter finds none.
    Upsert,
    /// `findAndModify`, for the document as it is then. So that the driver can repeat the command,
    /// the server writes an image of the document, too.
    Return,
    /// `update`, outside a transaction: its answer is a count. The driver has no time limit for its
    /// own `update`, so the command is sent as it is, and the driver does not repeat it.
    Count,
}

/// The result of an update of one document by its key.
#[derive(Debug)]
pub(crate) enum Changed {
    /// The document after the update; empty for [`Form::Count`].
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
                    .with_options(options(change.form, None))
                    .session(&mut **session)
                    .into_future();
                in_time(self.deadline, self.timeout, Access::Write, changing).await?
            }
            None => {
                let sent = send(collection.clone(), change, left, None);
                self.by_itself(Access::Write, sent).await?
            }
        };
        match changed {
            Err(error) if self.is_in_transaction() => Err(classify(error, Access::Write)),
            changed => into_changed(changed),
        }
    }

    /// Begins to update as [`change`](Self::change) does, in a session of the store's own, outside a
    /// transaction. The server ends the update after `within`, except one of a fresh key: see
    /// [`crate::locked`].
    pub(crate) fn try_change(
        &self,
        collection: &Collection<Document>,
        change: Change,
        within: Duration,
        mut own: ClientSession,
    ) -> Task<(ClientSession, Result<Tried>)> {
        let (collection, left) = (collection.clone(), self.left());
        let is_bounded = within < left;
        tokio::spawn(async move {
            let tried = match send(collection, change, within.min(left), Some(&mut own)).await {
                Err(error) if is_bounded && is_out_of_time(&error) => Ok(Tried::OutOfTime),
                Err(error) if is_bounded && is_unconfirmed(&error) => Ok(Tried::Unconfirmed),
                changed => into_changed(changed).map(Tried::Changed),
            };
            Ok((own, tried))
        })
    }

    /// Begins an `update` command with these statements, which the server ends after `within`, except
    /// as for [`try_change`](Self::try_change). A statement that fails keeps no other from being
    /// done. The driver does not repeat the command.
    pub(crate) fn update_many(
        &self,
        collection: &Collection<Document>,
        updates: Vec<Document>,
        within: Duration,
    ) -> Task<Batched> {
        let (collection, within) = (collection.clone(), within.min(self.left()));
        tokio::spawn(async move {
            match update(&collection, updates, within).await {
                Ok(answer) if is_unconfirmed_answer(&answer) => Ok(Batched::Unconfirmed),
                Ok(_) => Ok(Batched::Done),
                Err(error) if is_out_of_time(&error) => Ok(Batched::OutOfTime),
                Err(error) => Err(error),
            }
        })
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
        let mut task = tokio::spawn(statement);
        loop {
            if let Some(done) = self.answer(sent, &mut task, self.timeout).await? {
                return Ok(done);
            }
        }
    }

    /// Waits for such a task, at most for this time; `None` when that is over.
    pub(crate) async fn answer<T>(
        &self,
        sent: Access,
        task: &mut Task<T>,
        at_most: Duration,
    ) -> Result<Option<Result<T, MongoError>>> {
        let until = self.deadline.min(Instant::now() + at_most);
        match timeout_at(until, task).await {
            Ok(Ok(done)) => Ok(Some(done)),
            Ok(Err(failed)) => {
                let message = "the driver's task ended early";
                Err(Error::new(ErrorKind::Other, effect(sent), message).with_source(failed))
            }
            Err(_) if self.is_over() => Err(sent.timed_out(self.timeout)),
            Err(_) => Ok(None),
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

    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// Returns the remaining time of the operation, for the server; never zero, which would mean no
    /// limit.
    pub(crate) fn left(&self) -> Duration {
        self.deadline
            .saturating_duration_since(Instant::now())
            .max(Duration::from_millis(1))
    }
}

/// Sends an update of one document, outside a transaction.
async fn send(
    collection: Collection<Document>,
    change: Change,
    within: Duration,
    own: Option<&mut ClientSession>,
) -> Result<Option<Document>, MongoError> {
    if change.form == Form::Count {
        let updates = vec![doc! { "q": change.filter, "u": change.update }];
        return counted(update(&collection, updates, within).await?);
    }
    let changing = collection
        .find_one_and_update(change.filter, change.update)
        .with_options(options(change.form, Some(within)));
    match own {
        Some(own) => changing.session(own).await,
        None => changing.await,
    }
}

/// Sends an `update` command, which the driver does not repeat.
async fn update(
    collection: &Collection<Document>,
    updates: Vec<Document>,
    within: Duration,
) -> Result<Document, MongoError> {
    let mut command = doc! { "update": collection.name(), "updates": updates, "ordered": false };
    let within = i64::try_from(within.as_millis()).unwrap_or(i64::MAX);
    command.insert("maxTimeMS", within);
    if let Some(concern) = collection.write_concern() {
        command.insert("writeConcern", serialize_to_bson(concern)?);
    }
    let database = collection.client().database(&collection.namespace().db);
    database.run_command(command).await
}

/// Reads the answer to an update of one document as the driver reads that of its own: `None` when
/// the filter found no document.
fn counted(mut answer: Document) -> Result<Option<Document>, MongoError> {
    if let Some(Bson::Array(errors)) = answer.remove("writeErrors")
        && let Some(Bson::Document(error)) = errors.into_iter().next()
    {
        let error = WriteFailure::WriteError(deserialize_from_document(error)?);
        return Err(MongoKind::Write(error).into());
    }
    if let Some(Bson::Document(error)) = answer.remove("writeConcernError") {
        let error = WriteFailure::WriteConcernError(deserialize_from_document(error)?);
        return Err(MongoKind::Write(error).into());
    }
    let is_none = matches!(
        answer.get("n"),
        None | Some(Bson::Int32(0) | Bson::Int64(0))
    );
    Ok((!is_none).then(Document::new))
}

fn options(form: Form, within: Option<Duration>) -> FindOneAndUpdateOptions {
    FindOneAndUpdateOptions::builder()
        .upsert(form == Form::Upsert)
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
