//! Monitoring: observers, logs and metrics.
//!
//! An [`Observer`](crate::engine::observe::Observer) sees every run of an engine. Two are there
//! already, each behind a feature; you may add your own, and use several at once
//! ([`with_observer`](crate::Idempotency::with_observer)).
//!
//! | observer | feature | gives |
//! | --- | --- | --- |
//! | `TracingObserver` | `tracing` | a span `idem.run` around each run, and events |
//! | `MetricsObserver` | `metrics` | counters, gauges and histograms through the `metrics` facade |
//! | yours | | decisions, endings, lost leases, retries and waits, as calls |
//!
//! ```
//! # #[cfg(all(feature = "metrics", feature = "tracing"))]
//! # {
//! use idem_core::engine::observe::{MetricsObserver, TracingObserver};
//! use idem_core::{Idempotency, MemoryStore};
//!
//! MetricsObserver::describe(); // once, after the exporter is installed
//! let class = |scope: &str| if scope.starts_with("trial-") { "trial" } else { "paying" };
//! let idem = Idempotency::new(MemoryStore::new())
//!     .with_observer(TracingObserver::new().with_scope_class(class))
//!     .with_observer(MetricsObserver::new().with_scope_class(class).with_max_operations(50));
//! # let _ = idem;
//! # }
//! ```
//!
//! No label and no log line holds a scope or an id. Logs show the operation and the beginning of
//! the key's hash ([`Key::hashed`](crate::Key::hashed)), except under
//! `TracingObserver::with_plain_keys`.
//!
//! # An observer of your own
//!
//! Its calls come in between the steps of a run, so it must be quick and must not block.
//!
//! ```
//! use std::sync::Mutex;
//!
//! use idem_core::engine::observe::{Decision, Ended, Ending, LeaseLoss, Observer};
//! use idem_core::{Idempotency, Key, MemoryStore, Work};
//!
//! /// Keeps what a person should see.
//! #[derive(Debug, Default)]
//! struct Alarms(Mutex<Vec<&'static str>>);
//!
//! impl Alarms {
//!     fn raise(&self, alarm: &'static str) {
//!         self.0.lock().unwrap().push(alarm);
//!     }
//! }
//!
//! impl Observer for &'static Alarms {
//!     fn decided(&self, _: &Key, decision: Decision) {
//!         if decision == Decision::Conflict {
//!             self.raise("a client reuses keys");
//!         }
//!     }
//!
//!     fn ended(&self, _: &Key, ended: &Ended) {
//!         if ended.ending == Ending::Unsettled {
//!             self.raise("a last step was not taken");
//!         }
//!     }
//!
//!     fn lease_lost(&self, _: &Key, _: LeaseLoss) {
//!         self.raise("work may have run twice");
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let alarms: &'static Alarms = Box::leak(Box::default());
//! let idem = Idempotency::new(MemoryStore::new()).with_observer(alarms);
//! let key = Key::new("tenant-7", "payments.create", "8f14e45f")?;
//! let charge = async |_: Work| Ok::<_, std::io::Error>("receipt 1".to_owned());
//! let _ = idem.run(&key, &1250, charge).await;
//! let _ = idem.run(&key, &9999, charge).await;
//! assert_eq!(*alarms.0.lock().unwrap(), ["a client reuses keys"]);
//! # Ok(())
//! # }
//! ```
//!
//! # Stuck keys
//!
//! [`admin`](crate::IdempotencyStore::admin) of every store of this family lists records, and takes
//! a step in place of a holder that is gone. The tools `idem` and its console do the same for
//! people.
//!
//! ```
//! use idem_core::admin::{Forced, ForcedAction, ForcedStep, RecordFilter, SummaryState};
//! use idem_core::{Fingerprint, IdempotencyStore, IdempotencyStoreExt, Key, MemoryStore};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = MemoryStore::new();
//! let key = Key::new("tenant-7", "payments.create", "8f14e45f")?;
//! let outcome = store.claim_key(key.clone(), Fingerprint::raw("request")).await?;
//! let claim = outcome.acquired().expect("the key is free"); // its worker dies now
//!
//! let admin = store.admin().expect("the store has it");
//! let stuck = RecordFilter::new().with_state(SummaryState::InFlight);
//! let page = admin.list(&stuck, None, 100).await?;
//! let record = &page.records[0];
//! let why = "worker lost, no charge at the bank";
//! let step = ForcedStep::new(key.clone(), record.token, ForcedAction::Release, "ada", why)?;
//! assert!(matches!(admin.force(&step).await?, Forced::Done { .. }));
//! assert!(matches!(admin.force(&step).await?, Forced::Refused { current: None }));
//!
//! assert!(store.release(&claim).await.unwrap_err().is_claim_lost());
//! assert_eq!(store.history(&key).await?[0].who, "ada");
//! # Ok(())
//! # }
//! ```
//!
//! - A step names the token that the operator has seen. After a takeover it changes nothing, and the
//!   answer is the record as it is.
//! - One statement compares the token and takes the step. It fences the holder: the late steps of
//!   one that comes back are `ClaimLost`.
//! - A page looks at a bounded number of records and locks none. There is no index for it, so a list
//!   of what is rare reads the whole table, page by page; claims cost the same with it and without.
//! - An audit entry is a record of the operation
//!   [`AUDIT_OPERATION`](crate::admin::AUDIT_OPERATION), kept for
//!   [`MAX_RETENTION`](crate::limits::MAX_RETENTION). An account that writes the table
//!   can change it: where that matters, copy entries to a place of their own.
//!
//! # What to alert on
//!
//! Module [`observe`](crate::engine::observe) lists every metric with its labels, and the constant
//! `METRICS` has the same for programs.
//!
//! | signal | means | do |
//! | --- | --- | --- |
//! | `idem_decisions_total{decision="unknown"}` above zero for minutes | the store gives no decisions; callers get `RunError::Store` | look at the store: server, pool, rights |
//! | `idem_decisions_total{decision="conflict"}` rises for one operation | a client reuses keys, or a deployment changed the [fingerprint](super::migrations#fingerprints) | look at the latest deployments, then at the client |
//! | `idem_lease_losses_total{cause="overtaken"}` | another attempt ran beside this one, so work may have run twice | check the effect; a longer [lease](super::leases); derived keys |
//! | `idem_lease_losses_total{cause="expired"}` | the store was away, or the process stood still, for longer than a lease | look for pauses and blocked threads |
//! | `idem_endings_total{ending="unsettled"}` | the store did not take a claim's last step: a result may not be stored, or a key stays held until its lease ends | look at the store; check the effect of those runs |
//! | `idem_endings_total{ending="failed"}` for an operation that runs at most once | somebody has to find out whether the effect happened | work through the failures |
//! | `idem_decisions_total{decision="takeover"}` rises | workers die in the middle of their work | look for crashes and kills |
//! | `idem_unstored_total` rises for one operation | an edge does not store its answers, so retries run again | look at `reason`: a new status, a stream, a larger answer |
//! | `idem_store_retries_total{kind="unavailable"}` rises | calls fail and are repeated | before `unknown` rises, look at the store |
//! | `idem_store_retries_total{kind="contention"}` rises | transactions hold keys for long | make them shorter |
//! | `idem_waiters` near 1,024 per process | further callers are refused | find the slow work; a shorter wait |
//! | the table's size grows while the rate of `decision="new"` does not | expired records are not deleted | [`purge_beside_traffic`](crate::IdempotencyStoreExt::purge_beside_traffic) on a timer |
//! | `idem_cache_errors_total`, `idem_cache_skipped_total` rise | the cache of `idem-hybrid` is away: answers are right and slower | look at Redis |
//!
//! A rising rate of `decision="duplicate"` alone is no fault of the library: clients repeat, and
//! their repetitions are harmless. It shows that something before it is slow.
//!
//! | for dashboards | |
//! | --- | --- |
//! | share of duplicates | `decision="duplicate"` by all decisions |
//! | duration from first sight to result | `idem_first_seen_to_sealed_seconds`, with takeovers |
//! | waiting | `idem_waiters`, `idem_wait_seconds` |
//!
//! `dashboards/idem.json` of this crate is a Grafana dashboard, and the example `prometheus` serves
//! the metrics. `docs/operations.md` in the repository is the handbook for operators: what to set
//! up, back up and do when an alert comes.
