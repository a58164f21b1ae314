//! The API for applications: [`Idempotency`] runs work at most once per key and replays its result.
//!
//! ```
//! use idem_core::{Idempotency, Key, MemoryStore, Outcome, Policy, Work};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let idem = Idempotency::new(MemoryStore::new())
//!     .with_operation_policy("payments.create", Policy::at_most_once());
//! let key = Key::new("tenant-7", "payments.create", "8f14e45f")?;
//! let request = serde_json::json!({"amount": 1200, "currency": "EUR"});
//! let charge = async |work: Work| Ok::<_, std::io::Error>(work.derive("bank").id().len());
//!
//! assert_eq!(idem.run(&key, &request, charge).await?, Outcome::Fresh(67));
//! let replay = idem.run(&key, &request, charge).await?;
//! assert_eq!(replay.into_replayed(), Some(67));
//! # Ok(())
//! # }
//! ```
//!
//! The chapters [`failures`](crate::guide::failures), [`waiting`](crate::guide::waiting) and
//! [`leases`](crate::guide::leases) of the guide say which policy suits which work.
//!
//! # What happens in a run
//!
//! The engine claims the key. The loser of a race gets the winner's result, or the error that
//! another run is working on it. The winner's work runs in the caller's own task while another task
//! renews the lease at each third. Then the result is sealed.
//!
//! | the work | the claim | the caller gets |
//! | --- | --- | --- |
//! | returns `Ok` | sealed, in a task that survives the caller, repeated for at least a lease | [`Outcome::Fresh`] |
//! | returns `Ok` with a value that cannot be stored or read back (see [below](#values)) | failed as [`NOT_STORED`](crate::Failure::NOT_STORED): it must not run again | [`RunError::NotStored`] with the value |
//! | returns `Ok`, the seal fails | as the store has it: acquired by another, or its lease runs out | [`RunError::NotStored`] with the value |
//! | returns `Err` | released, recorded or left ([`ErrorPolicy`]) | [`RunError::Work`] |
//! | panics | released, recorded or left ([`InterruptPolicy`]) | the panic, after that |
//! | is dropped | the work is dropped first; then the claim is released, recorded or left ([`InterruptPolicy`]) | |
//! | was not started when the run was dropped | released | |
//! | loses the claim | as the store has it | what the work makes of [`Work::lost`] |
//!
//! If the store cannot be reached, or the runtime or the process has ended, a claim can be neither
//! released nor recorded. It then expires with its lease, and the
//! [`StalePolicy`](crate::StalePolicy) decides.
//!
//! # Values
//!
//! A value is sealed only if its JSON reads back as an equal one, which is tried before the seal: a
//! value that the first caller gets and no later one is an error of the first call. JSON carries
//! neither numbers that are not finite, nor a `Some` of a value that is written as `null`
//! (`Some(None)`, `Some(())`). A type's `Deserialize` has to read what its `Serialize` writes, and
//! give a value that writes the same again, in any order. Everything else is
//! [`RunError::NotStored`] with [`InvalidInput`](crate::ErrorKind::InvalidInput): the work has run,
//! its value is in the error, and the key is never free for a second run.
//!
//! # Lost claims
//!
//! A renewal that fails is repeated. When the lease is over by this process's clock,
//! [`Work::is_lost`] says so, and does not take it back. The renewals go on until the work ends,
//! because no other attempt may have acquired the key: work that cannot be stopped is then
//! protected again, and its result can still be sealed.
//!
//! # Runtime
//!
//! A run needs a Tokio runtime with time enabled, of either kind. Work that blocks the only thread
//! of a current-thread runtime blocks the renewals, too.

mod also;
mod choices;
mod codec;
mod context;
mod duration_text;
mod ending;
mod error;
mod handoff;
mod heartbeat;
mod held;
mod idempotency;
mod lease;
pub mod observe;
mod outcome;
mod policies;
mod policy;
mod recovery;
mod reports;
mod run;
pub mod saga;
mod settings;
mod transaction;
mod transactional;
mod wait;
mod waiting;
mod work;

pub use choices::{BusyPolicy, ErrorPolicy, Exclusion, InterruptPolicy};
pub use error::RunError;
pub use handoff::Handoff;
pub use idempotency::Idempotency;
pub use outcome::Outcome;
pub use policies::Policies;
#[cfg(any(feature = "toml", feature = "yaml"))]
pub use policies::{PolicyFile, PolicyFileError};
pub use policy::Policy;
pub use saga::{NotUndone, Saga, SagaEnd, SagaStep, SagaStop, StepError};
pub use transactional::{Lent, Transactional, Tx, as_store, transaction_ended};
pub use work::Work;
