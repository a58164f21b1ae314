//! The locks, so that the model checker can replace them with its own.

#[cfg(shuttle)]
pub(super) use shuttle::sync::{Mutex, MutexGuard};
#[cfg(not(shuttle))]
pub(super) use std::sync::{Mutex, MutexGuard};

/// Locks, whether or not a thread panicked with the lock held: every change to a shard is complete
/// before anything that could panic.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
