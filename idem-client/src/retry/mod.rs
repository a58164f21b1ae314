//! When and how often a request is sent again.

mod budget;
mod policy;
mod retry_after;

pub use budget::RetryBudget;
pub use policy::RetryPolicy;

pub(crate) use retry_after::retry_after;
