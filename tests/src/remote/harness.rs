//! The harness of a store behind TCP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use idem_core::{BoxError, IdempotencyStore};

use super::{Lie, RemoteStore, Server};
use crate::{Harness, Product, Profile};

/// Puts any store behind TCP, in this process, and tests it through TCP.
pub struct RemoteHarness<F> {
    server: Server,
    make: F,
    lie: Lie,
    max_wait: Duration,
    names: AtomicU64,
}

impl<F, S> RemoteHarness<F>
where
    F: Fn() -> S + Send + Sync + 'static,
    S: IdempotencyStore,
{
    /// Starts a server; `make` creates the store of each namespace.
    ///
    /// # Errors
    ///
    /// The operating system's error.
    pub fn start(make: F) -> std::io::Result<Self> {
        Ok(Self {
            server: Server::start()?,
            make,
            lie: Lie::Truth,
            max_wait: Duration::from_secs(30),
            names: AtomicU64::new(0),
        })
    }

    /// Sets how long a case waits.
    #[must_use]
    pub fn with_max_wait(mut self, max_wait: Duration) -> Self {
        self.max_wait = max_wait;
        self
    }

    /// Sets a client that lies.
    #[must_use]
    pub fn with_lie(mut self, lie: Lie) -> Self {
        self.lie = lie;
        self
    }
}

/// Parses `address/name/lie`, so that other processes find the server, and lie as this one does.
fn located(namespace: &str) -> Result<(SocketAddr, &str, Lie), BoxError> {
    let mut parts = namespace.split('/');
    let mut part = || parts.next().ok_or("a namespace is `address/name/lie`");
    let (address, name, lie) = (part()?.parse()?, part()?, part()?);
    let lie = Lie::ALL
        .into_iter()
        .find(|known| format!("{known:?}") == lie);
    Ok((address, name, lie.ok_or("an unknown lie")?))
}

#[async_trait]
impl<F, S> Harness for RemoteHarness<F>
where
    F: Fn() -> S + Send + Sync + 'static,
    S: IdempotencyStore,
{
    fn name(&self) -> &str {
        "remote"
    }

    fn profile(&self) -> Profile {
        Profile::new()
            .shared_between_processes()
            .durable()
            .server_clock()
            .network()
            .checkpoints()
            .watermarks()
            .admin()
            .with_max_result_bytes(64 << 10)
            .with_max_wait(self.max_wait)
    }

    async fn product(&self) -> Result<Product, BoxError> {
        let store = (self.make)();
        let product = format!("{} store behind TCP", store.backend());
        Ok(Product::new(product, env!("CARGO_PKG_VERSION")))
    }

    async fn create(&self) -> Result<String, BoxError> {
        let name = self.names.fetch_add(1, Ordering::Relaxed).to_string();
        self.server.insert(name.clone(), Arc::new((self.make)()));
        Ok(format!("{}/{name}/{:?}", self.server.address(), self.lie))
    }

    async fn open(&self, namespace: &str) -> Result<Arc<dyn IdempotencyStore>, BoxError> {
        let (address, name, lie) = located(namespace)?;
        Ok(Arc::new(RemoteStore::new(address, name, lie)))
    }

    async fn destroy(&self, namespace: &str) -> Result<(), BoxError> {
        self.server.remove(located(namespace)?.1);
        Ok(())
    }

    async fn open_through(
        &self,
        namespace: &str,
        address: SocketAddr,
    ) -> Result<Option<Arc<dyn IdempotencyStore>>, BoxError> {
        let (_, name, lie) = located(namespace)?;
        Ok(Some(Arc::new(RemoteStore::new(address, name, lie))))
    }

    fn server_address(&self) -> Option<SocketAddr> {
        Some(self.server.address())
    }
}

impl<F> std::fmt::Debug for RemoteHarness<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteHarness")
            .field("server", &self.server)
            .field("lie", &self.lie)
            .finish_non_exhaustive()
    }
}
