//! Failures: recorded, retried, released.
//!
//! Work that ends without a value leaves its claim in one of three ways, and the operation's policy
//! chooses.
//!
//! | the claim is | the key is then | choose it when |
//! | --- | --- | --- |
//! | released | free at once, also for another request | a repetition may succeed, and the failed try did no harm |
//! | recorded as failed | answered with the failure until the failure retention ends | a repetition would do harm, or would fail again |
//! | left to expire | in flight until its lease ends; then the stale policy decides | the next attempt should wait a while, and keep the [checkpoint](super::calls#checkpoints) |
//!
//! | the work | setting | default | [`at_most_once`](crate::Policy::at_most_once) |
//! | --- | --- | --- | --- |
//! | returns an error | [`with_on_error`](crate::Policy::with_on_error) | released | recorded, `idem.failed` |
//! | is dropped by its caller | [`with_on_cancel`](crate::Policy::with_on_cancel) | released | recorded, `idem.cancelled` |
//! | panics | [`with_on_panic`](crate::Policy::with_on_panic) | released | recorded, `idem.panicked` |
//! | vanishes with its process | [`with_on_stale`](crate::Policy::with_on_stale) | taken over after the lease | recorded, `idem.abandoned` |
//! | returns a value that cannot be stored | | recorded, `idem.not_stored` | the same |
//!
//! The defaults suit work that may run again. An error after half of the work is released as well,
//! so make the halves repeatable: see [`calls`](super::calls).
//!
//! # Errors that are final, and errors that are not
//!
//! Often one operation has both: "the card is declined" is an answer, "the bank is not reachable"
//! is not. Make the final ones *values*, which are stored and replayed like any other. Return an
//! error only for what may be tried again.
//!
//! ```
//! use std::cell::Cell;
//!
//! use idem_core::{Idempotency, Key, MemoryStore, RunError, Work};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Debug, PartialEq, Serialize, Deserialize)]
//! enum Charge {
//!     Done { receipt: String },
//!     Declined, // final: replayed
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let idem = Idempotency::new(MemoryStore::new());
//! let key = Key::new("tenant-7", "payments.create", "8f14e45f")?;
//!
//! // The bank cannot be reached: an error. The key is free again.
//! let away = async |_: Work| Err::<Charge, _>(std::io::Error::other("no answer"));
//! assert!(matches!(idem.run(&key, &1250, away).await, Err(RunError::Work(_))));
//!
//! // It declines: a value, which every later call gets.
//! let declines = async |_: Work| Ok::<_, std::io::Error>(Charge::Declined);
//! assert_eq!(idem.run(&key, &1250, declines).await?.into_inner(), Charge::Declined);
//! let pays = async |_: Work| Ok::<_, std::io::Error>(Charge::Done { receipt: "1".to_owned() });
//! assert_eq!(idem.run(&key, &1250, pays).await?.into_replayed(), Some(Charge::Declined));
//! # Ok(())
//! # }
//! ```
//!
//! # Recorded failures
//!
//! Under [`ErrorPolicy::Record`](crate::ErrorPolicy::Record) the first caller gets
//! [`RunError::Work`](crate::RunError::Work) with the error itself. Later callers get
//! [`RunError::Failed`](crate::RunError::Failed) with code `idem.failed` and the error's text, of
//! which the first 4 KiB are kept. The text goes into the database: let `Display` of your error
//! show nothing secret.
//!
//! A later call may try a recorded failure again, if *its* policy says
//! [`FailedPolicy::Retry`](crate::FailedPolicy::Retry): it acquires the key with a greater token,
//! one more attempt and no checkpoint. This is for a person's "retry" button, or for jobs that a
//! second click should start again ([`Policy::ghost_job`](crate::Policy::ghost_job)).
//!
//! ```
//! use idem_core::{
//!     ErrorPolicy, FailedPolicy, Failure, Idempotency, Key, MemoryStore, Policy, RunError, Work,
//! };
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let strict = Policy::default().with_on_error(ErrorPolicy::Record);
//! let idem = Idempotency::new(MemoryStore::new()).with_policy(strict.clone());
//! let key = Key::new("tenant-7", "reports.monthly", "2026-07")?;
//!
//! let fails = async |_: Work| Err::<u32, _>(std::io::Error::other("no rows"));
//! assert!(matches!(idem.run(&key, &(), fails).await, Err(RunError::Work(_))));
//!
//! // Later callers get the failure; their work does not run.
//! let works = async |_: Work| Ok::<_, std::io::Error>(7);
//! let Err(RunError::Failed(failed)) = idem.run(&key, &(), works).await else {
//!     panic!("it is recorded")
//! };
//! assert_eq!((failed.failure.code(), failed.failure.message()), (Failure::FAILED, "no rows"));
//!
//! // The same store and key, under a policy that tries failures again.
//! idem.set_policies(strict.with_on_failed(FailedPolicy::Retry).into())?;
//! assert_eq!(idem.run(&key, &(), works).await?.into_inner(), 7);
//! # Ok(())
//! # }
//! ```
//!
//! # Interruptions
//!
//! A dropped future and a panic are not errors of the work: the engine cannot know how far it got.
//! [`InterruptPolicy`](crate::engine::InterruptPolicy) has the same three choices. Dropping a run
//! before its work started always releases. A server that drops handlers when clients disconnect
//! should not drop the run with them: `idem-http` lets the handler finish in a task of its own.
//!
//! # Stale claims
//!
//! A takeover needs both sides: the record's claim and the new one must say
//! [`StalePolicy::TakeOver`](crate::StalePolicy::TakeOver). Otherwise the next claim of the key, or
//! [`fail_abandoned`](crate::IdempotencyStore::fail_abandoned), records the failure
//! [`Failure::ABANDONED`](crate::Failure::ABANDONED). Until then a late holder may still complete.
//!
//! A person then checks whether the effect happened. To settle the key, wait for the end of its
//! retention, or run it once under `FailedPolicy::Retry`, with work that returns the value found.
