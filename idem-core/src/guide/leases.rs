//! Leases and retention in numbers.
//!
//! Two times belong to each key. The *lease* protects a claim while its work runs. The *retention*
//! keeps the result afterwards. The store's clock judges both; the clocks of clients do not matter.
//!
//! | setting of [`Policy`](crate::Policy) | default | range | answers |
//! | --- | --- | --- | --- |
//! | `lease` | 10 s | 1 ms to 30 days | how long a dead worker blocks its key |
//! | `retention` | 24 h | 1 ms to 3,650 days | how long a result is replayed |
//! | `failure_retention` | 24 h | 1 ms to 3,650 days | how long a recorded failure is replayed, and an abandoned claim kept after its lease |
//! | `retry_timeout` | 10 s | above zero | how long a call that found the store away is repeated |
//!
//! Stores round durations up to whole milliseconds. Anything outside of the ranges is
//! [`InvalidInput`](crate::ErrorKind::InvalidInput) before anything is sent.
//!
//! ```
//! use std::time::Duration;
//!
//! use idem_core::limits::{MAX_LEASE, MAX_RETENTION};
//! use idem_core::{Idempotency, Key, Limits, MemoryStore, Policy};
//!
//! let policy = Policy::default();
//! assert_eq!(policy.lease(), Duration::from_secs(10));
//! assert_eq!(policy.retention(), Duration::from_secs(24 * 3600));
//! assert_eq!(policy.retry_timeout(), Duration::from_secs(10));
//! assert_eq!(MAX_LEASE, Duration::from_secs(30 * 24 * 3600));
//! assert!(policy.with_retention(MAX_RETENTION * 2).check(&Limits::DEFAULT).is_err());
//!
//! let imports = Policy::default()
//!     .with_lease(Duration::from_secs(60))
//!     .with_retention(Duration::from_secs(7 * 24 * 3600));
//! let idem = Idempotency::new(MemoryStore::new()).with_operation_policy("import.*", imports);
//! let key = Key::new("tenant-7", "import.line", "1042")?;
//! assert_eq!(idem.policy_for(&key).lease(), Duration::from_secs(60));
//! # Ok::<(), idem_core::Error>(())
//! ```
//!
//! # The lease
//!
//! The engine renews the lease at each third while the work runs. So the lease does **not** limit
//! the work: an hour's import runs under a lease of 10 s. It limits two other times:
//!
//! - *After a crash*, the key stays blocked until the lease ends: up to a whole lease.
//! - *While the store is away*, the work may assume that it holds the claim. At the last successful
//!   renewal a whole lease was left, and the next one comes a third later. So
//!   [`Work::is_lost`](crate::Work::is_lost) becomes true between two thirds of a lease and a lease
//!   after the store went away.
//!
//! | lease | renewed each | a dead worker blocks the key for at most | outage that every run survives |
//! | --- | --- | --- | --- |
//! | 5 s | 1.7 s | 5 s | 3.3 s |
//! | 10 s | 3.3 s | 10 s | 6.7 s |
//! | 30 s | 10 s | 30 s | 20 s |
//! | 2 min | 40 s | 2 min | 80 s |
//! | 10 min | 200 s | 10 min | 400 s |
//!
//! Choose it longer than one and a half times the longest pause that is normal for you: a restart
//! or failover of the database, a paused container, work that blocks its thread. A lease that is
//! too short costs a second run of the work and a lost result for the first; one that is too long
//! costs waiting after a crash, and nothing else. When in doubt, take the longer one.
//!
//! A work that ends within a third of its lease is never renewed. Each longer one costs one
//! statement per third: 10,000 works in flight are 3,000 renewals per second at 10 s, and 1,000 at
//! 30 s. Work that runs in a [transaction](crate::Idempotency::run_in) has no lease.
//!
//! A stale claim is not gone: its holder may still complete, renew or release until another attempt
//! has acquired the key. The fencing token decides that, not a clock.
//!
//! ```
//! use std::time::Duration;
//!
//! use idem_core::{
//!     ClaimOutcome, ClaimRequest, Fingerprint, IdempotencyStore, Key, MemoryStore, Response,
//! };
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = MemoryStore::new();
//! let request = |id: &str, lease| {
//!     let key = Key::new("tenant-7", "payments.create", id)?;
//!     let request = ClaimRequest::new(key, Fingerprint::raw("EUR 12.50")).with_lease(lease);
//!     Ok::<_, idem_core::Error>(request)
//! };
//!
//! // While the lease lasts, others learn how long that will be.
//! let minute = Duration::from_secs(60);
//! let _held = store.claim(&request("live", minute)?).await?;
//! let ClaimOutcome::InFlight(seen) = store.claim(&request("live", minute)?).await? else {
//!     panic!("it is held")
//! };
//! assert!(!seen.is_stale() && seen.lease_remaining() <= minute);
//!
//! // After the lease, one of them takes over, with a greater token.
//! let brief = Duration::from_millis(50);
//! let paused = store.claim(&request("stale", brief)?).await?.acquired().expect("it is free");
//! tokio::time::sleep(brief * 2).await;
//! let claim = store.claim(&request("stale", brief)?).await?.acquired().expect("it is stale");
//! assert!(claim.token() > paused.token() && claim.is_takeover());
//!
//! // The holder that was paused can do no harm.
//! let hour = Duration::from_secs(3600);
//! let late = store.complete(&paused, &Response::new(200, "late"), hour).await;
//! assert!(late.unwrap_err().is_claim_lost());
//! store.complete(&claim, &Response::new(200, "in time"), hour).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # The retention
//!
//! After its retention a key is fresh: the same request runs again, whether the record was deleted
//! or not. So the retention must be longer than the longest time after which a repetition may come,
//! with a margin:
//!
//! | repetitions come from | they may come for | retention |
//! | --- | --- | --- |
//! | a client library with back-off | minutes to hours | 24 h ([`Policy::api_write`](crate::Policy::api_write)) |
//! | clients that go on after a weekend | 3 days | 72 h or more |
//! | a webhook provider | some days | 14 days ([`Policy::webhook`](crate::Policy::webhook)) |
//! | a batch that is restarted | its run, and the night | run and 24 h ([`Policy::batch`](crate::Policy::batch)) |
//! | a person who clicks twice | seconds | 30 s to 10 min ([`Policy::ghost_job`](crate::Policy::ghost_job)) |
//! | a queue with a dead-letter queue that people replay | as long as they may do so | that, and a margin |
//!
//! The retention of a result counts from its completion; a replay does not extend it.
//!
//! The price is room. A store holds about *fresh keys per second × retention* records: 50 keys per
//! second and 24 h are 4.3 million. The cost of a claim does not grow with them. A record consists
//! of its key, about 120 bytes of numbers and digests, metadata, and the result, which may have 8
//! MiB ([`Limits`](crate::Limits)). Keep large results elsewhere and store a reference.
//!
//! # Deleting
//!
//! Expiry needs no deletion, but the room does. Call
//! [`purge_beside_traffic`](crate::IdempotencyStoreExt::purge_beside_traffic) from a timer in one
//! or more processes. It deletes in small batches with pauses, and never a live record. Watermarks
//! have a call of their own,
//! [`delete_expired_watermarks`](crate::WatermarkStore::delete_expired_watermarks).
//!
//! Where operations use [`StalePolicy::Fail`](crate::StalePolicy::Fail), call
//! [`sweep_all`](crate::IdempotencyStoreExt::sweep_all) as well: it records abandoned claims as
//! failed, so that reports and dashboards see them. The next claim of the key would do the same.
//!
//! ```
//! use idem_core::{IdempotencyStoreExt, MemoryStore};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> idem_core::Result<()> {
//! let store = MemoryStore::new();
//! let deleted = store.purge_beside_traffic().await?;
//! let failed = store.sweep_all().await?;
//! assert_eq!((deleted, failed), (0, 0));
//! # Ok(())
//! # }
//! ```
