//! Where a statement runs: by itself, or in the caller's transaction.

use std::future::{Future, IntoFuture};
use std::time::Duration;

use futures_util::TryStreamExt;
use idem_core::{Effect, Error, ErrorKind, Result};
use mongodb::bson::{Document, doc};
use mongodb::error::Error as MongoError;
use mongodb::options::{FindOneAndUpdateOptions, ReturnDocument};
use mongodb::{ClientSession, Collection};
use tokio::time::{Instant, timeout_at};

use crate::config::Config;
use crate::error::{Sent, classify, is_lost_race};

/// How often an operation asks again after a statement that lost a race (11000, 112) or found the record changed under
/// it. Each time somebody else got on, so more than a few is a sign of trouble.
pub(crate) const MAX_ASKS: u32 = 16;

/// Longest pause before the last ask; the first is a sixteenth of it.
const PAUSE: Duration = Duration::from_millis(32);

/// Runs the statements of one operation, all within its time.
#[derive(Debug)]
pub(crate) struct Session<'s> {
    transaction: Option<&'s mut ClientSession>,
    deadline: Instant,
    timeout: Duration,
}

/// What an update of one document by its key came to.
#[derive(Debug)]
pub(crate) enum Changed {
    /// The document as it is after it.
    Document(Document),
    /// The server answered without a document. No `mongod` does after an upsert, but servers like it do when a
    /// claim loses a race, so its effect is not known.
    Nothing,
    /// It lost a race and was undone; only outside of a transaction.
    LostRace,
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

    /// What a pipeline of reads finds.
    pub(crate) async fn read(
        &mut self,
        collection: &Collection<Document>,
        pipeline: Vec<Document>,
        sent: Sent,
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

    /// Updates the document that the filter finds, or inserts one if `upsert`, and returns it as it is then, without its
    /// result and its checkpoint.
    pub(crate) async fn change(
        &mut self,
        collection: &Collection<Document>,
        filter: Document,
        update: Vec<Document>,
        upsert: bool,
    ) -> Result<Changed> {
        let options = FindOneAndUpdateOptions::builder()
            .upsert(upsert)
            .return_document(ReturnDocument::After)
            .projection(doc! { "result": 0, "checkpoint": 0 });
        let changed = match &mut self.transaction {
            Some(session) => {
                let change = collection
                    .find_one_and_update(filter, update)
                    .with_options(options.build())
                    .session(&mut **session)
                    .into_future();
                in_time(self.deadline, self.timeout, Sent::Write, change).await?
            }
            None => {
                let (collection, left) = (collection.clone(), self.left());
                let options = options.max_time(left).build();
                self.by_itself(Sent::Write, async move {
                    let change = collection.find_one_and_update(filter, update);
                    change.with_options(options).await
                })
                .await?
            }
        };
        match changed {
            Ok(Some(document)) => Ok(Changed::Document(document)),
            Ok(None) => Ok(Changed::Nothing),
            Err(error) if self.transaction.is_none() && is_lost_race(&error) => {
                Ok(Changed::LostRace)
            }
            Err(error) => Err(classify(error, Sent::Write)),
        }
    }

    /// Updates the document that the filter finds; whether there was one. Sent again when it lost a race.
    pub(crate) async fn update(
        &mut self,
        collection: &Collection<Document>,
        filter: Document,
        update: Vec<Document>,
    ) -> Result<bool> {
        if let Some(session) = &mut self.transaction {
            let update = collection
                .update_one(filter, update)
                .session(&mut **session)
                .into_future();
            let updated = in_time(self.deadline, self.timeout, Sent::Write, update).await?;
            let updated = updated.map_err(|error| classify(error, Sent::Write))?;
            return Ok(updated.matched_count > 0);
        }
        let updated = self
            .again(|| {
                let (collection, filter) = (collection.clone(), filter.clone());
                let update = update.clone();
                async move { collection.update_one(filter, update).await }
            })
            .await?;
        Ok(updated.matched_count > 0)
    }

    /// A statement that may be sent again when it lost a race, by itself.
    pub(crate) async fn again<T, F>(&self, statement: impl Fn() -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, MongoError>> + Send + 'static,
    {
        let mut asks = 0;
        loop {
            asks += 1;
            match self.by_itself(Sent::Write, statement()).await? {
                Ok(done) => return Ok(done),
                Err(error) if is_lost_race(&error) && asks < MAX_ASKS => pause(asks).await,
                Err(error) => return Err(classify(error, Sent::Write)),
            }
        }
    }

    /// The driver wants its futures polled to their end: one that is dropped closes its connection
    /// (<https://docs.rs/mongodb/latest/mongodb/#warning-about-timeouts--cancellation>). So each runs in a task of its own,
    /// which goes on when the operation's time is over or nobody waits for it any more.
    pub(crate) async fn by_itself<T: Send + 'static>(
        &self,
        sent: Sent,
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
            Err(_) => Err(timed_out(self.timeout, sent)),
        }
    }

    /// Waits for a read that others do, for no longer than the operation's time.
    pub(crate) async fn waits_for<T>(&self, read: impl Future<Output = T> + Send) -> Result<T> {
        let read = timeout_at(self.deadline, read).await;
        read.map_err(|_| timed_out(self.timeout, Sent::Harmless))
    }

    /// What is left of the operation's time, for the server; never zero, which would mean for ever.
    fn left(&self) -> Duration {
        self.deadline
            .saturating_duration_since(Instant::now())
            .max(Duration::from_millis(1))
    }
}

/// In a transaction a statement that is given up closes the connection, and with it the transaction.
async fn in_time<T>(
    deadline: Instant,
    timeout: Duration,
    sent: Sent,
    statement: impl Future<Output = Result<T, MongoError>> + Send,
) -> Result<Result<T, MongoError>> {
    let done = timeout_at(deadline, statement).await;
    done.map_err(|_| timed_out(timeout, sent))
}

/// Waits before an ask that follows this many; those who lost together do not come back together.
pub(crate) async fn pause(asks: u32) {
    let share = f64::from(asks) / f64::from(MAX_ASKS);
    tokio::time::sleep(PAUSE.mul_f64(share * rand::random_range(0.0..=1.0))).await;
}

fn effect(sent: Sent) -> Effect {
    match sent {
        Sent::Harmless => Effect::None,
        Sent::Write => Effect::Unknown,
    }
}

fn timed_out(timeout: Duration, sent: Sent) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        effect(sent),
        format!(
            "no answer within {} ms; a transaction holds the record, the server is overloaded, or the pool is too \
             small",
            timeout.as_millis()
        ),
    )
}
