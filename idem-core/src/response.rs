//! [`Response`]: the replayed result.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The result of completed work: status, headers and body, kept and replayed byte for byte.
///
/// The names are HTTP's. Where there is no HTTP, status is 200, headers are empty and the body is
/// any bytes that the caller can read back. [`Limits::max_result_bytes`](crate::Limits) limits the
/// size.
///
/// `Debug` shows the status and sizes only.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    status: u16,
    headers: Vec<(String, Bytes)>,
    body: Bytes,
}

impl Response {
    /// Creates a response without headers.
    #[must_use]
    pub fn new(status: u16, body: impl Into<Bytes>) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: body.into(),
        }
    }

    /// Adds a header. Names may repeat and the order is kept; a name has at most 65,535 bytes, a
    /// value may be any bytes.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<Bytes>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Returns the status.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Returns the headers, in order.
    #[must_use]
    pub fn headers(&self) -> &[(String, Bytes)] {
        &self.headers
    }

    /// Returns the body.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Returns status, headers and body.
    #[must_use]
    pub fn into_parts(self) -> (u16, Vec<(String, Bytes)>, Bytes) {
        (self.status, self.headers, self.body)
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response")
            .field("status", &self.status)
            .field("headers", &self.headers.len())
            .field("body_bytes", &self.body.len())
            .finish()
    }
}
