//! Testing your code.
//!
//! Write the application against [`Idempotency`](crate::Idempotency) and give it a
//! [`MemoryStore`](crate::MemoryStore) in tests. It is the reference of the suite: what holds for
//! it holds for each database. Its operations are ready at their first poll, so tests are fast, and
//! each store is empty and separate.
//!
//! | to test | use |
//! | --- | --- |
//! | that a repetition has no second effect | two runs, and a counter in the effect |
//! | that concurrent repetitions have none | many runs at once |
//! | what a caller gets while another works | a claim made on the store by hand |
//! | what happens after a worker was killed | a claim made by hand, and never ended |
//! | a caller that goes away | a dropped future |
//! | a lost answer of the store | `LosesAnswers` of `idem-conformance` |
//! | that your test would notice a wrong store | `MutantStore` of `idem-conformance` |
//! | a store of your own | the [suite](super::stores) |
//!
//! # Repetitions, one after the other and at once
//!
//! ```
//! use std::sync::atomic::{AtomicU32, Ordering};
//! use std::time::Duration;
//!
//! use idem_core::{BusyPolicy, Idempotency, Key, MemoryStore, Policy, Work};
//! use tokio::task::JoinSet;
//!
//! static CHARGES: AtomicU32 = AtomicU32::new(0);
//!
//! /// The application's function.
//! async fn pay(idem: &Idempotency, id: &str, cents: u32) -> Result<String, String> {
//!     let key = Key::new("tenant-7", "payments.create", id).map_err(|error| error.to_string())?;
//!     let charge = async |_: Work| {
//!         let number = CHARGES.fetch_add(1, Ordering::SeqCst) + 1;
//!         tokio::task::yield_now().await;
//!         Ok::<_, std::io::Error>(format!("receipt {number}"))
//!     };
//!     let paid = idem.run(&key, &cents, charge).await;
//!     paid.map(|receipt| receipt.into_inner()).map_err(|error| error.to_string())
//! }
//!
//! #[tokio::main]
//! async fn main() {
//!     let waits = BusyPolicy::wait(Duration::from_secs(10));
//!     let patient = Policy::default().with_on_busy(waits);
//!     let idem = Idempotency::new(MemoryStore::new()).with_policy(patient);
//!     let mut callers = JoinSet::new();
//!     for _ in 0..50 {
//!         let idem = idem.clone();
//!         callers.spawn(async move { pay(&idem, "8f14e45f", 1250).await });
//!     }
//!     for receipt in callers.join_all().await {
//!         assert_eq!(receipt.as_deref(), Ok("receipt 1"));
//!     }
//!     assert_eq!(CHARGES.load(Ordering::SeqCst), 1);
//! }
//! ```
//!
//! # Other workers, alive and dead
//!
//! [`Idempotency::store`](crate::Idempotency::store) gives access to the records. A claim made
//! there is exactly what another worker's claim is, and one that never ends is what a killed worker
//! leaves. Use the fingerprint of the request that the application will send.
//!
//! ```
//! use std::time::Duration;
//!
//! use idem_core::{
//!     ClaimRequest, Failure, Fingerprint, Idempotency, Key, MemoryStore, Policy, RunError, Work,
//! };
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let request = ("EUR", 1250);
//! let charge = async |work: Work| Ok::<_, std::io::Error>(work.attempts());
//! let claim = |id: &str, lease| {
//!     let key = Key::new("tenant-7", "payments.create", id)?;
//!     let claim = ClaimRequest::new(key, Fingerprint::of(&request)?);
//!     Ok::<_, idem_core::Error>(claim.with_lease(lease))
//! };
//! let (minute, brief) = (Duration::from_secs(60), Duration::from_millis(50));
//! let idem = Idempotency::new(MemoryStore::new());
//!
//! // Another worker is at it: its lease is live.
//! let alive = claim("alive", minute)?;
//! let other = idem.store().claim(&alive).await?.acquired().expect("the key is free");
//! assert!(matches!(idem.run(alive.key(), &request, charge).await, Err(RunError::InFlight(_))));
//! idem.store().release(&other).await?;
//!
//! // It was killed: its lease ends, and the next run is the second attempt.
//! let killed = claim("killed", brief)?;
//! let _never_ended = idem.store().claim(&killed).await?;
//! tokio::time::sleep(brief * 2).await;
//! assert_eq!(idem.run(killed.key(), &request, charge).await?.into_inner(), 2);
//!
//! // The same under a policy that forbids a second attempt.
//! let strict = idem.with_policy(Policy::at_most_once());
//! let dead = claim("dead", brief)?;
//! let _never_ended = strict.store().claim(&dead).await?;
//! tokio::time::sleep(brief * 2).await;
//! let Err(RunError::Failed(failed)) = strict.run(dead.key(), &request, charge).await else {
//!     panic!("it must not run again")
//! };
//! assert_eq!(failed.failure.code(), Failure::ABANDONED);
//! # Ok(())
//! # }
//! ```
//!
//! A caller that goes away is a future that is dropped, for example by `tokio::time::timeout`. With
//! [`InterruptPolicy::LetExpire`](crate::engine::InterruptPolicy::LetExpire) the key looks as after
//! a kill in the middle of the work; [`calls`](super::calls) has such a test.
//!
//! # Time
//!
//! The memory store has a clock of its own, which tests cannot set. `tokio::time::pause` stops the
//! engine's timers and not the store's clock, so do not use it around runs. Instead give a claim
//! that must *live* a lease of minutes, and one that must *end* a lease of some 50 ms; then wait
//! for the condition, with a deadline.
//!
//! # Lost answers, and wrong stores
//!
//! `idem-conformance` is made for tests, and any crate may have it as a dev-dependency:
//!
//! | item | does |
//! | --- | --- |
//! | [`faults::LosesAnswers`] | wraps a store; performs the next operations and loses their answers. Its documentation has a test with the engine |
//! | [`cancel::polled`] | drops a future after a number of polls |
//! | [`proxy::Proxy`] | cuts or stalls the connections to a database's server |
//! | [`mutants::MutantStore`] | a store with one of many [bugs](https://docs.rs/idem-conformance/latest/idem_conformance/mutants/enum.Bug.html), such as `LastWriterWins` or `NoFencing` |
//!
//! With `Bug::LastWriterWins` the test of concurrent payments above must fail. If it passes, it
//! does not test what it seems to.
//!
//! # On your database
//!
//! A test on the memory store says nothing about transactions, schema or rights. Have one test on
//! the real server that runs `migrate()`, `verify()` and one payment, in a table of its own
//! (`Config::with_table`). The program `storm` of the examples kills processes on your server and
//! checks that every effect happened once.
//!
//! [`faults::LosesAnswers`]: https://docs.rs/idem-conformance/latest/idem_conformance/faults/struct.LosesAnswers.html
//! [`cancel::polled`]: https://docs.rs/idem-conformance/latest/idem_conformance/cancel/fn.polled.html
//! [`proxy::Proxy`]: https://docs.rs/idem-conformance/latest/idem_conformance/proxy/struct.Proxy.html
//! [`mutants::MutantStore`]: https://docs.rs/idem-conformance/latest/idem_conformance/mutants/struct.MutantStore.html
