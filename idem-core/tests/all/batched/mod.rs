//! Callers that share round trips, and what they must not share.

mod batches;
mod duplicates;
mod faults;
mod gated;
mod lanes;
mod support;
