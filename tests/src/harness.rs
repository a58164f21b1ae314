//! [`Harness`]: the one trait that the author of a store implements.

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

/// What really ran: the name and version that the server (or library) tells about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Product {
    /// Such as `PostgreSQL`.
    pub product: String,
    /// Such as `17.2`.
    pub version: String,
}

impl Product {
    /// A product of this name and version.
    pub fn new(product: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            product: product.into(),
            version: version.into(),
        }
    }
}

/// How the suite gets at the stores of one backend.
///
/// Made once per process. Each case runs on an async runtime of its own, so a harness keeps
/// addresses and names, but no connections: what a runtime opened dies with it. Several cases run
/// at the same time, each in a namespace of its own.
///
/// A whole `tests/conformance.rs`, of a store in a JSON file:
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
    /// The name of the backend, first part of each trial's name and of its row in reports:
    /// `postgres`.
    fn name(&self) -> &str;

    /// What this backend promises; a case that needs more is reported as ignored.
    fn profile(&self) -> Profile;

    /// What really runs, as it says itself.
    async fn product(&self) -> Result<Product, BoxError>;

    /// A fresh, empty namespace (schema, file, prefix), ready for use.
    ///
    /// Returns a locator by which this process can open it, and, where the profile promises
    /// [`SharedBetweenProcesses`](crate::Promise::SharedBetweenProcesses), any other process of
    /// this machine.
    async fn create(&self) -> Result<String, BoxError>;

    /// A new handle of the namespace, with connections of its own.
    async fn open(&self, namespace: &str) -> Result<Arc<dyn IdempotencyStore>, BoxError>;

    /// Removes the namespace. Called after each case, also after one that failed; handles may still
    /// be open.
    async fn destroy(&self, namespace: &str) -> Result<(), BoxError>;

    /// A new handle for batches, for a profile that promises [`Batch`](crate::Promise::Batch).
    async fn open_batch(&self, namespace: &str) -> Result<Option<Arc<dyn BatchStore>>, BoxError> {
        let _ = namespace;
        Ok(None)
    }

    /// A new handle whose client talks to `address` instead of the server's own: a proxy that cuts
    /// connections. For a profile that promises [`Network`](crate::Promise::Network).
    async fn open_through(
        &self,
        namespace: &str,
        address: SocketAddr,
    ) -> Result<Option<Arc<dyn IdempotencyStore>>, BoxError> {
        let _ = (namespace, address);
        Ok(None)
    }

    /// The same for batches; what [`Batched`](crate::Batched) needs of a profile that promises
    /// [`Network`](crate::Promise::Network).
    async fn open_batch_through(
        &self,
        namespace: &str,
        address: SocketAddr,
    ) -> Result<Option<Arc<dyn BatchStore>>, BoxError> {
        let _ = (namespace, address);
        Ok(None)
    }

    /// Begins a transaction of a caller's, on a connection of its own. For a profile that promises
    /// [`Transactions`](crate::Promise::Transactions).
    async fn begin(&self, namespace: &str) -> Result<Option<Box<dyn CallerTransaction>>, BoxError> {
        let _ = namespace;
        Ok(None)
    }

    /// Replaces the stored result of the key by [`MARK`](crate::secrets::MARK), which is none, past
    /// the store; whether it did. For a profile that promises [`Damage`](crate::Promise::Damage).
    async fn damage(&self, namespace: &str, key: &Key) -> Result<bool, BoxError> {
        let _ = (namespace, key);
        Ok(false)
    }

    /// A new handle whose client logs in with this password, which is wrong. For a profile that
    /// promises [`Password`](crate::Promise::Password).
    async fn open_with_password(
        &self,
        namespace: &str,
        password: &str,
    ) -> Result<Option<Arc<dyn IdempotencyStore>>, BoxError> {
        let _ = (namespace, password);
        Ok(None)
    }

    /// Where the server listens. For a profile that promises [`Network`](crate::Promise::Network).
    fn server_address(&self) -> Option<SocketAddr> {
        None
    }
}

/// An open transaction of a caller's, with the store's transaction methods. Dropped, it is rolled
/// back.
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

    /// Commits what was done.
    async fn commit(self: Box<Self>) -> Result<(), BoxError>;

    /// Undoes what was done.
    async fn rollback(self: Box<Self>) -> Result<(), BoxError>;
}

/// The URL with this password, for [`Harness::open_with_password`]; `user` is for one that names no
/// user.
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
