//! [`Operators`]: the operator's server as a target of the suite.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use idem_conformance::{Harness, Product, Profile};
use idem_core::{AttemptId, BatchStore, BoxError, IdempotencyStore};

use crate::args::StoreArgs;
use crate::backend::{Backend, Kind, Purpose, connect};
use crate::failure::{Failure, Result};

pub(super) const NAME: &str = "server";

/// The start of each name that the suite makes.
const PREFIX: &str = "idem_certify_";

/// The operator's server. Each namespace has tables, a collection, a prefix or a file of its own.
pub(super) struct Operators {
    args: StoreArgs,
    profile: Profile,
}

impl Operators {
    /// Connects once, so that a bad URL is one error, and no case's.
    pub(super) async fn open(args: &StoreArgs) -> Result<Self> {
        if args.url()?.as_str().contains(":memory:") {
            return Err(Failure::usage(
                "a database in memory cannot be certified; name a file",
            ));
        }
        let kind = Kind::of(args)?;
        let purpose = match kind {
            // Beside its file others are made, so it need not be there.
            Kind::Sqlite => return Ok(Self::new(args, profile(kind, true))),
            _ => Purpose::Verify,
        };
        let store = connect(args, purpose).await?.store();
        Ok(Self::new(args, profile(kind, store.admin().is_some())))
    }

    fn new(args: &StoreArgs, profile: Profile) -> Self {
        let args = args.clone();
        Self { args, profile }
    }

    async fn connect(
        &self,
        namespace: &str,
        purpose: Purpose,
    ) -> Result<Box<dyn Backend>, BoxError> {
        let args = self.args.with_namespace(namespace)?;
        let opened = connect(&args, purpose).await;
        opened.map_err(|failure| failure.to_string().into())
    }
}

/// Returns what the kind of store promises, without what needs a proxy, a second login, or
/// transactions of the driver: the suites of this family test those.
fn profile(kind: Kind, has_admin: bool) -> Profile {
    let mut profile = Profile::new()
        .shared_between_processes()
        .durable()
        .batch()
        .checkpoints()
        .watermarks()
        // A server far away answers later than one on this machine.
        .with_shortest_lease(Duration::from_millis(250));
    if has_admin {
        profile = profile.admin();
    }
    match kind {
        Kind::Sqlite => profile.with_clock_tick(Duration::from_millis(1)),
        Kind::Mongo => profile
            .server_clock()
            .self_expiring()
            .with_clock_tick(Duration::from_millis(1)),
        Kind::Redis => profile.server_clock().self_expiring(),
        Kind::Mssql | Kind::Mysql | Kind::Postgres => profile.server_clock(),
    }
}

#[async_trait]
impl Harness for Operators {
    fn name(&self) -> &str {
        NAME
    }

    fn profile(&self) -> Profile {
        self.profile.clone()
    }

    async fn product(&self) -> Result<Product, BoxError> {
        Ok(Product::new(self.args.url().map(ToString::to_string)?, ""))
    }

    async fn create(&self) -> Result<String, BoxError> {
        let random = u128::from_be_bytes(*AttemptId::random().as_bytes());
        let namespace = format!("{PREFIX}{:016x}", random as u64);
        self.connect(&namespace, Purpose::Create)
            .await?
            .migrate()
            .await?;
        Ok(namespace)
    }

    async fn open(&self, namespace: &str) -> Result<Arc<dyn IdempotencyStore>, BoxError> {
        let store: Arc<dyn IdempotencyStore> = self.connect(namespace, Purpose::Use).await?.store();
        Ok(store)
    }

    async fn destroy(&self, namespace: &str) -> Result<(), BoxError> {
        let destroyed = self.connect(namespace, Purpose::Use).await?.destroy().await;
        destroyed.map_err(|failure| failure.to_string().into())
    }

    async fn open_batch(&self, namespace: &str) -> Result<Option<Arc<dyn BatchStore>>, BoxError> {
        Ok(Some(self.connect(namespace, Purpose::Use).await?.store()))
    }
}
