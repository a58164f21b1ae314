//! [`Gate`].

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Semaphore;

/// A gate at which a call waits once it is shut.
#[derive(Debug)]
pub(super) struct Gate {
    is_shut: AtomicBool,
    arrived: Semaphore,
    passes: Semaphore,
}

impl Gate {
    pub(super) fn new() -> Self {
        Self {
            is_shut: AtomicBool::new(false),
            arrived: Semaphore::new(0),
            passes: Semaphore::new(0),
        }
    }

    /// Makes the next call wait here.
    pub(super) fn shut(&self) {
        self.is_shut.store(true, Ordering::SeqCst);
    }

    /// Returns when a call waits here.
    pub(super) async fn someone_waits(&self) {
        self.arrived.acquire().await.unwrap().forget();
    }

    /// Lets the waiting call go on.
    pub(super) fn open(&self) {
        self.passes.add_permits(1);
    }

    pub(super) async fn pass(&self) {
        if self.is_shut.swap(false, Ordering::SeqCst) {
            self.arrived.add_permits(1);
            self.passes.acquire().await.unwrap().forget();
        }
    }
}
