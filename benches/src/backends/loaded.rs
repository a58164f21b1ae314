//! Rows that a server loads in bulk.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::ids::{fingerprint, request};

/// The columns of a bulk load's rows, which are like those of fresh claims.
pub(super) const LOADED: &str =
    "idem_records (scope, operation, id, attempt_id, fingerprint, token,
    created_at, lease_ends_at, expires_at, purge_at, attempts, state)";

/// The common part of such rows: the fingerprint in hexadecimal digits, and the columns after it.
pub(super) struct LoadedRow {
    pub(super) fingerprint: String,
    pub(super) numbers: String,
}

impl LoadedRow {
    /// Returns a row of this moment with this text between numbers.
    pub(super) fn now(between: &str) -> Self {
        let request = request("loaded");
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = since.unwrap_or_default();
        let lease_ends_at = now + request.lease();
        let expires_at = lease_ends_at + request.retention();
        let instants = [now, now, lease_ends_at, expires_at, expires_at];
        let numbers = instants.map(|instant| instant.as_micros());
        let numbers = numbers.into_iter().chain([1, 0]);
        let numbers: Vec<_> = numbers.map(|number| number.to_string()).collect();
        let fingerprint = fingerprint().to_bytes();
        let digits = fingerprint.iter().map(|byte| format!("{byte:02x}"));
        Self {
            fingerprint: digits.collect(),
            numbers: numbers.join(between),
        }
    }
}
