//! MongoDB and compatible servers.

use std::net::SocketAddr;

use async_trait::async_trait;
#[cfg(feature = "suite")]
use idem_conformance::CallerTransaction;
use idem_core::BoxError;
use idem_mongo::mongodb::bson::{Document, doc};
use idem_mongo::mongodb::options::ClientOptions;
use idem_mongo::mongodb::{Client, Database};
use idem_mongo::{Config, MongoStore};

use crate::{Adapter, ServerUrl};

/// A server. Each namespace is a database.
#[derive(Debug, Clone)]
pub struct Mongo {
    url: ServerUrl,
}

impl Mongo {
    /// Creates the adapter of the server at this URL.
    pub fn new(url: impl Into<ServerUrl>) -> Self {
        Self { url: url.into() }
    }

    /// Returns the configuration of a namespace's store.
    ///
    /// # Errors
    ///
    /// An error when this cannot be the name of a database.
    pub fn config(&self, namespace: &str) -> Result<Config, BoxError> {
        Ok(Config::new().with_database(namespace)?)
    }

    /// Returns the options for clients beside the store's.
    ///
    /// # Errors
    ///
    /// An error when the URL cannot be read.
    pub async fn options(&self) -> Result<ClientOptions, BoxError> {
        Ok(ClientOptions::parse(self.url.as_str()).await?)
    }

    /// Returns a database of a client beside the store's.
    ///
    /// # Errors
    ///
    /// An error when the URL cannot be read.
    pub async fn database(&self, name: &str) -> Result<Database, BoxError> {
        Ok(Client::with_options(self.options().await?)?.database(name))
    }

    /// Returns name and version of the product that answers `buildInfo` so. Compatible servers
    /// report the MongoDB version that they follow, and their own beside it or none.
    #[must_use]
    pub fn product_of(build: &Document) -> (String, String) {
        let text = |field: &str| build.get_str(field).unwrap_or_default().to_owned();
        for (field, name) in [
            ("secantusVersion", "secantusd"),
            ("ferretdbVersion", "FerretDB"),
        ] {
            if build.contains_key(field) {
                return (format!("{name} (MongoDB-compatible)"), text(field));
            }
        }
        let has_source = text("gitVersion").bytes().any(|digit| digit != b'0');
        let name = match has_source && build.contains_key("buildEnvironment") {
            true => "MongoDB",
            false => "unknown (MongoDB-compatible)",
        };
        (name.to_owned(), text("version"))
    }
}

#[async_trait]
impl Adapter for Mongo {
    type Store = MongoStore;

    async fn product(&self) -> Result<(String, String), BoxError> {
        let admin = self.database("admin").await?;
        let build = admin.run_command(doc! { "buildInfo": 1 }).await?;
        Ok(Self::product_of(&build))
    }

    async fn create(&self, namespace: &str) -> Result<(), BoxError> {
        Ok(self.store(namespace).await?.migrate().await?)
    }

    async fn store(&self, namespace: &str) -> Result<MongoStore, BoxError> {
        let config = self.config(namespace)?;
        Ok(MongoStore::connect(self.url.as_str(), config).await?)
    }

    async fn destroy(&self, namespace: &str) -> Result<(), BoxError> {
        Ok(self.database(namespace).await?.drop().await?)
    }

    fn url(&self) -> Option<&ServerUrl> {
        Some(&self.url)
    }

    fn with_url(mut self, url: ServerUrl) -> Self {
        self.url = url;
        self
    }

    /// Forgets the replica set, whose members the driver would find by their own addresses.
    fn through(&self, address: SocketAddr) -> Option<Self> {
        let url = self.url.through(address);
        let plain = url.as_str().split('?').next().unwrap_or_default();
        let has_path = plain.split("://").any(|part| part.contains('/'));
        let slash = if has_path { "" } else { "/" };
        let query = "directConnection=true&serverSelectionTimeoutMS=5000";
        Some(Self::new(format!("{plain}{slash}?{query}")))
    }

    #[cfg(feature = "suite")]
    async fn begin(&self, namespace: &str) -> Result<Option<Box<dyn CallerTransaction>>, BoxError> {
        let store = self.store(namespace).await?;
        let mut attempts = idem_mongo::Transactions::new(&store).attempts();
        let transaction = attempts.begin().await?;
        Ok(Some(Box::new(crate::Begun { store, transaction })))
    }
}

#[cfg(feature = "suite")]
crate::suite::caller_transaction!(
    MongoStore,
    idem_mongo::mongodb::ClientSession,
    commit_transaction,
    abort_transaction
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_not_taken_for_the_mongodb_that_it_follows() {
        let product = |build: Document| Mongo::product_of(&build).0;
        let git = "cd8cb1f9e3a6e9d4c8a2f2e6b21b0f2f0a4c1d2e";
        let own = doc! { "version": "8.0.4", "gitVersion": git, "buildEnvironment": {} };
        assert_eq!(product(own), "MongoDB");
        let other = doc! { "version": "8.2.11", "secantusVersion": "0.5.3" };
        assert_eq!(product(other), "secantusd (MongoDB-compatible)");
        let silent = doc! { "version": "8.0.4" };
        assert_eq!(product(silent), "unknown (MongoDB-compatible)");
    }

    #[test]
    fn a_proxy_is_no_member_of_a_replica_set() {
        let set = Mongo::new("mongodb://me:x@one:1,two:2/shop?replicaSet=x");
        let proxied = set.through(([127, 0, 0, 1], 9).into()).unwrap();
        let expected =
            "mongodb://me:x@127.0.0.1:9/shop?directConnection=true&serverSelectionTimeoutMS=5000";
        assert_eq!(proxied.url().unwrap().as_str(), expected);
    }
}
