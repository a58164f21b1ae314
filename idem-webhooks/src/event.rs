//! [`Event`]: a delivery that is proven to come from its provider.

use std::fmt;

use idem_core::{Bytes, Fingerprint};
use serde::de::DeserializeOwned;

use crate::{Provider, Sender, Version};

/// An event whose delivery was verified.
///
/// `Debug` shows neither id nor body.
#[derive(Clone)]
pub struct Event {
    pub(crate) provider: Provider,
    /// The id, after its namespace, if there is one.
    pub(crate) id: Vec<String>,
    pub(crate) sender: Option<Sender>,
    pub(crate) topic: Option<String>,
    pub(crate) body: Bytes,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) version: Option<Version>,
}

impl Event {
    /// Returns the provider.
    #[must_use]
    pub fn provider(&self) -> &Provider {
        &self.provider
    }

    /// Returns the id that all deliveries of this event share. It is unique within the
    /// [`namespace`](Self::namespace) and the [`sender`](Self::sender).
    #[must_use]
    pub fn id(&self) -> &str {
        self.id.last().map_or("", String::as_str)
    }

    /// Returns the namespace of the id, where the provider has one: the `source` of a CloudEvent,
    /// Shopify's topic.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        let (_, namespace) = self.id.split_last()?;
        namespace.first().map(String::as_str)
    }

    /// Returns the sender that the application has verified, where that is the proof.
    #[must_use]
    pub fn sender(&self) -> Option<&Sender> {
        self.sender.as_ref()
    }

    /// Returns the kind of event (`X-GitHub-Event`, `X-Shopify-Topic`, `type`), if the delivery
    /// names it. GitHub and Shopify do not sign this header, nor CloudEvents in the binary mode.
    #[must_use]
    pub fn topic(&self) -> Option<&str> {
        self.topic.as_deref()
    }

    /// Returns the body as it was sent; of a batch, the event's own part of it.
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
