//! [`Event`]: a delivery that is proven to come from its provider.

use std::fmt;

use idem_core::{Bytes, Fingerprint};
use serde::de::DeserializeOwned;

use crate::{Provider, Version};

/// A delivery with a valid signature.
///
/// `Debug` shows neither id nor body.
#[derive(Clone)]
pub struct Event {
    pub(crate) provider: Provider,
    pub(crate) id: String,
    pub(crate) topic: Option<String>,
    pub(crate) body: Bytes,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) version: Option<Version>,
}

impl Event {
    /// Returns the provider.
    #[must_use]
    pub fn provider(&self) -> Provider {
        self.provider
    }

    /// Returns the id that all deliveries of this event share.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the kind of event (`X-GitHub-Event`, `X-Shopify-Topic`, `type`), if the delivery
    /// names it. GitHub does not sign this header.
    #[must_use]
    pub fn topic(&self) -> Option<&str> {
        self.topic.as_deref()
    }

    /// Returns the body as it was signed.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Parses the body as JSON.
    ///
    /// # Errors
    ///
    /// Returns an error when the body is not the JSON of a `T`.
    pub fn json<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_slice(&self.body)
    }

    /// Returns the version of the event; `None` before the receiver has determined it, and for
    /// events without a version.
    #[must_use]
    pub fn version(&self) -> Option<&Version> {
        self.version.as_ref()
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("provider", &self.provider)
            .field("topic", &self.topic)
            .field("body_bytes", &self.body.len())
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}
