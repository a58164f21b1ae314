//! How the tests reach a MongoDB.

pub(crate) mod standalone;
mod transaction;
mod watch;

pub(crate) use watch::Watch;

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use idem_conformance::{
    CallerTransaction, CaseError, Context, Harness, Missing, Product, Profile, with_password,
};
use idem_core::{AttemptId, BatchStore, BoxError, IdempotencyStore, async_trait};
use idem_mongo::mongodb::bson::{Document, doc};
use idem_mongo::mongodb::options::{ClientOptions, ServerAddress};
use idem_mongo::mongodb::{Client, Database};
use idem_mongo::{Config, MongoStore};

const NAME: &str = "mongo";

/// A server. Each namespace is a database.
pub(crate) struct MongoHarness {
    url: String,
}

impl MongoHarness {
    /// Returns the server that the environment names, or one started for the tests.
    pub(crate) fn from_environment() -> Result<Self, Missing> {
        let missing = || Missing::new(idem_servers::missing_reason(NAME));
        let url = idem_servers::url_for(NAME).ok_or_else(missing)?;
        Ok(Self { url })
    }

    /// Returns the names for a namespace.
    pub(crate) fn config(&self, namespace: &str) -> Result<Config, BoxError> {
        Ok(Config::new().with_database(namespace)?)
    }

    /// Returns a store of the concrete type.
    pub(crate) async fn store(&self, namespace: &str) -> Result<MongoStore, BoxError> {
        Ok(MongoStore::connect(&self.url, self.config(namespace)?).await?)
    }

    /// Returns the options of the tests' own clients.
    pub(crate) async fn options(&self) -> Result<ClientOptions, BoxError> {
        Ok(ClientOptions::parse(&self.url).await?)
    }

    /// Returns a database of the tests' own client.
    pub(crate) async fn database(&self, name: &str) -> Result<Database, BoxError> {
        Ok(Client::with_options(self.options().await?)?.database(name))
    }
}

/// Returns the harness that a case runs on.
pub(crate) fn harness() -> Result<MongoHarness, CaseError> {
    MongoHarness::from_environment().map_err(|missing| CaseError::new(missing.to_string()))
}

/// Returns the records of a case, as documents.
pub(crate) async fn documents(cx: &Context) -> Result<Vec<Document>, CaseError> {
    let database = harness()?.database(cx.namespace()).await?;
    let records = database.collection::<Document>("idem_records");
    let mut cursor = records
        .find(doc! { "token": { "$exists": true } })
        .sort(doc! { "_id": 1 })
        .await?;
    let mut found = Vec::new();
    while cursor.advance().await? {
        found.push(cursor.deserialize_current()?);
    }
    Ok(found)
}

#[async_trait]
impl Harness for MongoHarness {
    fn name(&self) -> &str {
        NAME
    }

    /// The TTL monitor deletes expired records, and nothing counts them.
    fn profile(&self) -> Profile {
        Profile::new()
            .shared_between_processes()
            .durable()
            .password()
            .server_clock()
            .network()
            .batch()
            .self_expiring()
            .checkpoints()
            .watermarks()
            .transactions()
            .row_locks()
            .with_clock_tick(Duration::from_millis(1))
    }

    async fn product(&self) -> Result<Product, BoxError> {
        let admin = self.database("admin").await?;
        let build = admin.run_command(doc! { "buildInfo": 1 }).await?;
        Ok(product(&build))
    }

    async fn create(&self) -> Result<String, BoxError> {
        let random = u128::from_be_bytes(*AttemptId::random().as_bytes());
        let namespace = format!("idem_test_{random:032x}");
        self.store(&namespace).await?.migrate().await?;
        Ok(namespace)
    }

    async fn open_with_password(
        &self,
        namespace: &str,
        password: &str,
    ) -> Result<Option<Arc<dyn IdempotencyStore>>, BoxError> {
        let url = with_password(&self.url, "idem", password);
        let store = MongoStore::connect(&url, self.config(namespace)?).await?;
        Ok(Some(Arc::new(store)))
    }

    async fn open(&self, namespace: &str) -> Result<Arc<dyn IdempotencyStore>, BoxError> {
        Ok(Arc::new(self.store(namespace).await?))
    }

    async fn destroy(&self, namespace: &str) -> Result<(), BoxError> {
        Ok(self.database(namespace).await?.drop().await?)
    }

    async fn open_batch(&self, namespace: &str) -> Result<Option<Arc<dyn BatchStore>>, BoxError> {
        Ok(Some(Arc::new(self.store(namespace).await?)))
    }

    async fn begin(&self, namespace: &str) -> Result<Option<Box<dyn CallerTransaction>>, BoxError> {
        let store = self.store(namespace).await?;
        Ok(Some(Box::new(transaction::begin(store).await?)))
    }

    async fn open_through(
        &self,
        namespace: &str,
        address: SocketAddr,
    ) -> Result<Option<Arc<dyn IdempotencyStore>>, BoxError> {
        let mut options = self.options().await?;
        options.hosts = vec![ServerAddress::Tcp {
            host: address.ip().to_string(),
            port: Some(address.port()),
        }];
        options.direct_connection = Some(true);
        options.repl_set_name = None;
        options.server_selection_timeout = Some(Duration::from_secs(5));
        let client = Client::with_options(options)?;
        let store = MongoStore::with_config(client, self.config(namespace)?);
        Ok(Some(Arc::new(store)))
    }

    fn server_address(&self) -> Option<SocketAddr> {
        let (_, rest) = self.url.split_once("://")?;
        let authority = rest.split(['/', '?']).next()?;
        let hosts = authority.rsplit('@').next()?;
        hosts.split(',').next()?.to_socket_addrs().ok()?.next()
    }
}

/// Identifies the product. Compatible servers report the MongoDB version that they follow, and
/// their own beside it or none.
fn product(build: &Document) -> Product {
    let text = |field: &str| build.get_str(field).unwrap_or_default();
    for (field, name) in [
        ("secantusVersion", "secantusd"),
        ("ferretdbVersion", "FerretDB"),
    ] {
        if build.contains_key(field) {
            return Product::new(format!("{name} (MongoDB-compatible)"), text(field));
        }
    }
    let has_source = text("gitVersion").bytes().any(|digit| digit != b'0');
    match has_source && build.contains_key("buildEnvironment") {
        true => Product::new("MongoDB", text("version")),
        false => Product::new("unknown (MongoDB-compatible)", text("version")),
    }
}
