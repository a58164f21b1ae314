//! The latest version of each source, in a separate collection.

use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use idem_core::backend::check;
use idem_core::{Advance, AttemptId, Effect, Error, ErrorKind, Key, Result, WatermarkStore};

use crate::error::Access;
use crate::operations::{Operations, since};
use crate::row::Row;
use crate::session::{Change, Changed, Form, MAX_RETRIES, Session, pause};
use crate::statements;
use crate::store::{MongoStore, at};

/// One advance of a mark: the version and the writer.
struct Raise {
    version: i64,
    writer: AttemptId,
}

impl Raise {
    /// Returns the outcome for an existing mark; `None` for a mark below the version.
    fn outcome(&self, mark: &Row) -> Result<Option<Advance>> {
        let current = mark.number("version")?;
        let own = mark.bytes("writer")? == self.writer.as_bytes();
        Ok(match current.cmp(&self.version) {
            std::cmp::Ordering::Less => None,
            std::cmp::Ordering::Equal if own => Some(Advance::Advanced),
            std::cmp::Ordering::Equal => Some(Advance::Unchanged),
            std::cmp::Ordering::Greater => Some(Advance::Stale {
                current: unsigned(current)?,
            }),
        })
    }
}

impl Operations {
    /// Refuses to work without the collection of the watermarks; checks with the server once.
    pub(crate) async fn ready_for_watermarks(&self, session: &Session<'_>) -> Result<()> {
        if !self.has_watermarks.load(Ordering::Relaxed) {
            self.verify_watermarks(session).await?;
            self.has_watermarks.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Reads first, because repeated and stale versions then need no write. The document that
    /// carries this advance's id proves that it has raised the mark.
    pub(crate) async fn advance(
        &self,
        session: &mut Session<'_>,
        source: &Key,
        version: u64,
        retention: Duration,
    ) -> Result<Advance> {
        let (version, retention) = (check::version(version)?, check::retention(retention)?);
        let writer = AttemptId::random();
        let raise = Raise { version, writer };
        self.ready_for_watermarks(session).await?;
        let update =
            statements::advance(version, &statements::binary(writer.as_bytes()), retention);
        let mut sent = Access::Read;
        let mut tries = 1;
        while tries <= MAX_RETRIES {
            let form = match self.mark(session, source, sent).await? {
                Some(mark) => {
                    if let Some(outcome) = raise.outcome(&mark)? {
                        return Ok(outcome);
                    }
                    Form::Return
                }
                None => Form::Upsert,
            };
            let change = Change {
                filter: statements::key_filter(source),
                update: update.clone(),
                form,
            };
            let raised = self.write_document(session, &self.watermarks, source, change, None);
            let raised = raised.await;
            let raised = raised.map_err(|error| since(error, sent))?;
            tries += u32::from(!matches!(raised, Changed::AfterAnother));
            match raised {
                Changed::Document(mark) => {
                    return raise.outcome(&Row::new(mark))?.ok_or_else(below);
                }
                Changed::AfterAnother => {}
                Changed::LostRace => pause(tries).await,
                Changed::Nothing => {
                    sent = Access::Write;
                    pause(tries).await;
                }
            }
        }
        let effect = match sent {
            Access::Read => Effect::None,
            Access::Write => Effect::Unknown,
        };
        let message = format!("the mark was raised {MAX_RETRIES} times meanwhile; ask again");
        Err(Error::new(ErrorKind::Contention, effect, message))
    }

    /// Returns the mark of the source, if it is live.
    async fn mark(
        &self,
        session: &mut Session<'_>,
        source: &Key,
        sent: Access,
    ) -> Result<Option<Row>> {
        let pipeline = statements::get(source);
        let found = session
            .read(&self.watermarks.collection, pipeline, sent)
            .await?;
        match found.into_iter().next().map(Row::new) {
            Some(mark) if mark.is_live()? => Ok(Some(mark)),
            _ => Ok(None),
        }
    }

    async fn watermark(&self, session: &mut Session<'_>, source: &Key) -> Result<Option<u64>> {
        self.ready_for_watermarks(session).await?;
        let mark = self.mark(session, source, Access::Read).await?;
        mark.map(|mark| unsigned(mark.number("version")?))
            .transpose()
    }
}

fn unsigned(version: i64) -> Result<u64> {
    u64::try_from(version).map_err(|_| Error::corrupt("a watermark is below zero"))
}

fn below() -> Error {
    Error::corrupt(
        "an advance has left a mark below its version; is a server in between that is not MongoDB?",
    )
}

/// A mark is a document, raised in one upsert that decides by the server's clock at the write; a
/// read answers stale and repeated versions.
#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl WatermarkStore for MongoStore {
    async fn advance(&self, source: &Key, version: u64, retention: Duration) -> Result<Advance> {
        self.operations
            .advance(&mut self.session(), source, version, retention)
            .await
            .map_err(at("advance"))
    }

    async fn watermark(&self, source: &Key) -> Result<Option<u64>> {
        self.operations
            .watermark(&mut self.session(), source)
            .await
            .map_err(at("watermark"))
    }

    async fn delete_expired_watermarks(&self, limit: u32) -> Result<u64> {
        self.operations
            .delete_expired_watermarks(&mut self.session(), limit)
            .await
            .map_err(at("delete_expired_watermarks"))
    }
}
