//! MongoDB, and servers like it.

use std::sync::Arc;

use async_trait::async_trait;
use idem_conformance::{Harness, Product, Profile};
use idem_core::{BatchStore, BoxError, ClaimRequest, IdempotencyStore};
use idem_mongo::mongodb::bson::spec::BinarySubtype;
use idem_mongo::mongodb::bson::{Binary, Document, doc};
use idem_mongo::mongodb::options::{ClientOptions, CollectionOptions, WriteConcern};
use idem_mongo::mongodb::{Client, Collection};
use idem_mongo::{Config, MongoStore, Transactions};

use super::namespace;
use crate::bare::one_row;
use crate::locker::holding;
use crate::{Bare, Locker, OpenTransaction, Share, Statements, Subject};

/// A server; each namespace is a database.
#[derive(Debug)]
struct Mongo {
    url: String,
}

pub(super) fn subject(url: String) -> Subject {
    let mongo = Arc::new(Mongo { url });
    Subject::new(Arc::clone(&mongo) as Arc<dyn Harness>)
        .with_bare(Arc::clone(&mongo) as Arc<dyn Bare>)
        .with_locker(mongo)
}

impl Mongo {
    async fn store(&self, namespace: &str) -> Result<MongoStore, BoxError> {
        let config = Config::new().with_database(namespace)?;
        Ok(MongoStore::connect(&self.url, config).await?)
    }

    async fn client(&self, connections: Option<u32>) -> Result<Client, BoxError> {
        let mut options = ClientOptions::parse(&self.url).await?;
        options.max_pool_size = connections;
        Ok(Client::with_options(options)?)
    }

    /// As durable as the store: journaled by a majority.
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
impl Harness for Mongo {
    fn name(&self) -> &str {
        "mongo"
    }

    fn profile(&self) -> Profile {
        let profile = Profile::new().durable().server_clock();
        profile.batch().self_expiring()
    }

    async fn product(&self) -> Result<Product, BoxError> {
        let admin = self.client(None).await?.database("admin");
        let build = admin.run_command(doc! { "buildInfo": 1 }).await?;
        let version = build.get_str("version").unwrap_or("?");
        Ok(Product::new("MongoDB or like it", version))
    }

    async fn create(&self) -> Result<String, BoxError> {
        let namespace = namespace();
        self.store(&namespace).await?.migrate().await?;
        Ok(namespace)
    }

    async fn open(&self, namespace: &str) -> Result<Arc<dyn IdempotencyStore>, BoxError> {
        Ok(Arc::new(self.store(namespace).await?))
    }

    async fn open_batch(&self, namespace: &str) -> Result<Option<Arc<dyn BatchStore>>, BoxError> {
        Ok(Some(Arc::new(self.store(namespace).await?)))
    }

    async fn destroy(&self, namespace: &str) -> Result<(), BoxError> {
        let database = self.client(None).await?.database(namespace);
        Ok(database.drop().await?)
    }
}

#[async_trait]
impl Locker for Mongo {
    async fn lock(
        &self,
        namespace: &str,
        request: &ClaimRequest,
    ) -> Result<OpenTransaction, BoxError> {
        let store = self.store(namespace).await?;
        let mut attempts = Transactions::new(store.client().clone()).attempts();
        let mut session = attempts.begin().await?;
        let outcome = store.claim_in(&mut session, request).await?;
        holding(session, &outcome)
    }
}

/// As many connections as the store has.
const CONNECTIONS: u32 = 64;

/// The driver's client is a pool that keeps its connections to itself. As people write it, it has the driver's own ten
/// connections, at its best as many as the store's.
#[async_trait]
impl Bare for Mongo {
    async fn create(&self, namespace: &str) -> Result<(), BoxError> {
        let database = self.client(None).await?.database(namespace);
        Ok(database.create_collection("bare").await?)
    }

    async fn pooled(&self, namespace: &str) -> Result<Option<Arc<dyn Statements>>, BoxError> {
        Ok(Some(self.collection(namespace, None).await?))
    }

    async fn held(&self, namespace: &str) -> Result<Arc<dyn Statements>, BoxError> {
        self.collection(namespace, Some(CONNECTIONS)).await
    }

    fn share(&self) -> Share {
        Share::One
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
