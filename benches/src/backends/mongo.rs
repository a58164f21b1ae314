//! MongoDB and compatible servers.

use std::sync::Arc;

use async_trait::async_trait;
use idem_conformance::Profile;
use idem_core::BoxError;
use idem_mongo::mongodb::bson::spec::BinarySubtype;
use idem_mongo::mongodb::bson::{Binary, Document, doc};
use idem_mongo::mongodb::options::{CollectionOptions, WriteConcern};
use idem_mongo::mongodb::{Client, Collection};
use idem_stores::{Mongo, Suite};

use super::HELD;
use crate::backend::one_row;
use crate::{Backend, Baseline, Statements};

struct Bare(Mongo);

/// Returns the server at this URL.
pub(super) fn backend(name: &str, url: String) -> Backend {
    let adapter = Mongo::new(url);
    let suite = Suite::new(name, adapter.clone(), Profile::new().row_locks());
    Backend::new(suite).with_baseline(Bare(adapter))
}

impl Bare {
    /// Returns the collection, as durable as the store: journaled by a majority.
    async fn collection(
        &self,
        namespace: &str,
        connections: Option<u32>,
    ) -> Result<Arc<dyn Statements>, BoxError> {
        let mut concern = WriteConcern::majority();
        concern.journal = Some(true);
        let options = CollectionOptions::builder().write_concern(concern).build();
        let mut client = self.0.options().await?;
        client.max_pool_size = connections;
        let database = Client::with_options(client)?.database(namespace);
        Ok(Arc::new(Documents(
            database.collection_with_options("bare", options),
        )))
    }
}

#[async_trait]
impl Baseline for Bare {
    async fn create(&self, namespace: &str) -> Result<(), BoxError> {
        let database = self.0.database(namespace).await?;
        Ok(database.create_collection("bare").await?)
    }

    /// The driver's client is a pool with internal connections: here with the driver's default of
    /// ten, and in `held` with as many as the other servers' stores.
    async fn pooled(&self, namespace: &str) -> Result<Option<Arc<dyn Statements>>, BoxError> {
        Ok(Some(self.collection(namespace, None).await?))
    }

    async fn held(&self, namespace: &str) -> Result<Arc<dyn Statements>, BoxError> {
        self.collection(namespace, Some(HELD)).await
    }
}

struct Documents(Collection<Document>);

#[async_trait]
impl Statements for Documents {
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
