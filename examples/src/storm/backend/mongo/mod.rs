//! MongoDB: records and ledger in a database for each run.

mod sessions;

use async_trait::async_trait;
use idem_core::{BoxError, IdempotencyStore, Response};
use idem_mongo::mongodb::bson::{Document, doc};
use idem_mongo::mongodb::options::ClientOptions;
use idem_mongo::mongodb::{Client, ClientSession, Collection, Database};
use idem_mongo::{Config, MongoStore, Transactions};
use std::sync::Arc;

use super::{Backend, Location, RETENTION, SERVER_TIMEOUT, Settlement};
use crate::storm::entry::Entry;
use crate::storm::point::Point;
use crate::storm::stop::Stop;
use crate::storm::url::without_credentials;
use sessions::Sessions;

const LEDGER: &str = "ledger";

#[derive(Debug)]
pub(crate) struct Mongo {
    store: MongoStore,
    database: Database,
    sessions: Sessions,
}

impl Mongo {
    pub(crate) async fn open(location: &Location) -> Result<Self, Stop> {
        let client = client(location)
            .await
            .map_err(|error| Stop::because("--store: the URL cannot be read", &error))?;
        reach(&client, &location.url).await?;
        let config = Config::new()
            .with_database(&location.namespace)
            .map_err(|error| Stop::because("--store", &error))?;
        let sessions = Sessions::new(&client, &location.namespace, &location.worker);
        sessions
            .end()
            .await
            .map_err(|error| Stop::because("--store", &*error))?;
        Ok(Self {
            sessions,
            database: client.database(&location.namespace),
            store: MongoStore::with_config(client, config),
        })
    }

    fn entries(&self) -> Collection<Entry> {
        self.database.collection(LEDGER)
    }

    /// Writes the contents of one transaction: the effect, and the answer for every later delivery.
    async fn write(
        &self,
        transaction: &mut ClientSession,
        settlement: &Settlement,
    ) -> Result<(), BoxError> {
        let Settlement {
            claim,
            entry,
            response,
            probe,
        } = settlement;
        self.sessions.note(transaction).await?;
        self.entries()
            .insert_one(entry)
            .session(&mut *transaction)
            .await?;
        self.store
            .complete_in(transaction, claim, response, RETENTION)
            .await?;
        probe.pass(Point::Uncommitted).await;
        Ok(())
    }
}

async fn client(location: &Location) -> Result<Client, idem_mongo::mongodb::error::Error> {
    let mut options = ClientOptions::parse(&location.url).await?;
    options.app_name = Some("idem-storm".to_owned());
    options.max_pool_size = Some(location.connections);
    options.server_selection_timeout = Some(SERVER_TIMEOUT);
    Client::with_options(options)
}

/// Sends one command, because the driver connects with the first command.
async fn reach(client: &Client, url: &str) -> Result<(), Stop> {
    let admin = client.database("admin");
    let hello = admin.run_command(doc! { "hello": 1 });
    let answer = hello.await.map_err(|error| {
        let server = without_credentials(url);
        let away = format!("--store: MongoDB at {server} cannot be reached");
        Stop::because(
            format!("{away}; is it running, and is the URL right?"),
            &error,
        )
    });
    answer.map(drop)
}

#[async_trait]
impl Backend for Mongo {
    fn store(&self) -> Arc<dyn IdempotencyStore> {
        Arc::new(self.store.clone())
    }

    async fn product(&self) -> Result<String, BoxError> {
        let info = self.database.run_command(doc! { "buildInfo": 1 }).await?;
        Ok(product(&info))
    }

    /// The ledger has no unique index: a second effect has to be visible, not refused.
    async fn create(&self) -> Result<(), BoxError> {
        self.store.migrate().await?;
        Ok(self.database.create_collection(LEDGER).await?)
    }

    async fn remove(&self) -> Result<(), BoxError> {
        self.sessions.end().await?;
        Ok(self.database.drop().await?)
    }

    async fn settle(&self, settlement: &Settlement) -> Result<Response, BoxError> {
        let transactions = Transactions::new(self.store.client().clone());
        let mut attempts = transactions.attempts();
        loop {
            let mut transaction = attempts.begin().await?;
            let result = self.write(&mut transaction, settlement).await;
            if let Some(result) = attempts.finish(transaction, result).await {
                return result.map(|()| settlement.response.clone());
            }
        }
    }

    async fn append(&self, entry: &Entry) -> Result<(), BoxError> {
        self.entries().insert_one(entry).await?;
        Ok(())
    }

    /// Sorts by token, which grows with each acquisition of a key; MongoDB has no number that grows
    /// with each document.
    async fn ledger(&self) -> Result<Vec<Entry>, BoxError> {
        let entries = self.entries();
        let sorted = entries.find(doc! {}).sort(doc! { "token": 1, "_id": 1 });
        let mut cursor = sorted.await?;
        let mut entries = Vec::new();
        while cursor.advance().await? {
            entries.push(cursor.deserialize_current()?);
        }
        Ok(entries)
    }
}

/// Reads `buildInfo`. A server that only speaks MongoDB's protocol may name itself there, beside
/// the version of the MongoDB that it follows.
fn product(info: &Document) -> String {
    if let Ok(version) = info.get_str("secantusVersion") {
        return format!("secantusd (MongoDB-compatible) {version}");
    }
    format!("MongoDB {}", info.get_str("version").unwrap_or("unknown"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_not_taken_for_the_mongodb_that_it_follows() {
        assert_eq!(product(&doc! { "version": "8.0.4" }), "MongoDB 8.0.4");
        let other = doc! { "version": "8.2.11", "secantusVersion": "0.5.3" };
        assert_eq!(product(&other), "secantusd (MongoDB-compatible) 0.5.3");
    }
}
