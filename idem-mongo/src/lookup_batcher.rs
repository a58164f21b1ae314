//! [`LookupBatcher`]: batched lookups of records.

use std::collections::HashMap;
use std::sync::Arc;

use idem_core::Result;
use idem_core::backend::Batcher;

use crate::error::Access;
use crate::operations::Operations;
use crate::row::Row;
use crate::session::Session;
use crate::statements;

/// Most records that one command reads; each may come with its result.
const MAX_BATCH_SIZE: usize = 128;

/// Most commands that read at a time. While they are under way, further callers wait for the next
/// one, which then reads more records.
const AT_A_TIME: usize = 2;

/// Looks up the records of claims, each by its document's `_id`. With many concurrent callers, one
/// command reads for several of them. A lookup changes nothing and waits for no write.
#[derive(Clone)]
pub(crate) struct LookupBatcher(pub(crate) Arc<Batcher<String, Result<Option<Row>>>>);

impl LookupBatcher {
    pub(crate) fn new(operations: &Arc<Operations>) -> Self {
        let operations = Arc::clone(operations);
        Self(Batcher::new(MAX_BATCH_SIZE, AT_A_TIME, move |ids| {
            let operations = Arc::clone(&operations);
            async move { operations.lookup_each(ids).await }
        }))
    }
}

impl Operations {
    /// Returns the row of each id, in order; `None` where there is no record.
    async fn lookup_each(&self, mut ids: Vec<String>) -> Vec<Result<Option<Row>>> {
        let requested = ids.clone();
        ids.sort_unstable();
        ids.dedup();
        match self.rows_of(ids).await {
            Ok(rows) => requested
                .iter()
                .map(|id| Ok(rows.get(id).cloned()))
                .collect(),
            Err(error) => {
                let each = error.for_each_item();
                requested.iter().map(|_| Err(each())).collect()
            }
        }
    }

    /// Reads the records of these keys, each by its `_id`.
    pub(crate) async fn rows_of(&self, ids: Vec<String>) -> Result<HashMap<String, Row>> {
        let pipeline = statements::lookup_many(ids);
        let mut session = Session::alone(&self.config);
        let found = session
            .read(&self.records.collection, pipeline, Access::Read)
            .await?;
        let rows = found.into_iter().map(Row::new);
        Ok(rows
            .filter_map(|row| Some((row.id()?.to_owned(), row)))
            .collect())
    }
}
