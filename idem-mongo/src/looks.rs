//! [`Looks`]: reads of records, for many callers at once.

use std::collections::HashMap;
use std::sync::Arc;

use idem_core::backend::{Batcher, LockedKeys, check};
use idem_core::{ClaimOutcome, ClaimRequest, ErrorKind, Result};

use crate::error::Access;
use crate::operations::Operations;
use crate::row::Row;
use crate::session::Session;
use crate::statements::{self, ClaimParams};
use crate::store::MongoStore;

/// What one command reads at most; each record may come with its result.
const MOST: usize = 128;

/// So many commands read at a time: while one is under way, those who come wait for the next, which
/// then has more to read.
const AT_A_TIME: usize = 2;

/// Reads for claims, each by its document's `_id`. When there are many at a time, a command reads
/// for many of them. A read changes nothing and waits for nobody's write.
#[derive(Clone)]
pub(crate) struct Looks(Arc<Batcher<String, Result<Option<Row>>>>);

impl Looks {
    pub(crate) fn new(operations: &Arc<Operations>) -> Self {
        let operations = Arc::clone(operations);
        Self(Batcher::new(MOST, AT_A_TIME, move |ids| {
            let operations = Arc::clone(&operations);
            async move { operations.look_for_each(ids).await }
        }))
    }
}

impl Operations {
    async fn look_for_each(&self, mut ids: Vec<String>) -> Vec<Result<Option<Row>>> {
        let asked = ids.clone();
        ids.sort_unstable();
        ids.dedup();
        match self.rows_of(ids).await {
            Ok(rows) => asked.iter().map(|id| Ok(rows.get(id).cloned())).collect(),
            Err(error) => {
                let each = error.for_each_item();
                asked.iter().map(|_| Err(each())).collect()
            }
        }
    }

    /// The records of these keys, each by its `_id`.
    pub(crate) async fn rows_of(&self, ids: Vec<String>) -> Result<HashMap<String, Row>> {
        let look = statements::look_many(ids);
        let mut session = Session::alone(&self.config);
        let found = session
            .read(&self.records.collection, look, Access::Read)
            .await?;
        let rows = found.into_iter().map(Row::new);
        Ok(rows
            .filter_map(|row| Some((row.id()?.to_owned(), row)))
            .collect())
    }
}

impl MongoStore {
    /// A claim; where keys mostly have a record, its look is one with those of the others who claim
    /// now, if there are many.
    pub(crate) async fn claim_once(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        if !self.operations.records.may_look(request.key()) {
            return Err(LockedKeys::error());
        }
        let outcome = self.claim_from_look(request).await;
        if outcome.is_ok() {
            self.operations.records.was_answered(request.key());
        }
        outcome
    }

    async fn claim_from_look(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        let (operations, Looks(looks)) = (&self.operations, &self.looks);
        let mut session = self.session();
        let underway = looks.enter();
        let is_batched = operations.config.batching() && underway.is_in_company();
        if !is_batched || !operations.looks_first(request.key()) {
            return operations.claim(&mut session, request).await;
        }
        let checked = check::claim(request, &operations.config.limits())?;
        let asked = ClaimParams::new(request, checked);
        operations.ready(&session).await?;
        let looked = session.waits_for(looks.ask(request.key().path())).await?;
        let seen = match looked {
            Some(Err(error)) if error.kind() == ErrorKind::Unavailable => return Err(error),
            Some(Ok(row)) => row,
            // What was wrong may have been another's.
            Some(Err(_)) | None => operations.look(&mut session, &asked, Access::Read).await?,
        };
        operations.claim_from(&mut session, &asked, seen).await
    }
}
