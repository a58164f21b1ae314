//! [`Harness`]: the one trait to implement for a store.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use idem_core::{
    BatchStore, BoxError, Claim, ClaimOutcome, ClaimRequest, IdempotencyStore, Key, Response,
    Result,
};
use serde::{Deserialize, Serialize};

use crate::Profile;

/// The product that ran: the name and version that the server (or library) reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Product {
    /// The name, such as `PostgreSQL`.
    pub product: String,
    /// The version, such as `17.2`.
    pub version: String,
}

impl Product {
    /// Creates a product with this name and version.
    pub fn new(product: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            product: product.into(),
            version: version.into(),
        }
    }
}

/// Access of the suite to the stores of one backend.
///
/// A process makes one harness. Each case runs on its own async runtime, so a harness holds
/// addresses and names, but no connections: they end with the runtime that opened them. Several
/// cases run at the same time, each in its own namespace.
///
/// A whole `tests/conformance.rs`, for a store in a JSON file:
///
/// <!-- begin harness -->
/// ```ignore
/// //! The whole harness of a store that is not of the family.
/// use std::{process::ExitCode, sync::Arc};
///
/// use idem_conformance::idem_core::{BoxError, IdempotencyStore};
/// use idem_conformance::{Harness, Product, Profile, Target, async_trait, main as conformance};
/// use idem_foreign_store::FileStore;
///
/// struct Foreign;
///
/// #[async_trait]
/// impl Harness for Foreign {
///     fn name(&self) -> &str {
///         "foreign"
///     }
///
///     fn profile(&self) -> Profile {
///         let profile = Profile::new().with_max_result_bytes(64 << 10);
///         profile.shared_between_processes().durable()
///     }
///
///     async fn product(&self) -> Result<Product, BoxError> {
///         Ok(Product::new("JSON file", env!("CARGO_PKG_VERSION")))
///     }
///
///     async fn create(&self) -> Result<String, BoxError> {
///         Ok(tempfile::tempdir()?.keep().display().to_string())
///     }
///
///     async fn open(&self, folder: &str) -> Result<Arc<dyn IdempotencyStore>, BoxError> {
///         Ok(Arc::new(FileStore::new(format!("{folder}/file.json"))))
///     }
///
///     async fn destroy(&self, folder: &str) -> Result<(), BoxError> {
///         Ok(std::fs::remove_dir_all(folder)?)
///     }
/// }
///
/// fn main() -> ExitCode {
///     conformance(vec![Target::new("foreign", async || Ok(Foreign))])
/// }
/// ```
/// <!-- end harness -->
#[async_trait]
pub trait Harness: Send + Sync + 'static {
    /// Returns the name of the backend, such as `postgres`: the first part of each trial's name and
    /// of its row in reports.
    fn name(&self) -> &str;

    /// Returns the promises of this backend; a case that needs more is reported as ignored.
    fn profile(&self) -> Profile;

    /// Returns the running product, as the server reports it.
    async fn product(&self) -> Result<Product, BoxError>;

    /// Creates a fresh, empty namespace (schema, file, prefix), ready for use.
    ///
    /// Returns a locator by which this process can open it. If the profile promises
    /// [`SharedBetweenProcesses`](crate::Promise::SharedBetweenProcesses), any other process of
    /// this machine can, too.
    async fn create(&self) -> Result<String, BoxError>;

    /// Opens a new handle of the namespace, with its own connections.
    async fn open(&self, namespace: &str) -> Result<Arc<dyn IdempotencyStore>, BoxError>;

    /// Removes the namespace. The suite calls it after each case, also after a failed one; handles
    /// may still be open.
    async fn destroy(&self, namespace: &str) -> Result<(), BoxError>;

    /// Opens a new handle for batches, for a profile that promises
    /// [`Batch`](crate::Promise::Batch).
    async fn open_batch(&self, namespace: &str) -> Result<Option<Arc<dyn BatchStore>>, BoxError> {
        let _ = namespace;
        Ok(None)
    }

    /// Opens a new handle whose client connects to `address` instead of the server: a proxy that
    /// cuts connections. For a profile that promises [`Network`](crate::Promise::Network).
    async fn open_through(
        &self,
        namespace: &str,
        address: SocketAddr,
    ) -> Result<Option<Arc<dyn IdempotencyStore>>, BoxError> {
        let _ = (namespace, address);
        Ok(None)
    }

    /// Does the same for batches; [`Batched`](crate::Batched) needs it if the profile promises
    /// [`Network`](crate::Promise::Network).
    async fn open_batch_through(
        &self,
        namespace: &str,
        address: SocketAddr,
    ) -> Result<Option<Arc<dyn BatchStore>>, BoxError> {
        let _ = (namespace, address);
        Ok(None)
    }

    /// Begins a caller's transaction, on its own connection. For a profile that promises
    /// [`Transactions`](crate::Promise::Transactions).
    async fn begin(&self, namespace: &str) -> Result<Option<Box<dyn CallerTransaction>>, BoxError> {
        let _ = namespace;
        Ok(None)
    }

    /// Replaces the stored result of the key by [`MARK`](crate::secrets::MARK), an invalid result,
    /// without the store. Returns whether it did. For a profile that promises
    /// [`Damage`](crate::Promise::Damage).
    async fn damage(&self, namespace: &str, key: &Key) -> Result<bool, BoxError> {
        let _ = (namespace, key);
        Ok(false)
    }

    /// Opens a new handle whose client logs in with this wrong password. For a profile that
    /// promises [`Password`](crate::Promise::Password).
    async fn open_with_password(
        &self,
        namespace: &str,
        password: &str,
    ) -> Result<Option<Arc<dyn IdempotencyStore>>, BoxError> {
        let _ = (namespace, password);
        Ok(None)
    }

    /// Returns the server's address. For a profile that promises
    /// [`Network`](crate::Promise::Network).
    fn server_address(&self) -> Option<SocketAddr> {
        None
    }
}

/// A caller's open transaction, with the store's transaction methods. Dropping it rolls it back.
#[async_trait]
pub trait CallerTransaction: Send {
    /// Claims in this transaction, as `claim_in`.
    async fn claim(&mut self, request: &ClaimRequest) -> Result<ClaimOutcome>;

    /// Completes in this transaction, as `complete_in`.
    async fn complete(
        &mut self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()>;

    /// Commits the transaction.
    async fn commit(self: Box<Self>) -> Result<(), BoxError>;

    /// Rolls the transaction back.
    async fn rollback(self: Box<Self>) -> Result<(), BoxError>;
}

/// Returns the URL with this password, for [`Harness::open_with_password`]. If the URL names no
/// user, `user` is used.
#[must_use]
pub fn with_password(url: &str, user: &str, password: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (login, place) = rest.split_once('@').unwrap_or((user, rest));
    let user = login.split(':').next().unwrap_or(login);
    format!("{scheme}://{user}:{password}@{place}")
}

#[cfg(test)]
mod tests {
    use super::with_password;

    #[test]
    fn a_url_takes_another_password() {
        let given = [
            ("mysql://root@[::1]:1/db", "mysql://root:p@[::1]:1/db"),
            ("mysql://root:old@host/db?a=b", "mysql://root:p@host/db?a=b"),
            ("redis://host:1", "redis://me:p@host:1"),
        ];
        for (url, expected) in given {
            assert_eq!(with_password(url, "me", "p"), expected);
        }
    }
}
