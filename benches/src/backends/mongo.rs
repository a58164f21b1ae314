//! MongoDB and compatible servers.

use std::sync::Arc;

use async_trait::async_trait;
use idem_core::{BoxError, ClaimRequest};
use idem_mongo::mongodb::bson::spec::BinarySubtype;
use idem_mongo::mongodb::bson::{Binary, Document, doc};
use idem_mongo::mongodb::options::{ClientOptions, CollectionOptions, WriteConcern};
use idem_mongo::mongodb::{Client, Collection};
use idem_mongo::{Config, MongoStore, Transactions};

use super::{HELD, namespace};
use crate::backend::{holding, one_row};
use crate::{Backend, Handle, OpenTransaction, Share, Statements};

/// A server; each namespace is a database.
#[derive(Debug)]
pub(super) struct Mongo {
    url: String,
}

impl Mongo {
    pub(super) fn at(url: String) -> Self {
        Self { url }
    }

    async fn store(&self, namespace: &str) -> Result<MongoStore, BoxError> {
        let config = Config::new().with_database(namespace)?;
        Ok(MongoStore::connect(&self.url, config).await?)
    }

    async fn client(&self, connections: Option<u32>) -> Result<Client, BoxError> {
        let mut options = ClientOptions::parse(&self.url).await?;
        options.max_pool_size = connections;
        Ok(Client::with_options(options)?)
    }

    /// Returns the collection, as durable as the store: journaled by a majority.
    async fn collection(
        &self,
        namespace: &str,
        connections: Option<u32>,
    ) -> Result<Arc<dyn Statements>, BoxError> {
        let mut concern = WriteConcern::majority();
        concern.journal = Some(true);
        let options = CollectionOptions::builder().write_concern(concern).build();
        let database = self.client(connections).await?.database(namespace);
        Ok(Arc::new(Bares(
            database.collection_with_options("bare", options),
        )))
    }
}

#[async_trait]
impl Backend for Mongo {
    fn name(&self) -> &str {
        "mongo"
    }

    async fn create(&self) -> Result<String, BoxError> {
        let namespace = namespace();
        self.store(&namespace).await?.migrate().await?;
        let database = self.client(None).await?.database(&namespace);
        database.create_collection("bare").await?;
        Ok(namespace)
    }

    async fn open(&self, namespace: &str) -> Result<Handle, BoxError> {
        Ok(Handle::Batch(Arc::new(self.store(namespace).await?)))
    }

    async fn destroy(&self, namespace: &str) -> Result<(), BoxError> {
        let database = self.client(None).await?.database(namespace);
        Ok(database.drop().await?)
    }

    async fn lock(
        &self,
        namespace: &str,
        request: &ClaimRequest,
    ) -> Result<Option<OpenTransaction>, BoxError> {
        let store = self.store(namespace).await?;
        let mut attempts = Transactions::new(store.client().clone()).attempts();
        let mut session = attempts.begin().await?;
        let outcome = store.claim_in(&mut session, request).await?;
        holding(session, &outcome)
    }

    /// The driver's client is a pool with internal connections: here with the driver's default of
    /// ten, and in `held` with as many as the store.
    async fn pooled(&self, namespace: &str) -> Result<Option<Arc<dyn Statements>>, BoxError> {
        Ok(Some(self.collection(namespace, None).await?))
    }

    async fn held(&self, namespace: &str) -> Result<Arc<dyn Statements>, BoxError> {
        self.collection(namespace, Some(HELD)).await
    }

    fn share(&self) -> Option<Share> {
        Some(Share::One)
    }
}

struct Bares(Collection<Document>);

#[async_trait]
impl Statements for Bares {
    async fn insert(&self, id: &str) -> Result<(), BoxError> {
        self.0.insert_one(doc! { "_id": id }).await?;
        Ok(())
    }

    async fn update(&self, id: &str, response: &[u8]) -> Result<(), BoxError> {
        let response = Binary {
            subtype: BinarySubtype::Generic,
            bytes: response.to_vec(),
        };
        let set = doc! { "$set": { "response": response } };
        let done = self.0.update_one(doc! { "_id": id }, set).await?;
        one_row(done.matched_count)
    }

    async fn select(&self, id: &str) -> Result<usize, BoxError> {
        let found = self.0.find_one(doc! { "_id": id }).await?;
        let found = found.ok_or("no such key")?;
        Ok(found.get_binary_generic("response")?.len())
    }
}
