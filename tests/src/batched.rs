//! [`Batched`]: the harness of a store behind `idem_core::wrappers::Batched`.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use idem_core::{BatchStore, BoxError, IdempotencyStore, Key};

use crate::{CallerTransaction, Harness, Product, Profile};

/// The stores of another harness, which promises batches. Each is behind its own
/// `idem_core::wrappers::Batched` with one lane: with few lanes callers wait, and waiting callers
/// share a batch.
#[derive(Debug)]
pub struct Batched<H> {
    name: String,
    harness: H,
}

impl<H: Harness> Batched<H> {
    /// Wraps this harness, with `-one-lane` after its name.
    pub fn new(harness: H) -> Self {
        let name = format!("{}-one-lane", harness.name());
        Self { name, harness }
    }

    async fn behind(&self, namespace: &str) -> Result<Arc<dyn BatchStore>, BoxError> {
        let store = self.harness.open_batch(namespace).await?;
        Ok(gathered(store.ok_or("the harness gives no batches")?))
    }
}

fn gathered(store: Arc<dyn BatchStore>) -> Arc<dyn BatchStore> {
    Arc::new(idem_core::wrappers::Batched::new(store).with_lanes(1))
}

#[async_trait]
impl<H: Harness> Harness for Batched<H> {
    fn name(&self) -> &str {
        &self.name
    }

    fn profile(&self) -> Profile {
        self.harness.profile()
    }

    async fn product(&self) -> Result<Product, BoxError> {
        self.harness.product().await
    }

    async fn create(&self) -> Result<String, BoxError> {
        self.harness.create().await
    }

    async fn open(&self, namespace: &str) -> Result<Arc<dyn IdempotencyStore>, BoxError> {
        Ok(self.behind(namespace).await?)
    }

    async fn destroy(&self, namespace: &str) -> Result<(), BoxError> {
        self.harness.destroy(namespace).await
    }

    async fn open_batch(&self, namespace: &str) -> Result<Option<Arc<dyn BatchStore>>, BoxError> {
        self.behind(namespace).await.map(Some)
    }

    async fn open_through(
        &self,
        namespace: &str,
        address: SocketAddr,
    ) -> Result<Option<Arc<dyn IdempotencyStore>>, BoxError> {
        let store = self.open_batch_through(namespace, address).await?;
        Ok(store.map(|store| store as _))
    }

    async fn open_batch_through(
        &self,
        namespace: &str,
        address: SocketAddr,
    ) -> Result<Option<Arc<dyn BatchStore>>, BoxError> {
        let store = self.harness.open_batch_through(namespace, address).await?;
        Ok(store.map(gathered))
    }

    async fn begin(&self, namespace: &str) -> Result<Option<Box<dyn CallerTransaction>>, BoxError> {
        self.harness.begin(namespace).await
    }

    async fn damage(&self, namespace: &str, key: &Key) -> Result<bool, BoxError> {
        self.harness.damage(namespace, key).await
    }

    async fn open_with_password(
        &self,
        namespace: &str,
        password: &str,
    ) -> Result<Option<Arc<dyn IdempotencyStore>>, BoxError> {
        self.harness.open_with_password(namespace, password).await
    }

    fn server_address(&self) -> Option<SocketAddr> {
        self.harness.server_address()
    }
}
