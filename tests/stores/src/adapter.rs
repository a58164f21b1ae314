//! [`Adapter`].

use std::fmt::Debug;
use std::net::SocketAddr;
#[cfg(any(feature = "mysql", feature = "postgres"))]
use std::sync::Arc;
#[cfg(any(feature = "mysql", feature = "postgres"))]
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
#[cfg(feature = "suite")]
use idem_conformance::CallerTransaction;
#[cfg(feature = "suite")]
use idem_core::Key;
use idem_core::{AttemptId, BatchStore, BoxError};

use crate::ServerUrl;

/// One backend at one place.
///
/// It holds addresses and settings, no connections.
#[async_trait]
pub trait Adapter: Clone + Debug + Send + Sync + 'static {
    /// The backend's store.
    type Store: BatchStore + Clone;

    /// Returns name and version of the running product.
    async fn product(&self) -> Result<(String, String), BoxError>;

    /// Returns a name for a new namespace. Default: one for a schema, a database or keys.
    fn new_name(&self) -> String {
        random_name()
    }

    /// Creates this namespace, with the tables of its records.
    async fn create(&self, namespace: &str) -> Result<(), BoxError>;

    /// Opens a store on the namespace, with connections of its own.
    async fn store(&self, namespace: &str) -> Result<Self::Store, BoxError>;

    /// Removes the namespace. Stores may still be open.
    async fn destroy(&self, namespace: &str) -> Result<(), BoxError>;

    /// Returns the server's URL. Default: there is no server.
    fn url(&self) -> Option<&ServerUrl> {
        None
    }

    /// Returns the server's address, if its URL has one.
    fn address(&self) -> Option<SocketAddr> {
        self.url()?.address()
    }

    /// Returns the same at another URL.
    fn with_url(self, url: ServerUrl) -> Self {
        let _ = url;
        self
    }

    /// Returns the same server, reached at this address.
    fn through(&self, address: SocketAddr) -> Option<Self> {
        let url = self.url()?.through(address);
        Some(self.clone().with_url(url))
    }

    /// Begins a caller's transaction with a store of its own. Default: there are no transactions.
    #[cfg(feature = "suite")]
    async fn begin(&self, namespace: &str) -> Result<Option<Box<dyn CallerTransaction>>, BoxError> {
        let _ = namespace;
        Ok(None)
    }

    /// Replaces the stored result of the key, as
    /// [`Harness::damage`](idem_conformance::Harness::damage). Default: it does not.
    #[cfg(feature = "suite")]
    async fn damage(&self, namespace: &str, key: &Key) -> Result<bool, BoxError> {
        let _ = (namespace, key);
        Ok(false)
    }
}

/// Knows the first namespace that an adapter creates in a process. The store migrates and verifies
/// that one; the others are made from the printed schema, in one round trip.
#[cfg(any(feature = "mysql", feature = "postgres"))]
#[derive(Debug, Clone, Default)]
pub(crate) struct First(Arc<AtomicBool>);

#[cfg(any(feature = "mysql", feature = "postgres"))]
impl First {
    pub(crate) fn is_this(&self) -> bool {
        !self.0.swap(true, Ordering::Relaxed)
    }
}

/// Returns a name for a new namespace, which no other has.
#[must_use]
pub fn random_name() -> String {
    let random = u128::from_be_bytes(*AttemptId::random().as_bytes());
    format!("idem_test_{random:032x}")
}
