//! Parts for authors of backends, which applications do not need: checks, decisions, stored forms,
//! error codes, locked keys, batches and change notifications. Every store of this family is built
//! from them: see the chapter [`stores`](crate::guide::stores) of the guide.

mod access;
pub(crate) mod batcher;
pub mod check;
mod codes;
mod connecting;
pub mod decision;
mod duplicates;
mod final_result;
pub(crate) mod forced;
mod locked_keys;
mod notifier;
mod redacted;
mod retry;
mod stored;
pub(crate) mod stored_result;

pub use crate::error_codes;
pub use crate::time::whole_millis_as_micros;
pub use access::Access;
pub use batcher::{Batcher, Underway};
pub use codes::{Codes, Meaning};
pub use connecting::{check_scheme, misread, not_connected};
pub use duplicates::DuplicateEstimator;
pub use final_result::FinalResult;
pub use forced::{ForcedSteps, audit_key, force};
pub use locked_keys::{LockedKeys, MAX_LOCK_WAIT, TryTurn, Turn};
pub use notifier::{ChangeNotifier, Subscription};
pub use redacted::Redacted;
pub use retry::RetryPauses;
pub use stored::{LISTED_RESULT_BYTES, StoredRecord};
pub use stored_result::{StoredResult, encode_failure, encode_response};
