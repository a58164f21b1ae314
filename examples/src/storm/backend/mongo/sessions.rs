//! [`Sessions`]: ends the transactions of a dead worker.

use std::sync::Mutex;

use idem_core::BoxError;
use idem_mongo::mongodb::bson::{Document, doc};
use idem_mongo::mongodb::{Client, ClientSession, Collection};

/// MongoDB does not notice that a client is dead. An open transaction blocks the documents that it
/// wrote for `transactionLifetimeLimitSeconds`, by default a minute, however short the lease was
/// (<https://www.mongodb.com/docs/manual/core/transactions-production-consideration/>). So each
/// worker records its sessions, which are few, because the driver reuses them; its successor ends
/// them.
#[derive(Debug)]
pub(super) struct Sessions {
    client: Client,
    written: Collection<Document>,
    /// The worker's lane; empty for all lanes.
    lane: String,
    known: Mutex<Vec<Document>>,
}

impl Sessions {
    /// Creates the sessions of a worker such as `2.5`: the fifth successor in lane 2.
    pub(super) fn new(client: &Client, database: &str, worker: &str) -> Self {
        Self {
            written: client.database(database).collection("sessions"),
            client: client.clone(),
            lane: worker.split('.').next().unwrap_or_default().to_owned(),
            known: Mutex::default(),
        }
    }

    /// Records the session, before the first statement of its transaction.
    pub(super) async fn note(&self, session: &ClientSession) -> Result<(), BoxError> {
        if self.is_known(session.id()) {
            return Ok(());
        }
        let row = doc! { "lane": &self.lane, "session": session.id() };
        self.written.insert_one(row).await?;
        self.with_known(|known| known.push(session.id().clone()));
        Ok(())
    }

    fn is_known(&self, id: &Document) -> bool {
        self.with_known(|known| known.contains(id))
    }

    fn with_known<T>(&self, use_them: impl FnOnce(&mut Vec<Document>) -> T) -> T {
        let known = self.known.lock();
        use_them(&mut known.unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// Ends the sessions of the previous worker.
    pub(super) async fn end(&self) -> Result<(), BoxError> {
        let here = match &*self.lane {
            "" => doc! {},
            lane => doc! { "lane": lane },
        };
        let mut cursor = self.written.find(here.clone()).await?;
        let mut ids = Vec::new();
        while cursor.advance().await? {
            let row = cursor.deserialize_current()?;
            ids.push(row.get_document("session")?.clone());
        }
        if !ids.is_empty() {
            let admin = self.client.database("admin");
            admin.run_command(doc! { "killSessions": ids }).await?;
            self.written.delete_many(here).await?;
        }
        Ok(())
    }
}
