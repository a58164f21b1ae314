//! [`Protected`]: the harness of a store behind `idem_core::wrappers::Protected`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use idem_core::wrappers::protected::{DataKey, KeyRing, Peppers};
use idem_core::{
    BatchStore, BoxError, Claim, ClaimOutcome, ClaimRequest, IdempotencyStore, Key, Response,
    Result,
};

use crate::{CallerTransaction, Harness, Product, Profile};

/// More bytes than encryption adds to a result.
const OVERHEAD: usize = 128;

/// The stores of another harness, each behind an `idem_core::wrappers::Protected` of its own.
///
/// As in the middle of a change of keys, every other handle encrypts under another key, and hashes
/// with another pepper, than the one before. All of them know all keys and peppers.
#[derive(Debug)]
pub struct Protected<H> {
    name: String,
    harness: H,
    is_changed: AtomicBool,
}

impl<H: Harness> Protected<H> {
    /// Wraps this harness, with `-protected` after its name.
    pub fn new(harness: H) -> Self {
        Self {
            name: format!("{}-protected", harness.name()),
            harness,
            is_changed: AtomicBool::new(false),
        }
    }

    fn before<S>(&self, store: S) -> Result<idem_core::wrappers::Protected<S>> {
        const KEYS: [(&str, u8); 2] = [("before", 3), ("after", 4)];
        const PEPPERS: [[u8; 32]; 2] = [[5; 32], [6; 32]];
        let now = usize::from(self.is_changed.fetch_xor(true, Ordering::Relaxed));
        let key = |(id, byte)| DataKey::new(id, &[byte; 32]);
        let ring = KeyRing::new(key(KEYS[now])?);
        ring.add(key(KEYS[1 - now])?)?;
        let peppers = Peppers::new(PEPPERS[now])?.with_former(PEPPERS[1 - now])?;
        Ok(idem_core::wrappers::Protected::new(store)
            .with_keys(Arc::new(ring))
            .with_peppers(peppers))
    }

    fn one(
        &self,
        store: Option<Arc<dyn IdempotencyStore>>,
    ) -> Result<Option<Arc<dyn IdempotencyStore>>, BoxError> {
        let store = store.map(|store| self.before(store)).transpose()?;
        Ok(store.map(|store| Arc::new(store) as _))
    }

    fn batch(
        &self,
        store: Option<Arc<dyn BatchStore>>,
    ) -> Result<Option<Arc<dyn BatchStore>>, BoxError> {
        let store = store.map(|store| self.before(store)).transpose()?;
        Ok(store.map(|store| Arc::new(store) as _))
    }
}

#[async_trait]
impl<H: Harness> Harness for Protected<H> {
    fn name(&self) -> &str {
        &self.name
    }

    fn profile(&self) -> Profile {
        let profile = self.harness.profile();
        let bytes = profile.max_result_bytes().saturating_sub(OVERHEAD);
        profile.with_max_result_bytes(bytes)
    }

    async fn product(&self) -> Result<Product, BoxError> {
        self.harness.product().await
    }

    async fn create(&self) -> Result<String, BoxError> {
        self.harness.create().await
    }

    async fn open(&self, namespace: &str) -> Result<Arc<dyn IdempotencyStore>, BoxError> {
        Ok(Arc::new(self.before(self.harness.open(namespace).await?)?))
    }

    async fn destroy(&self, namespace: &str) -> Result<(), BoxError> {
        self.harness.destroy(namespace).await
    }

    async fn open_batch(&self, namespace: &str) -> Result<Option<Arc<dyn BatchStore>>, BoxError> {
        self.batch(self.harness.open_batch(namespace).await?)
    }

    async fn open_through(
        &self,
        namespace: &str,
        address: SocketAddr,
    ) -> Result<Option<Arc<dyn IdempotencyStore>>, BoxError> {
        self.one(self.harness.open_through(namespace, address).await?)
    }

    async fn open_batch_through(
        &self,
        namespace: &str,
        address: SocketAddr,
    ) -> Result<Option<Arc<dyn BatchStore>>, BoxError> {
        self.batch(self.harness.open_batch_through(namespace, address).await?)
    }

    async fn begin(&self, namespace: &str) -> Result<Option<Box<dyn CallerTransaction>>, BoxError> {
        let Some(transaction) = self.harness.begin(namespace).await? else {
            return Ok(None);
        };
        let parts = self.before(self.harness.open(namespace).await?)?;
        Ok(Some(Box::new(Begun { parts, transaction })))
    }

    async fn damage(&self, namespace: &str, key: &Key) -> Result<bool, BoxError> {
        self.harness.damage(namespace, key).await
    }

    async fn open_with_password(
        &self,
        namespace: &str,
        password: &str,
    ) -> Result<Option<Arc<dyn IdempotencyStore>>, BoxError> {
        self.one(self.harness.open_with_password(namespace, password).await?)
    }

    fn server_address(&self) -> Option<SocketAddr> {
        self.harness.server_address()
    }
}

/// A caller's transaction on the bare store, and the parts that protect what goes there.
struct Begun {
    parts: idem_core::wrappers::Protected<Arc<dyn IdempotencyStore>>,
    transaction: Box<dyn CallerTransaction>,
}

#[async_trait]
impl CallerTransaction for Begun {
    async fn claim(&mut self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        let mut sent = self.parts.protect_claim(request)?;
        loop {
            let outcome = self.transaction.claim(&sent).await?;
            match self.parts.protect_again(request, &outcome)? {
                Some(again) => sent = again,
                None => return self.parts.reveal(request, outcome).await,
            }
        }
    }

    async fn complete(
        &mut self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        let sealed = self.parts.protect_response(claim, response)?;
        self.transaction.complete(claim, &sealed, retention).await
    }

    async fn commit(self: Box<Self>) -> Result<(), BoxError> {
        self.transaction.commit().await
    }

    async fn rollback(self: Box<Self>) -> Result<(), BoxError> {
        self.transaction.rollback().await
    }
}
