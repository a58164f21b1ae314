//! [`Identity`]: which event it is.

use idem_core::Fingerprint;

/// Which event it is, and by what its deliveries are known to be the same.
pub(crate) struct Identity {
    pub(crate) id: String,
    pub(crate) topic: Option<String>,
    pub(crate) fingerprint: Fingerprint,
}
