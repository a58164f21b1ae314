//! The tasks that keep the tables small, in bounded batches.

/// A maintenance task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Deletes records whose retention has ended.
    DeleteExpired,
    /// Fails stale records that must not be taken over.
    FailAbandoned,
    /// Deletes watermarks whose retention has ended.
    DeleteExpiredWatermarks,
}
