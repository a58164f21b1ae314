//! MongoDB: records and ledger in a database for each run.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::TryStreamExt;
use idem_core::BoxError;
use idem_mongo::mongodb::bson::{Document, doc};
use idem_mongo::mongodb::{Client, ClientSession, Collection, Database};
use idem_mongo::{MongoStore, Transactions};

use super::database::transactional;
use super::{Backend, Entry, Location};

const LEDGER: &str = "ledger";

/// How long a command waits for a server that does not answer.
const SERVER_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Mongo {
    store: MongoStore,
    database: Database,
    /// The worker's lane; empty for the parent.
    lane: String,
    noted_sessions: Mutex<Vec<Document>>,
}

impl Mongo {
    pub(super) async fn boxed(location: &Location) -> Result<Box<dyn Backend>, BoxError> {
        let adapter = idem_stores::Mongo::new(&*location.url);
        let mut options = adapter.options().await?;
        options.app_name = Some("idem-storm".to_owned());
        options.max_pool_size = Some(location.connections);
        options.server_selection_timeout = Some(SERVER_TIMEOUT);
        let client = Client::with_options(options)?;
        let lane = location.worker.split('.').next().unwrap_or_default();
        let mongo = Self {
            database: client.database(&location.namespace),
            store: MongoStore::with_config(client, adapter.config(&location.namespace)?),
            lane: lane.to_owned(),
            noted_sessions: Mutex::default(),
        };
        mongo.end_sessions().await?;
        Ok(Box::new(mongo))
    }

    fn effects(&self) -> Collection<Entry> {
        self.database.collection(LEDGER)
    }

    fn transactions(&self) -> Transactions {
        Transactions::new(&self.store)
    }

    async fn product(&self) -> Result<String, BoxError> {
        let build = self.database.run_command(doc! { "buildInfo": 1 }).await?;
        let (product, version) = idem_stores::Mongo::product_of(&build);
        Ok(format!("{product} {version}"))
    }

    async fn create_ledger(&self) -> Result<(), BoxError> {
        Ok(self.database.create_collection(LEDGER).await?)
    }

    async fn remove_all(&self) -> Result<(), BoxError> {
        self.end_sessions().await?;
        Ok(self.database.drop().await?)
    }

    async fn insert(&self, session: &mut ClientSession, entry: &Entry) -> Result<(), BoxError> {
        self.note_session(session).await?;
        self.effects().insert_one(entry).session(session).await?;
        Ok(())
    }

    /// Sorts by token, which grows with each acquisition of a key; MongoDB has no number that grows
    /// with each document.
    async fn entries(&self) -> Result<Vec<Entry>, BoxError> {
        let effects = self.effects();
        let sorted = effects.find(doc! {}).sort(doc! { "token": 1, "_id": 1 });
        Ok(sorted.await?.try_collect().await?)
    }
}

transactional!(Mongo);

/// MongoDB does not notice that a client is dead. An open transaction blocks the documents that it
/// wrote for `transactionLifetimeLimitSeconds`, by default a minute, however short the lease was
/// (<https://www.mongodb.com/docs/manual/core/transactions-production-consideration/>). So each
/// worker records its sessions, which are few, because the driver reuses them; its successor in the
/// same lane ends them.
impl Mongo {
    fn sessions(&self) -> Collection<Document> {
        self.database.collection("sessions")
    }

    fn noted_sessions(&self) -> MutexGuard<'_, Vec<Document>> {
        let noted = self.noted_sessions.lock();
        noted.unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the session, before the first statement of its transaction.
    async fn note_session(&self, session: &ClientSession) -> Result<(), BoxError> {
        if self.noted_sessions().contains(session.id()) {
            return Ok(());
        }
        let row = doc! { "lane": &self.lane, "session": session.id() };
        self.sessions().insert_one(row).await?;
        self.noted_sessions().push(session.id().clone());
        Ok(())
    }

    /// Ends the sessions of the previous worker; the parent ends those of all lanes.
    async fn end_sessions(&self) -> Result<(), BoxError> {
        let rows = match &*self.lane {
            "" => doc! {},
            lane => doc! { "lane": lane },
        };
        let found = self.sessions().find(rows.clone()).await?;
        let found: Vec<Document> = found.try_collect().await?;
        let ids: Result<Vec<_>, _> = found
            .iter()
            .map(|row| row.get_document("session"))
            .collect();
        let ids: Vec<Document> = ids?.into_iter().cloned().collect();
        if !ids.is_empty() {
            let admin = self.store.client().database("admin");
            admin.run_command(doc! { "killSessions": ids }).await?;
            self.sessions().delete_many(rows).await?;
        }
        Ok(())
    }
}
