//! [`Looks`]: reads of records, for many callers at once.

use std::sync::Arc;

use idem_core::backend::Batcher;
use idem_core::{AttemptId, ClaimRequest, Error, ErrorKind, Fingerprint, Key, Result};
use sqlx::postgres::PgRow;

use crate::connection::{ConnectionSource, End};
use crate::error::Access;
use crate::operations::{Operations, with_key};
use crate::row::Columns;
use crate::session::{Session, alone};

/// What one statement reads at most; each record may come with its result.
const MOST: usize = 128;

/// So many statements read at a time: while one is under way, those who come wait for the next, which then has more to
/// read.
const AT_A_TIME: usize = 2;

/// Who looks for what.
#[derive(Debug)]
struct LookupParams {
    key: Key,
    fingerprint: Fingerprint,
    attempt: AttemptId,
}

type Answer = Result<Option<PgRow>>;

/// Reads for claims. When there are many at a time, a statement reads for many of them: that costs the server little more
/// than one read. A read changes nothing, so nobody is held up by a neighbour's lock.
#[derive(Debug, Clone)]
pub(crate) struct Looks(Arc<Batcher<LookupParams, Answer>>);

impl Looks {
    pub(crate) fn new(place: &ConnectionSource, operations: &Arc<Operations>) -> Self {
        let (place, operations) = (place.clone(), Arc::clone(operations));
        Self(Batcher::new(MOST, AT_A_TIME, move |sought| {
            let (place, operations) = (place.clone(), Arc::clone(&operations));
            async move { operations.look_for_many(&place, &sought).await }
        }))
    }
}

impl Operations {
    /// The record of the claim's key, as [`LOOK`](crate::sql::LOOK) reads it.
    pub(crate) async fn record_row(
        &self,
        session: &mut Session<'_>,
        request: &ClaimRequest,
    ) -> Answer {
        let Session::Store {
            looks: Looks(looks),
            ..
        } = session
        else {
            return self.record_row_alone(session, request).await;
        };
        let underway = looks.enter();
        if !underway.is_in_company() {
            return self.record_row_alone(session, request).await;
        }
        let asked = looks.ask(LookupParams {
            key: request.key().clone(),
            fingerprint: *request.fingerprint(),
            attempt: request.attempt(),
        });
        match tokio::time::timeout(self.config.timeout(), asked).await {
            Ok(Some(Err(error))) if error.kind() == ErrorKind::Unavailable => Err(error),
            Ok(Some(Ok(row))) => Ok(row),
            // What was wrong may have been another's.
            Ok(Some(Err(_)) | None) => self.record_row_alone(session, request).await,
            Err(_) => Err(Access::Read.timed_out(self.config.timeout())),
        }
    }

    async fn record_row_alone(&self, session: &mut Session<'_>, request: &ClaimRequest) -> Answer {
        let fingerprint = request.fingerprint().to_bytes();
        let query = with_key(&self.sql.look, request.key())
            .bind(&fingerprint[..])
            .bind(&request.attempt().as_bytes()[..]);
        let rows = session.rows(query, Access::Read).await?;
        Ok(rows.into_iter().next())
    }

    async fn look_for_many(
        &self,
        place: &ConnectionSource,
        sought: &[LookupParams],
    ) -> Vec<Answer> {
        match self.rows_of_many(place, sought).await {
            Ok(found) => found.into_iter().map(Ok).collect(),
            Err(error) => {
                let each = error.for_each_item();
                sought.iter().map(|_| Err(each())).collect()
            }
        }
    }

    /// A row for each, where there is one.
    async fn rows_of_many(
        &self,
        place: &ConnectionSource,
        sought: &[LookupParams],
    ) -> Result<Vec<Option<PgRow>>, Error> {
        let column =
            |part: fn(&Key) -> &str| -> Vec<&str> { sought.iter().map(|s| part(&s.key)).collect() };
        let fingerprints = sought.iter().map(|sought| sought.fingerprint.to_bytes());
        let attempts = sought.iter().map(|sought| *sought.attempt.as_bytes());
        let query = self
            .sql
            .look_many
            .query()
            .bind(column(Key::scope))
            .bind(column(Key::operation))
            .bind(column(Key::id))
            .bind(fingerprints.collect::<Vec<_>>())
            .bind(attempts.collect::<Vec<_>>());
        let reads = alone(place, &self.config, query, Access::Read, End::Commit);
        let rows = reads.await?;
        let mut found: Vec<_> = sought.iter().map(|_| None).collect();
        for row in rows {
            let number = Columns(&row).number()?;
            let at = usize::try_from(number - 1).ok();
            if let Some(place) = at.and_then(|at| found.get_mut(at)) {
                *place = Some(row);
            }
        }
        Ok(found)
    }
}
