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

    /// Returns whether its stored form is possible and within the limit, without making it: see
    /// [`encode_response`](crate::backend::encode_response) for the form.
    pub(crate) fn fits(&self, max_bytes: usize) -> bool {
        let field = |length: usize, max: u64| (length as u64 <= max).then_some(length);
        let header = |bytes: usize, (name, value): &(String, Bytes)| {
            let name = field(name.len(), u16::MAX.into())?;
            let value = field(value.len(), u32::MAX.into())?;
            bytes.checked_add(6)?.checked_add(name)?.checked_add(value)
        };
        self.headers
            .iter()
            .try_fold(7, header)
            .and_then(|bytes: usize| bytes.checked_add(self.body.len()))
            .is_some_and(|bytes| bytes <= max_bytes)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::encode_response;

    #[test]
    fn what_fits_is_what_the_stored_form_has() {
        let plain = Response::new(200, vec![7; 100]);
        let rich = plain
            .clone()
            .with_header("name", "value")
            .with_header("", "");
        for response in [Response::new(204, ""), plain, rich] {
            let size = encode_response(&response).unwrap().len();
            assert!(response.fits(size) && !response.fits(size - 1));
        }
        let impossible = Response::new(200, "").with_header("n".repeat(65_536), "");
        assert!(encode_response(&impossible).is_err() && !impossible.fits(usize::MAX));
    }
}
