//! Waiting for the result of another run.
//!
//! A duplicate may come while the first run still works. The policy's
//! [`BusyPolicy`](crate::BusyPolicy) says what it gets.
//!
//! | | [`Refuse`](crate::BusyPolicy::Refuse), the default | [`wait(limit)`](crate::BusyPolicy::wait) |
//! | --- | --- | --- |
//! | the first run ends with a result | | its value, replayed |
//! | the first run releases the key | | the duplicate acquires it, and its own work runs |
//! | the first run is still at work | [`RunError::InFlight`](crate::RunError::InFlight) at once | the same, after the limit |
//! | its lease ends | `InFlight` until then; afterwards a claim takes over | the duplicate takes over |
//! | an open transaction holds the key | repeats for the retry time-out, then `RunError::Store` with `Contention` | waits likewise, then the same |
//! | costs | one claim | a held connection and task, and two to four claims per second |
//!
//! Refuse where the caller can repeat by itself, as HTTP clients and queues do: a service full of
//! waiting callers is how a retry storm takes it down. Wait where the answer comes within a few
//! seconds and a caller has nothing better to do.
//!
//! ```
//! use std::time::Duration;
//!
//! use idem_core::{BusyPolicy, Idempotency, Key, MemoryStore, Policy, RunError, Work};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let patient = Policy::default().with_on_busy(BusyPolicy::wait(Duration::from_secs(5)));
//! let idem = Idempotency::new(MemoryStore::new())
//!     .with_operation_policy("reports.*", patient);
//! let slow = async |_: Work| {
//!     tokio::time::sleep(Duration::from_millis(30)).await;
//!     Ok::<_, std::io::Error>("done".to_owned())
//! };
//!
//! // Two callers at once: one works, the other waits and gets its result.
//! let report = Key::new("tenant-7", "reports.monthly", "2026-07")?;
//! let (one, two) = tokio::join!(idem.run(&report, &(), slow), idem.run(&report, &(), slow));
//! let (one, two) = (one?, two?);
//! assert!(one.is_replayed() != two.is_replayed());
//! assert_eq!(one.into_inner(), two.into_inner());
//!
//! // An operation under the default policy refuses the second one.
//! let payment = Key::new("tenant-7", "payments.create", "8f14e45f")?;
//! let (one, two) = tokio::join!(idem.run(&payment, &(), slow), idem.run(&payment, &(), slow));
//! assert!(one.is_ok());
//! assert!(matches!(two, Err(RunError::InFlight(_))));
//! # Ok(())
//! # }
//! ```
//!
//! # How a run waits
//!
//! It claims again and again, with the same attempt id. The pauses double from 5 ms to 500 ms, each
//! drawn at random between half and all of its length. None goes beyond the end of the holder's
//! lease. So a lost notification, a killed holder or a restarted store costs a pause and no answer.
//!
//! | bound | default | set by |
//! | --- | --- | --- |
//! | the wait of one run | none without `wait` | [`Policy::with_on_busy`](crate::Policy::with_on_busy) |
//! | waiting runs of one process; one more is refused at once | 1,024 | [`with_max_waiters`](crate::Idempotency::with_max_waiters) |
//!
//! Set the limit below the time-out of the caller's own client. Dropping a waiting run ends its
//! wait.
//!
//! # Notifications
//!
//! | where the first run is | what wakes the waiting one |
//! | --- | --- |
//! | in the same [`Idempotency`](crate::Idempotency) or a clone of it | the end of the run, always |
//! | in another process, on PostgreSQL | `LISTEN`/`NOTIFY`: `PostgresStore::notifier()`, and `Notifications::Changes` in the `Config` of every process; off by default |
//! | in another process, on Redis | `PUBLISH`, on by default: the store is its own notifier |
//! | in another process, on other stores | the next poll |
//!
//! Give the notifier to the engine with [`with_notifier`](crate::Idempotency::with_notifier). A
//! notification is a hint to claim at once instead of after the pause; correctness never depends on
//! one. For a source of hints of your own implement
//! [`ChangeNotifier`](crate::backend::ChangeNotifier):
//!
//! ```
//! use idem_core::backend::{ChangeNotifier, Subscription};
//! use idem_core::{Idempotency, Key, MemoryStore, Result, async_trait};
//! use tokio::sync::watch;
//!
//! /// Notifies all waiting runs, whatever the key.
//! #[derive(Debug)]
//! struct OneBell(watch::Sender<u64>);
//!
//! #[async_trait]
//! impl ChangeNotifier for OneBell {
//!     async fn listen(&self, _: &Key) -> Result<Subscription> {
//!         Ok(Subscription::new(self.0.subscribe()))
//!     }
//! }
//!
//! let bell = OneBell(watch::Sender::new(0));
//! let idem = Idempotency::new(MemoryStore::new()).with_notifier(bell);
//! # let _ = idem;
//! ```
//!
//! # Many callers at once
//!
//! Waiting is about callers of *one* key. Claims that come at the same time share a round trip of the
//! store, and identical ones share a claim: the stores of this family do so by themselves, others
//! behind [`Batched`](crate::wrappers::Batched). Nothing is cached: each answer comes from a call that
//! began after its caller's own.
