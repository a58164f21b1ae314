//! [`Shortcuts`]: the shortcuts of claims and of their ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use idem_core::backend::{Batcher, DuplicateEstimator};

use crate::ended::EndedClaim;
use crate::fresh::FreshClaim;
use crate::link::Link;
use crate::many::{ManyRecords, Written};
use crate::operations::Operations;
use crate::reads::{MAX_BATCH_SIZE, Reads};

/// The shortcuts of claims, results and releases, beside the scripts that decide every one of them.
///
/// Those scripts are the whole of an operation, and always right. There are three shortcuts. Where
/// most claims of an operation meet a record, a read of the record comes first, because it alone
/// can return a result. Among many concurrent callers, one script claims all free keys of a batch,
/// and one ends all held claims of a batch. None changes a key that it does not decide, so an
/// operation that gets no decision there goes on as if it had just begun.
#[derive(Debug)]
pub(crate) struct Shortcuts {
    pub(crate) estimator: DuplicateEstimator,
    pub(crate) reads: Reads,
    pub(crate) many: ManyRecords,
    pub(crate) fresh: Arc<Batcher<FreshClaim, Written>>,
    pub(crate) ended: Arc<Batcher<EndedClaim, Written>>,
    callers: AtomicUsize,
}

/// A caller under way, until it is dropped.
#[derive(Debug)]
pub(crate) struct Caller<'s> {
    callers: &'s AtomicUsize,
    others: usize,
}

impl Caller<'_> {
    /// Returns whether there are enough concurrent callers for a shared script to pay.
    pub(crate) fn is_in_company(&self) -> bool {
        self.others >= Batcher::<FreshClaim, Written>::COMPANY
    }
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        self.callers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Shortcuts {
    pub(crate) fn new(link: &Arc<Link>, operations: &Arc<Operations>) -> Self {
        let many = ManyRecords::new(link, operations);
        let (fresh, ended) = (many.clone(), many.clone());
        // Batches share one connection, which sends them one after the other without waiting.
        Self {
            estimator: DuplicateEstimator::new(),
            reads: Reads::new(Arc::clone(link), operations.config.batching()),
            many,
            fresh: Batcher::new(MAX_BATCH_SIZE, usize::MAX, move |claims| {
                fresh.clone().write(claims)
            }),
            ended: Batcher::new(MAX_BATCH_SIZE, usize::MAX, move |ends| {
                ended.clone().write(ends)
            }),
            callers: AtomicUsize::new(0),
        }
    }

    /// Counts one more caller, until the returned value is dropped. All operations count together,
    /// because callers go from one to the next: those of a batch that was answered are the company
    /// of the first one that ends its claim.
    pub(crate) fn enter(&self) -> Caller<'_> {
        let callers = &self.callers;
        let others = callers.fetch_add(1, Ordering::Relaxed);
        Caller { callers, others }
    }
}
