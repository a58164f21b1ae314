//! What authors of backends need, and applications do not: checks, decisions, stored forms, locked keys, batches and
//! wake-ups. Every store of this family is made of it.

mod batcher;
pub mod check;
pub mod decision;
mod duplicates;
mod locked_keys;
mod notifier;
mod redacted;
mod stored;
pub(crate) mod stored_result;

pub use crate::time::whole_millis_as_micros;
pub use batcher::{Batcher, Underway};
pub use duplicates::DuplicateEstimator;
pub use locked_keys::{LockedKeys, MAX_LOCK_WAIT, TryTurn, Turn};
pub use notifier::{ChangeNotifier, Subscription};
pub use redacted::Redacted;
pub use stored::StoredRecord;
pub use stored_result::{StoredResult, encode_failure, encode_response};
