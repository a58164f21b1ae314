//! [`Looks`]: batched reads of records.

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
const MOST: usize = 128;

/// Most commands that read at a time: while they are under way, further callers wait for the next
/// one, which then reads more records.
const AT_A_TIME: usize = 2;

/// Reads for claims, each by its document's `_id`. With many concurrent callers, one command reads
/// for several of them. A read changes nothing and waits for no write.
#[derive(Clone)]
pub(crate) struct Looks(pub(crate) Arc<Batcher<String, Result<Option<Row>>>>);

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

    /// Reads the records of these keys, each by its `_id`.
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
