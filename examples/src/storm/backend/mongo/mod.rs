//! MongoDB: records and ledger in a database for each run.

mod sessions;

use async_trait::async_trait;
use idem_core::{BoxError, Claim, Response, Result as StoreResult};
use idem_mongo::mongodb::bson::doc;
use idem_mongo::mongodb::{self, Client, ClientSession, Collection};
use idem_mongo::{MongoStore, TransactionRetry, Transactions};

use super::database::{Database, attempts};
use super::reach::reach;
use super::{Location, RETENTION, SERVER_TIMEOUT};
use crate::storm::entry::Entry;
use crate::storm::stop::Stop;
use crate::storm::url::without_credentials;
use sessions::Sessions;

const LEDGER: &str = "ledger";

#[derive(Debug)]
pub(crate) struct Mongo {
    store: MongoStore,
    database: mongodb::Database,
    sessions: Sessions,
}

impl Mongo {
    pub(crate) async fn open(location: &Location) -> Result<Self, Stop> {
        let adapter = idem_stores::Mongo::new(&*location.url);
        let stop = |error: BoxError| Stop::because("--store", &*error);
        let options = adapter.options().await;
        let mut options =
            options.map_err(|error| Stop::because("--store: the URL cannot be read", &*error))?;
        options.app_name = Some("idem-storm".to_owned());
        options.max_pool_size = Some(location.connections);
        options.server_selection_timeout = Some(SERVER_TIMEOUT);
        let client = Client::with_options(options).map_err(|error| stop(error.into()))?;
        let server = format!("MongoDB at {}", without_credentials(&location.url));
        // The driver connects with the first command.
        let admin = client.database("admin");
        let hello = async { admin.run_command(doc! { "hello": 1 }).await };
        reach(&server, "user and password", hello).await?;
        let config = adapter.config(&location.namespace).map_err(stop)?;
        let sessions = Sessions::new(&client, &location.namespace, &location.worker);
        sessions.end().await.map_err(stop)?;
        Ok(Self {
            sessions,
            database: client.database(&location.namespace),
            store: MongoStore::with_config(client, config),
        })
    }

    fn collection(&self) -> Collection<Entry> {
        self.database.collection(LEDGER)
    }
}

attempts!(TransactionRetry, ClientSession);

#[async_trait]
impl Database for Mongo {
    type Store = MongoStore;
    type Attempts = TransactionRetry;

    fn store(&self) -> &MongoStore {
        &self.store
    }

    async fn product(&self) -> Result<String, BoxError> {
        let build = self.database.run_command(doc! { "buildInfo": 1 }).await?;
        let (product, version) = idem_stores::Mongo::product_of(&build);
        Ok(format!("{product} {version}"))
    }

    async fn migrate(&self) -> StoreResult<()> {
        self.store.migrate().await
    }

    async fn create_ledger(&self) -> Result<(), BoxError> {
        Ok(self.database.create_collection(LEDGER).await?)
    }

    async fn remove(&self) -> Result<(), BoxError> {
        self.sessions.end().await?;
        Ok(self.database.drop().await?)
    }

    fn attempts(&self) -> TransactionRetry {
        Transactions::new(self.store.client().clone()).attempts()
    }

    async fn insert(&self, session: &mut ClientSession, entry: &Entry) -> Result<(), BoxError> {
        self.sessions.note(session).await?;
        self.collection().insert_one(entry).session(session).await?;
        Ok(())
    }

    async fn complete(
        &self,
        session: &mut ClientSession,
        claim: &Claim,
        response: &Response,
    ) -> StoreResult<()> {
        let store = &self.store;
        store.complete_in(session, claim, response, RETENTION).await
    }

    /// Sorts by token, which grows with each acquisition of a key; MongoDB has no number that grows
    /// with each document.
    async fn entries(&self) -> Result<Vec<Entry>, BoxError> {
        let entries = self.collection();
        let sorted = entries.find(doc! {}).sort(doc! { "token": 1, "_id": 1 });
        let mut cursor = sorted.await?;
        let mut entries = Vec::new();
        while cursor.advance().await? {
            entries.push(cursor.deserialize_current()?);
        }
        Ok(entries)
    }
}
