//! [`KeyedRequest`]: a request for the functions of a policy.

use std::fmt;

use bytes::Bytes;
use http::request::Parts;
use http::{Extensions, Request};
use idem_core::json::RawJson;

use crate::json_rpc::Call;

/// A request that was read, for the functions of a policy.
///
/// `Debug` shows neither headers nor body.
pub struct KeyedRequest {
    parts: Parts,
    message: Message,
}

/// What is known of a request besides its head.
#[derive(Default)]
pub(crate) struct Message {
    pub(crate) body: Bytes,
    pub(crate) key: Option<String>,
    pub(crate) call: Option<Call>,
}

impl KeyedRequest {
    pub(crate) fn new(parts: Parts, body: Bytes) -> Self {
        let message = Message {
            body,
            ..Message::default()
        };
        Self { parts, message }
    }

    pub(crate) fn of(parts: Parts, message: Message) -> Self {
        Self { parts, message }
    }

    pub(crate) fn message(&self) -> &Message {
        &self.message
    }

    pub(crate) fn message_mut(&mut self) -> &mut Message {
        &mut self.message
    }

    /// Returns the request for the service, and the rest.
    pub(crate) fn into_request<B: From<Bytes>>(self) -> (Request<B>, Message) {
        let body = B::from(self.message.body.clone());
        (Request::from_parts(self.parts, body), self.message)
    }

    /// Returns a request for the service that has these extensions, too. It can be made again.
    pub(crate) fn to_request<B: From<Bytes>>(&self, extensions: Extensions) -> Request<B> {
        let mut parts = self.parts.clone();
        parts.extensions.extend(extensions);
        Request::from_parts(parts, B::from(self.message.body.clone()))
    }

    /// Returns the head.
    #[must_use]
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Returns the body; empty when the request was refused before its body was read.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.message.body
    }

    /// Returns the body as JSON, whatever its media type; `None` if it is not JSON. A handler that
    /// skips members reads the same documents.
    #[must_use]
    pub fn json(&self) -> Option<RawJson<'_>> {
        RawJson::read(&self.message.body)
    }

    /// Returns the member of the body at this JSON Pointer (RFC 6901); `None` if there is none, or
    /// readers may differ on which one it is.
    #[must_use]
    pub fn member(&self, pointer: &str) -> Option<RawJson<'_>> {
        self.json()?.pointer(pointer).ok()?
    }

    /// Returns the key as the client wrote it; `None` when there is none, or it is malformed.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.message.key.as_deref()
    }

    /// Returns the JSON-RPC call, on routes with [`JsonRpc`](crate::JsonRpc).
    #[must_use]
    pub fn call(&self) -> Option<&Call> {
        self.message.call.as_ref()
    }
}

impl fmt::Debug for KeyedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedRequest")
            .field("method", &self.parts.method)
            .field("path", &self.parts.uri.path())
            .field("bytes", &self.message.body.len())
            .finish_non_exhaustive()
    }
}
