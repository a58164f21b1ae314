//! [`KeyService`]: keys that a key management service keeps.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::Result;

/// Wraps data keys under a key that never leaves a key management service (KMS). The wrapped form
/// is no secret: it may lie beside the configuration.
///
/// A process unwraps each data key once, when it starts; no claim waits for the service.
///
/// ```
/// use std::sync::Arc;
///
/// use async_trait::async_trait;
/// use idem_core::wrappers::protected::{DataKey, KeyRing, KeyService, Protected};
/// use idem_core::{Error, MemoryStore, Result};
///
/// /// A service that masks with a number, in place of the client of a real one.
/// #[derive(Debug)]
/// struct Kms(u8);
///
/// #[async_trait]
/// impl KeyService for Kms {
///     async fn wrap(&self, secret: &[u8; 32]) -> Result<Vec<u8>> {
///         Ok(secret.map(|byte| byte ^ self.0).to_vec())
///     }
///
///     async fn unwrap(&self, wrapped: &[u8]) -> Result<[u8; 32]> {
///         let secret: [u8; 32] = wrapped
///             .try_into()
///             .map_err(|_| Error::corrupt("the wrapped key has another length"))?;
///         Ok(secret.map(|byte| byte ^ self.0))
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// // Once, by an operator:
/// let (_, wrapped) = DataKey::generate("2026-01", &Kms(9)).await?;
/// // In each process:
/// let ring = KeyRing::new(DataKey::unwrap("2026-01", &wrapped, &Kms(9)).await?);
/// let store = Protected::new(MemoryStore::new()).with_keys(Arc::new(ring));
/// # let _ = store;
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait KeyService: Debug + Send + Sync {
    /// Returns the wrapped form of a data key.
    ///
    /// # Errors
    ///
    /// The service's: `Unavailable` where a later try may succeed.
    async fn wrap(&self, secret: &[u8; 32]) -> Result<Vec<u8>>;

    /// Returns the data key of this wrapped form.
    ///
    /// # Errors
    ///
    /// As for [`wrap`](Self::wrap); `Corrupt` when the service does not know the wrapped form.
    async fn unwrap(&self, wrapped: &[u8]) -> Result<[u8; 32]>;
}
