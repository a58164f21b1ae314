//! [`Identity`]: the id, topic and fingerprint of an event.

use idem_core::Fingerprint;

/// The id and topic of an event, and the fingerprint that its deliveries share.
pub(crate) struct Identity {
    /// The id, after the namespace in which it is unique, if there is one.
    pub(crate) id: Vec<String>,
    pub(crate) topic: Option<String>,
    pub(crate) fingerprint: Fingerprint,
}
