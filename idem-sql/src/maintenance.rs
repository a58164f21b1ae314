//! What keeps the tables small, in bounded batches.

/// A task of maintenance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Deletes records whose retention has ended.
    DeleteExpired,
    /// Fails stale records that may not be taken over.
    FailAbandoned,
    /// Deletes watermarks whose retention has ended.
    DeleteExpiredWatermarks,
}
