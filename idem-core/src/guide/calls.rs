//! Calls to other systems.
//!
//! A payment provider, a mail server or another service shares no transaction with the store. If
//! the process dies between the call and the completion, the store does not know that the call took
//! place. What to do depends on what the called system offers.
//!
//! | the called system | use | after a crash in between |
//! | --- | --- | --- |
//! | accepts an idempotency key | [`Work::derive`](crate::Work::derive) | the takeover repeats the call under the same key; the system answers as the first time |
//! | can refuse a smaller number than it has seen | [`Work::token`](crate::Work::token) | writes of an overtaken holder are refused |
//! | can be asked whether it happened | a [checkpoint](#checkpoints) before the call, and a question in the takeover | the takeover asks first |
//! | offers none of these, and a repetition does harm | [`Policy::at_most_once`](crate::Policy::at_most_once) | nothing runs again; a person decides |
//! | offers none of these, and a repetition is harmless | nothing more | it is called twice |
//!
//! # Derived keys
//!
//! `work.derive("bank")` is a key with the same scope and operation, and an id that is a hash of
//! the run's key and the name: 67 ASCII characters, `d1:` and 64 hexadecimal digits. Each attempt
//! of the run derives the same one. Send its [`id`](crate::Key::id) as the idempotency key of the
//! call, and give each call of the work a name of its own. A client that sends such an id does not
//! reach the derived key: see [`Key::new`](crate::Key::new).
//!
//! Here the first run is cut off after the bank has charged. The takeover charges again under the
//! same key, and the bank returns the first receipt:
//!
//! ```
//! use std::collections::HashMap;
//! use std::sync::Mutex;
//! use std::time::Duration;
//!
//! use idem_core::engine::InterruptPolicy;
//! use idem_core::{BusyPolicy, Idempotency, Key, MemoryStore, Policy, Work};
//!
//! /// A bank that accepts idempotency keys.
//! #[derive(Default)]
//! struct Bank(Mutex<HashMap<String, String>>);
//!
//! impl Bank {
//!     fn charge(&self, key: &str) -> String {
//!         let mut receipts = self.0.lock().unwrap();
//!         let number = receipts.len() + 1;
//!         let receipt = receipts.entry(key.to_owned());
//!         receipt.or_insert_with(|| format!("receipt {number}")).clone()
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let policy = Policy::default()
//!     .with_lease(Duration::from_millis(60)) // short, for this example
//!     .with_on_cancel(InterruptPolicy::LetExpire) // as if the process had died
//!     .with_on_busy(BusyPolicy::wait(Duration::from_secs(5)));
//! let idem = Idempotency::new(MemoryStore::new()).with_policy(policy);
//! let key = Key::new("tenant-7", "payments.create", "8f14e45f")?;
//! let bank = Bank::default();
//!
//! let dies = async |work: Work| {
//!     bank.charge(work.derive("bank").id());
//!     std::future::pending::<Result<String, std::io::Error>>().await
//! };
//! let cut_off = tokio::time::timeout(Duration::from_millis(20), idem.run(&key, &1250, dies));
//! assert!(cut_off.await.is_err());
//!
//! let charge = async |work: Work| {
//!     assert!(work.is_takeover());
//!     Ok::<_, std::io::Error>(bank.charge(work.derive("bank").id()))
//! };
//! assert_eq!(idem.run(&key, &1250, charge).await?.into_inner(), "receipt 1");
//! assert_eq!(bank.0.lock().unwrap().len(), 1, "charged once");
//! # Ok(())
//! # }
//! ```
//!
//! The called system must keep its keys for longer than your retries last. If it keeps them for a
//! day, an attempt that starts after a day charges again.
//!
//! # The fencing token
//!
//! A process may be paused for longer than its lease, and go on with a write that another attempt
//! has already made. [`Work::is_lost`](crate::Work::is_lost) is a check before the write, but a
//! pause may come after the check. Where the target can compare numbers, send the token with each
//! write, and let the target refuse a smaller one: `UPDATE … SET fenced_by = $token WHERE fenced_by
//! <= $token`. The tokens of a key grow with each acquisition, also after release, expiry and
//! deletion.
//!
//! # Checkpoints
//!
//! Work of several steps can store how far it got. A takeover starts with the last checkpoint. The
//! part between two checkpoints may run twice, so each step still needs a derived key or a harmless
//! repetition.
//!
//! ```
//! use std::time::Duration;
//!
//! use idem_core::{BoxError, BusyPolicy, ErrorPolicy, Idempotency, Key, MemoryStore, Policy, Work};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let policy = Policy::default()
//!     .with_lease(Duration::from_millis(60))
//!     .with_on_error(ErrorPolicy::LetExpire) // a release would drop the checkpoint
//!     .with_on_busy(BusyPolicy::wait(Duration::from_secs(5)));
//! let idem = Idempotency::new(MemoryStore::new()).with_policy(policy);
//! let key = Key::new("tenant-7", "import", "invoices.csv")?;
//!
//! let import = async |work: Work| {
//!     let done: u32 = match work.last_checkpoint().await? {
//!         Some(point) => point.from_json()?,
//!         None => 0,
//!     };
//!     for line in done..10 {
//!         if line == 4 && !work.is_takeover() {
//!             return Err::<_, BoxError>("the disk is full".into());
//!         }
//!         work.checkpoint("line", &(line + 1)).await?;
//!     }
//!     Ok(10 - done)
//! };
//! assert!(idem.run(&key, &"invoices.csv", import).await.is_err());
//! let lines = idem.run(&key, &"invoices.csv", import).await;
//! assert_eq!(lines.map_err(|error| error.to_string())?.into_inner(), 6, "the rest");
//! # Ok(())
//! # }
//! ```
//!
//! A checkpoint outlives its worker, not its claim: a completion, a failure and a release remove
//! it. In a store with transactions, `checkpoint_in` commits it together with the rows of the step.
//! All stores of this family keep checkpoints ([`CheckpointStore`](crate::CheckpointStore)).
//!
//! # At most once
//!
//! [`Policy::at_most_once`](crate::Policy::at_most_once) records every end of the work: an error, a
//! panic, a caller that went away, and a worker that vanished. Nothing runs a second time until the
//! retention ends. The price: after a crash nobody knows whether the effect happened, and a person
//! has to find out. Alert on `idem.abandoned`, and give the operation a long
//! [`with_failure_retention`](crate::Policy::with_failure_retention).
//!
//! # Sagas
//!
//! A [`Saga`](crate::engine::Saga) is a sequence of steps in several systems. Each step and each
//! compensation is a run under a derived key of its own, so a repeated saga skips what is done. If
//! a step fails for good, the steps before it are undone in reverse order. Module
//! [`saga`](crate::engine::saga) has the rules and an example; `examples/src/bin/saga.rs` is a
//! program that is killed at each point.
//!
//! # Work in another process
//!
//! [`hand_off`](crate::Idempotency::hand_off) claims a key and delivers the claim, for example in
//! the message of a queue; [`resume`](crate::Idempotency::resume) continues there. The key counts
//! as in flight from the first click to the end of the job. `idem-queue` builds on it.
