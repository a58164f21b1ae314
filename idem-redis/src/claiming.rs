//! [`Claiming`]: the shortcuts of claims.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use idem_core::backend::{Batcher, DuplicateEstimator};

use crate::fresh::{FreshAnswer, FreshClaim, claim_fresh};
use crate::link::Link;
use crate::operations::Operations;
use crate::reads::{MAX_BATCH_SIZE, Reads};

/// The shortcuts of claims, beside the script that decides every one of them.
///
/// That script is the whole of a claim, and always right. There are two shortcuts. Where most
/// claims of an operation meet a record, a read of the record comes first, because it alone can
/// return a result. Among many concurrent callers, one script claims all free keys of a batch.
/// Neither changes a key that it does not decide, so a claim that gets no decision there goes on as
/// if it had just begun.
#[derive(Debug)]
pub(crate) struct Claiming {
    pub(crate) estimator: DuplicateEstimator,
    pub(crate) reads: Reads,
    pub(crate) fresh: Arc<Batcher<FreshClaim, FreshAnswer>>,
    /// Whether each claim has to have a script of its own.
    pub(crate) is_split: Arc<AtomicBool>,
}

impl Claiming {
    pub(crate) fn new(link: &Arc<Link>, operations: &Arc<Operations>) -> Self {
        // A caller whose write was not replicated must get that error, and no other caller: then
        // each claim has a script of its own.
        let config = &operations.config;
        let alone =
            !config.batching() || !link.connector.is_one_node() || config.replicas().is_some();
        let is_split = Arc::new(AtomicBool::new(alone));
        let (at, how, split) = (
            Arc::clone(link),
            Arc::clone(operations),
            Arc::clone(&is_split),
        );
        Self {
            estimator: DuplicateEstimator::new(),
            reads: Reads::new(Arc::clone(link), operations.config.batching()),
            // Batches share one connection, which sends them one after the other without waiting.
            fresh: Batcher::new(MAX_BATCH_SIZE, usize::MAX, move |claims| {
                let (at, how, split) = (Arc::clone(&at), Arc::clone(&how), Arc::clone(&split));
                claim_fresh(at, how, split, claims)
            }),
            is_split,
        }
    }
}
