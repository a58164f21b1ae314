//! [`Entry`]: an effect.

use idem_core::Response;
use serde::{Deserialize, Serialize};

/// A row of the ledger: the effect of a request happened, with everything that explains how it
/// could happen twice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// The id of the request's key.
    pub(crate) key: String,
    /// The fingerprint of the payload that had the effect.
    pub(crate) fingerprint: String,
    /// The fencing token under which it was written; 0 without a claim.
    pub(crate) token: i64,
    /// How often the key had been acquired by then.
    pub(crate) attempts: i64,
    /// The delivery that did it.
    pub(crate) delivery: i64,
    /// The process that did it: its lane and how often it had been restarted, such as `2.5`.
    pub(crate) worker: String,
}

impl Entry {
    /// Returns the answer for the sender and every duplicate, byte for byte.
    pub(crate) fn receipt(&self) -> Vec<u8> {
        // Strings and integers always have a JSON form.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Returns the receipt as the stored response.
    pub(crate) fn response(&self) -> Response {
        Response::new(200, self.receipt())
    }
}
