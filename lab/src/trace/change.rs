//! [`Change`]: a change of one record, as a server's log has it.

use serde::{Deserialize, Serialize};

use crate::spec::{Body, KeyState, Span};

/// The change of a record, in the server's own order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Where in the log it is.
    pub at: String,
    /// The hash of the key.
    pub k: String,
    /// When it was committed by the server's clock, in microseconds since 1970, if the log says so.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub now: Option<i64>,
    /// The record after it; `None` when it was deleted.
    pub row: Option<Row>,
}

/// A record in a server's log: times are in microseconds since 1970, payloads and ids are hashes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The state.
    pub state: State,
    /// The token of the latest acquisition.
    pub tok: i64,
    /// The attempt that holds or held it; `None` for nobody.
    pub att: Option<u64>,
    /// The request's fingerprint.
    pub fp: u64,
    /// The acquisitions since the key was fresh.
    pub n: u32,
    /// The end of the lease.
    pub lease_end: i64,
    /// The end of the retention.
    pub expires: i64,
    /// Whether a stale claim fails instead of being taken over.
    pub fails: bool,
    /// The hash of the result, or of the checkpoint while in flight; 0 without one.
    pub hash: u64,
}

/// The state of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Claimed, without a result.
    InFlight,
    /// With a result.
    Completed,
    /// With a failure.
    Failed,
    /// Given up.
    Released,
}

/// Stores round the ends of leases and retentions up to whole milliseconds.
const MILLI: i64 = 1000;

impl Row {
    /// Returns the state with every bound narrowed to what the row says; `None` if the two contradict
    /// each other.
    #[must_use]
    pub(super) fn narrow(&self, mut state: KeyState) -> Option<KeyState> {
        let token = |span: Span| span.contains(self.tok).then_some(Span::at(self.tok));
        match (&mut state.body, self.state) {
            (Body::Fly(fly), State::InFlight) => {
                let kept = self.expires.saturating_sub(self.lease_end);
                let fits = self.att == Some(fly.attempt)
                    && self.fp == fly.fingerprint
                    && self.n == fly.acquisitions
                    && self.hash == fly.checkpoint
                    && self.fails != fly.takeover
                    && fly.lease.contains(self.lease_end)
                    && kept.saturating_sub(fly.kept).abs() <= MILLI;
                fly.token = token(fly.token).filter(|_| fits)?;
                fly.lease = Span::at(self.lease_end);
                fly.kept = kept;
            }
            (Body::Sealed(sealed), State::Completed | State::Failed) => {
                let fits = self.att == sealed.attempt
                    && self.fp == sealed.fingerprint
                    && self.n == sealed.acquisitions
                    && self.hash == sealed.seal
                    && (self.state == State::Failed) == sealed.is_failure
                    && sealed.expires.contains(self.expires);
                sealed.token = token(sealed.token).filter(|_| fits)?;
                sealed.expires = Span::at(self.expires);
            }
            (Body::Tomb(tomb), State::Released) => {
                let fits = self.att == Some(tomb.attempt);
                tomb.token = token(tomb.token).filter(|_| fits)?;
            }
            _ => return None,
        }
        state.floor = state.floor.max(self.tok);
        Some(state)
    }
}
