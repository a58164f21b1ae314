//! What authors of backends need, and applications do not: checks, decisions, stored forms, locked keys, batches and
//! wake-ups. Every store of this family is made of it.

pub mod check;
pub mod decision;
mod gather;
mod locked_keys;
mod redacted;
pub(crate) mod sealed;
mod stored;
mod traffic;
mod wake;

pub use crate::time::whole_millis_as_micros;
pub use gather::{Gather, Underway};
pub use locked_keys::{LockedKeys, MAX_LOCK_WAIT, TryTurn, Turn};
pub use redacted::Redacted;
pub use sealed::{Sealed, encode_failure, encode_response};
pub use stored::StoredRecord;
pub use traffic::Traffic;
pub use wake::{Listener, Wakes};
