//! A guide, in the order in which an application needs it. It holds only documentation.
//!
//! | chapter | answers |
//! | --- | --- |
//! | [`keys`] | Which key, scope and fingerprint does my operation need? |
//! | [`leases`] | How long should a lease and a retention be? |
//! | [`errors`] | What do I do about each error? |
//! | [`transactions`] | How do the record and my rows commit together? |
//! | [`calls`] | What about effects in systems that share no transaction with me? |
//! | [`waiting`] | What does a duplicate do while the first call still runs? |
//! | [`failures`] | What becomes of a key whose work failed? |
//! | [`testing`] | How do I test my code, crashes and lost answers included? |
//! | [`migrations`] | How do tables, fingerprints and response types change while calls go on? |
//! | [`monitoring`] | What do I measure, and what do I alert on? |
//! | [`secrets`] | How do tokens and personal data stay out of the database? |
//! | [`stores`] | How do I write a store of my own? |
//!
//! # The whole in one example
//!
//! A run has a [`Key`](crate::Key), a request and the work. The engine claims the key in the store,
//! runs the work, and stores its result. Every later run of the key gets that result.
//!
//! ```
//! use idem_core::{Idempotency, Key, MemoryStore, Policy, RunError, Work};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let idem = Idempotency::new(MemoryStore::new()) // a database in production
//!     .with_operation_policy("payments.*", Policy::api_write());
//! let key = Key::new("tenant-7", "payments.create", "8f14e45f")?;
//! let charge = async |_: Work| Ok::<_, std::io::Error>("receipt 1".to_owned());
//!
//! let first = idem.run(&key, &("EUR", 1250), charge).await?;
//! let retry = idem.run(&key, &("EUR", 1250), charge).await?; // does not charge
//! assert!(!first.is_replayed() && retry.is_replayed());
//! assert_eq!(first.into_inner(), retry.into_inner());
//!
//! let other = idem.run(&key, &("EUR", 9999), charge).await; // the key of another request
//! assert!(matches!(other, Err(RunError::Conflict(_))));
//! # Ok(())
//! # }
//! ```
//!
//! # What the library promises, and what it cannot
//!
//! At any time at most one attempt holds a key, and a result that was stored is the result of every
//! later call until its retention ends. Nothing can make work outside of the store's transaction
//! happen exactly once: a process may die after the effect and before the store knows of it. The
//! work then runs again, or never again. Decide for each operation:
//!
//! | the effect is | make it exact by | chapter |
//! | --- | --- | --- |
//! | rows in the store's database | one transaction for rows and record | [`transactions`] |
//! | a call to a system that takes keys | a derived key | [`calls`] |
//! | a write to a system that compares numbers | the fencing token | [`calls`] |
//! | a call to a system that offers neither | `Policy::at_most_once`, and a person for the rest | [`calls`] |
//! | harmless when repeated | nothing more | |

pub mod calls;
pub mod errors;
pub mod failures;
pub mod keys;
pub mod leases;
pub mod migrations;
pub mod monitoring;
pub mod secrets;
pub mod stores;
pub mod testing;
pub mod transactions;
pub mod waiting;
