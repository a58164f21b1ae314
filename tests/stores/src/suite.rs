//! [`Suite`]: an adapter as a target of the conformance suite.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use idem_conformance::{CallerTransaction, Harness, Missing, Product, Profile, with_password};
use idem_core::{BatchStore, BoxError, IdempotencyStore, Key};

use crate::{Adapter, ServerUrl};

/// Returns the URL of the server with this name in `idem-servers`.
///
/// # Errors
///
/// The reason why there is none.
pub fn found(server: &str) -> Result<ServerUrl, Missing> {
    let missing = || Missing::new(idem_servers::missing_reason(server));
    let url = idem_servers::url_for(server).ok_or_else(missing)?;
    Ok(url.into())
}

/// A target of the suite.
#[derive(Debug, Clone)]
pub struct Suite<A> {
    name: String,
    profile: Profile,
    adapter: A,
    product: Option<String>,
    proxied: Option<A>,
}

impl<A: Adapter> Suite<A> {
    /// Creates a target with this name.
    pub fn new(name: impl Into<String>, adapter: A, profile: Profile) -> Self {
        Self {
            name: name.into(),
            profile,
            adapter,
            product: None,
            proxied: None,
        }
    }

    /// Reports the product by this name, which begins with the server's own name for it.
    #[must_use]
    pub fn with_product(mut self, product: impl Into<String>) -> Self {
        self.product = Some(product.into());
        self
    }

    /// Opens stores through a proxy with this adapter. Default: the target's.
    #[must_use]
    pub fn with_proxied(mut self, adapter: A) -> Self {
        self.proxied = Some(adapter);
        self
    }

    /// Returns the adapter.
    pub fn adapter(&self) -> &A {
        &self.adapter
    }

    async fn store_through(
        &self,
        namespace: &str,
        address: SocketAddr,
    ) -> Result<Option<A::Store>, BoxError> {
        let adapter = self.proxied.as_ref().unwrap_or(&self.adapter);
        match adapter.through(address) {
            Some(adapter) => Ok(Some(adapter.store(namespace).await?)),
            None => Ok(None),
        }
    }
}

#[async_trait]
impl<A: Adapter> Harness for Suite<A> {
    fn name(&self) -> &str {
        &self.name
    }

    fn profile(&self) -> Profile {
        self.profile.clone()
    }

    async fn product(&self) -> Result<Product, BoxError> {
        let (product, version) = self.adapter.product().await?;
        match &self.product {
            Some(name) if name.starts_with(&product) => Ok(Product::new(name, version)),
            Some(name) => Err(format!("this is not {name}: {product} {version}").into()),
            None => Ok(Product::new(product, version)),
        }
    }

    async fn create(&self) -> Result<String, BoxError> {
        let namespace = self.adapter.new_name();
        self.adapter.create(&namespace).await?;
        Ok(namespace)
    }

    async fn open(&self, namespace: &str) -> Result<Arc<dyn IdempotencyStore>, BoxError> {
        Ok(Arc::new(self.adapter.store(namespace).await?))
    }

    async fn destroy(&self, namespace: &str) -> Result<(), BoxError> {
        self.adapter.destroy(namespace).await
    }

    async fn open_batch(&self, namespace: &str) -> Result<Option<Arc<dyn BatchStore>>, BoxError> {
        Ok(Some(Arc::new(self.adapter.store(namespace).await?)))
    }

    async fn open_through(
        &self,
        namespace: &str,
        address: SocketAddr,
    ) -> Result<Option<Arc<dyn IdempotencyStore>>, BoxError> {
        let store = self.store_through(namespace, address).await?;
        Ok(store.map(|store| Arc::new(store) as Arc<dyn IdempotencyStore>))
    }

    async fn open_batch_through(
        &self,
        namespace: &str,
        address: SocketAddr,
    ) -> Result<Option<Arc<dyn BatchStore>>, BoxError> {
        let store = self.store_through(namespace, address).await?;
        Ok(store.map(|store| Arc::new(store) as Arc<dyn BatchStore>))
    }

    async fn begin(&self, namespace: &str) -> Result<Option<Box<dyn CallerTransaction>>, BoxError> {
        self.adapter.begin(namespace).await
    }

    async fn damage(&self, namespace: &str, key: &Key) -> Result<bool, BoxError> {
        self.adapter.damage(namespace, key).await
    }

    async fn open_with_password(
        &self,
        namespace: &str,
        password: &str,
    ) -> Result<Option<Arc<dyn IdempotencyStore>>, BoxError> {
        let Some(url) = self.adapter.url() else {
            return Ok(None);
        };
        // Redis compares a password without a user with that of its default user.
        let user = if url.scheme().starts_with("redis") {
            ""
        } else {
            "idem"
        };
        let url = url.each(|node| with_password(node, user, password));
        let adapter = self.adapter.clone().with_url(url);
        Ok(Some(Arc::new(adapter.store(namespace).await?)))
    }

    fn server_address(&self) -> Option<SocketAddr> {
        self.adapter.address()
    }
}

/// A caller's open transaction, and the store for it.
#[derive(Debug)]
pub struct Begun<S, T> {
    /// The store.
    pub store: S,
    /// The driver's transaction.
    pub transaction: T,
}

/// Implements the transaction of a store, with the driver's methods to commit and to roll back.
#[cfg(any(
    feature = "mongo",
    feature = "mssql",
    feature = "mysql",
    feature = "postgres",
    feature = "sqlite"
))]
macro_rules! caller_transaction {
    ($store:ty, $transaction:ty, $commit:ident, $rollback:ident) => {
        #[async_trait::async_trait]
        impl idem_conformance::CallerTransaction for crate::Begun<$store, $transaction> {
            async fn claim(
                &mut self,
                request: &idem_core::ClaimRequest,
            ) -> idem_core::Result<idem_core::ClaimOutcome> {
                self.store.claim_in(&mut self.transaction, request).await
            }

            async fn complete(
                &mut self,
                claim: &idem_core::Claim,
                response: &idem_core::Response,
                retention: std::time::Duration,
            ) -> idem_core::Result<()> {
                let (store, transaction) = (&self.store, &mut self.transaction);
                let completed = store.complete_in(transaction, claim, response, retention);
                completed.await
            }

            #[allow(unused_mut, reason = "some drivers take the transaction by reference")]
            async fn commit(mut self: Box<Self>) -> Result<(), idem_core::BoxError> {
                Ok(self.transaction.$commit().await?)
            }

            #[allow(unused_mut, reason = "some drivers take the transaction by reference")]
            async fn rollback(mut self: Box<Self>) -> Result<(), idem_core::BoxError> {
                Ok(self.transaction.$rollback().await?)
            }
        }
    };
}

#[cfg(any(
    feature = "mongo",
    feature = "mssql",
    feature = "mysql",
    feature = "postgres",
    feature = "sqlite"
))]
pub(crate) use caller_transaction;
