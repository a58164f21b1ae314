//! Writing a store.
//!
//! A store implements [`IdempotencyStore`](crate::IdempotencyStore): one atomic *upsert-or-return*
//! per key, and the steps of its holder. `examples/foreign-store` of the repository is a small one,
//! with its test. Module [`backend`](crate::backend) has the parts to build it from.
//!
//! 1. **Check** the arguments before anything is sent.
//! 2. **Decide** by the tables of [`decision`](crate::backend::decision), in one atomic step.
//! 3. **Prove** the answer by what was written, never by an earlier read.
//! 4. **Classify** each error: its kind, and whether the call may have had an effect.
//!
//! | operation | check with [`check`](crate::backend::check) | decide as | rows |
//! | --- | --- | --- | --- |
//! | `claim` | `claim` | [`decide`](crate::backend::decision::decide) | C1–C9 |
//! | `complete`, `fail` | [`FinalResult`](crate::backend::FinalResult), or `response`, `failure`, `retention` | [`decide_seal`](crate::backend::decision::decide_seal) | S1–S4 |
//! | `release` | | [`decide_release`](crate::backend::decision::decide_release) | R1–R4 |
//! | `renew`, `checkpoint` | `lease`; [`Checkpoint::encode`](crate::Checkpoint::encode) | [`decide_renewal`](crate::backend::decision::decide_renewal) | N1–N3 |
//! | `delete_expired`, `fail_abandoned` | `batch` | [below](#the-token-outlives-the-record) | |
//! | `claim_many`, `finish_many` | `batch_items`, and each item by itself | as single calls | |
//! | `advance` | `version`, `retention` | an atomic maximum | |
//! | `rewrite` | `rewrite` | an update of result and metadata, if live, sealed so, and with this token | |
//!
//! Where you hold a lock, or run a transaction that sees no other, call these functions between
//! reading and writing. Where one statement decides, put the rows into its condition.
//!
//! # The stored form
//!
//! [`StoredRecord`](crate::backend::StoredRecord) names the columns. Beside them a row has the key
//! (three columns, compared as bytes) and the attempt id.
//!
//! ```
//! use std::time::Duration;
//!
//! use idem_core::backend::{FinalResult, StoredRecord, check};
//! use idem_core::{
//!     Bytes, ClaimOutcome, ClaimRequest, Fingerprint, Key, Limits, Response, StalePolicy,
//! };
//!
//! let limits = Limits::DEFAULT;
//! let key = Key::new("tenant-7", "payments.create", "8f14e45f")?;
//! let request = ClaimRequest::new(key.clone(), Fingerprint::raw("EUR 12.50"));
//! let checked = check::claim(&request, &limits)?; // microseconds, and the metadata as JSON
//!
//! // The row that the claim wrote, as the database returns it.
//! let (now, fingerprint) = (1_753_000_000_000_000, request.fingerprint().to_bytes());
//! let row = StoredRecord {
//!     state: StoredRecord::IN_FLIGHT,
//!     token: now, // or the last token + 1, if that is greater
//!     attempts: 1,
//!     fingerprint: &fingerprint,
//!     created_at: now,
//!     lease_ends_at: now + checked.lease,
//!     expires_at: now + checked.lease + checked.retention,
//!     fails_when_stale: request.on_stale() == StalePolicy::Fail,
//!     sealed_at: None,
//!     metadata: checked.metadata.as_deref(),
//!     result: None, // while in flight: the last checkpoint
//!     now,
//! };
//! assert_eq!(row.claim(&request).lease_granted(), Duration::from_secs(10));
//!
//! // What a completion writes, and what the loser of a later claim gets.
//! let response = Response::new(201, "receipt 1");
//! let wanted = FinalResult::completed(&response, Duration::from_secs(60), &limits)?;
//! let sealed = StoredRecord {
//!     state: wanted.state(),
//!     result: Some(Bytes::copy_from_slice(wanted.bytes())),
//!     expires_at: now + wanted.retention(),
//!     sealed_at: Some(now),
//!     ..row
//! };
//! assert!(wanted.is_same(sealed.state, sealed.result.as_deref())); // a repetition: S3
//! let rival = ClaimRequest::new(key, Fingerprint::raw("EUR 12.50"));
//! let ClaimOutcome::Completed(done) = sealed.loses(&rival)? else { panic!("it is completed") };
//! assert_eq!(done.response.body(), "receipt 1");
//! # Ok::<(), idem_core::Error>(())
//! ```
//!
//! # A skeleton in SQL
//!
//! States are 0 in flight, 1 completed, 2 failed, 3 released. Four words stand for expressions:
//!
//! | word | stands for |
//! | --- | --- |
//! | `now` | the *server's* clock in microseconds, read inside of the statement |
//! | `key` | equality of the three columns of the key |
//! | `own` | `r.expires_at > now AND r.state = 0 AND r.attempt_id = :attempt_id` |
//! | `held` | `key AND token = :token AND attempt_id = :attempt_id AND state = 0 AND expires_at > now` |
//!
//! ```sql
//! -- claim, rows C1, C3, C5, C7: a row comes back if and only if this attempt holds the key.
//! INSERT INTO records AS r (scope, operation, id, state, token, attempts, fingerprint, attempt_id,
//!     created_at, lease_ends_at, expires_at, fails_when_stale, metadata)
//! VALUES (:scope, :operation, :id, 0, now, 1, :fingerprint, :attempt_id,
//!     now, now + :lease, now + :lease + :retention, :fails_when_stale, :metadata)
//! ON CONFLICT (scope, operation, id) DO UPDATE SET
//!     token = CASE WHEN own THEN r.token ELSE GREATEST(r.token + 1, now) END,
//!     attempts = CASE WHEN r.expires_at <= now THEN 1 WHEN own THEN r.attempts
//!         ELSE r.attempts + 1 END,
//!     created_at = CASE WHEN r.expires_at <= now THEN now ELSE r.created_at END,
//!     result = CASE WHEN r.expires_at > now AND r.state = 0 THEN r.result END, -- the checkpoint
//!     state = 0, sealed_at = NULL, fingerprint = :fingerprint, attempt_id = :attempt_id,
//!     lease_ends_at = now + :lease, expires_at = now + :lease + :retention,
//!     fails_when_stale = :fails_when_stale, metadata = :metadata
//! WHERE r.expires_at <= now OR r.fingerprint = :fingerprint AND (own
//!     OR r.state = 0 AND r.lease_ends_at <= now
//!         AND NOT (r.fails_when_stale OR :fails_when_stale)
//!     OR r.state = 2 AND :retries_failed)
//! RETURNING *;
//! -- No row: read the live record, `WHERE key AND expires_at > now`, and answer with `loses`.
//! -- Row C6 (`is_abandoned`): fail it first, `WHERE key AND token = :token AND state = 0 AND
//! -- lease_ends_at <= now AND expires_at > now`, with the attempt id zero. Nothing there: again.
//!
//! -- complete and fail, row S2. No row: read the record, and decide S1, S3 or S4.
//! UPDATE records SET state = :state, result = :result, sealed_at = now,
//!     expires_at = now + :retention WHERE held RETURNING 1;
//! -- release, row R3: the row stays, for its token.
//! UPDATE records SET state = 3, result = NULL, expires_at = 0 WHERE held RETURNING 1;
//! -- delete_expired, at most :limit rows.
//! DELETE FROM records WHERE expires_at <= now AND token < now RETURNING 1;
//! ```
//!
//! A duplicate must write nothing (law 15). Where an upsert locks or logs a row that it leaves
//! alone, read first. The upsert decides if the read found no answer.
//!
//! # Statements that must conflict
//!
//! Of each pair, on one key, the second must wait for the first, see its effect, or fail.
//!
//! | statement | with | otherwise |
//! | --- | --- | --- |
//! | claim | claim | two winners |
//! | claim that takes over | complete, fail, release, renew, checkpoint of the old holder | a result of an overtaken holder; a takeover of a renewed lease |
//! | complete, fail, release | each other, and renew, checkpoint | two results; a result overwritten by a checkpoint |
//! | `fail_abandoned` | claim, renew, complete, fail, release | a completed key is reported as abandoned |
//! | `delete_expired` | claim | a live claim is deleted |
//! | `advance` | `advance`, `delete_expired_watermarks` | a mark falls |
//!
//! So each condition belongs in the statement that writes. Under snapshot isolation a plain read
//! before a write conflicts with nothing: lock what you read, or let the write check again.
//!
//! # The token outlives the record
//!
//! A token is `max(last + 1, now)` ([`next_at`](crate::FencingToken::next_at)). A deleted row takes
//! its token with it, so `delete_expired` keeps rows with `token >= now`: their next token must
//! come from the row, because the clock was set back. A store with one counter for all keys, kept
//! as safely as the rows, may delete each expired row. Say in your documentation what a clock does
//! that is set back after the deletion.
//!
//! # When to answer `Contention`
//!
//! | situation | answer | effect |
//! | --- | --- | --- |
//! | an open transaction holds the key, for more than [`MAX_LOCK_WAIT`](crate::backend::MAX_LOCK_WAIT) | `Contention`; for a claim also `InFlight`, if a committed record says so | none; unknown, if nothing ends the statement at the server |
//! | a step beside the open transaction that made its claim | `Contention`, never `ClaimLost` | none |
//! | deadlock, serialization failure, lock time-out | `Contention` | none, if the server rolled back |
//! | the key changed between read and write, again and again | `Contention`, after some tries | none |
//! | connection lost, time-out, server restarting | `Unavailable` | unknown, once a write was sent |
//!
//! [`LockedKeys`](crate::backend::LockedKeys) keeps callers of a locked key off the connections.
//! [`Codes`](crate::backend::Codes) is a table of error codes.
//!
//! # Repeated completions: bytes or values
//!
//! Either. The memory store compares values. The database stores compare bytes of the stored form,
//! which one build makes alike for equal results. If yours differs each time, as with encryption,
//! compare what was decoded. The retention does not count: the first one stands.
//!
//! # A store of a single process
//!
//! Hold a lock over reading, deciding and writing, but not across an `await`. Read the clock under
//! it, and let it never go back. Leave `shared_between_processes()` out of the profile: the suite
//! then ignores those cases. If the records outlive the process, promise `durable()` and
//! `one_process_at_a_time()`: a worker process completes and is killed, and then the test opens
//! what it left. Opening again beside an older handle would not show that a store is durable.
//!
//! # The harness
//!
//! [`idem-conformance`](https://docs.rs/idem-conformance) has the suite, and shows a whole harness.
//! These methods are optional, each for a promise of the profile; `impl Harness` is under
//! `#[async_trait]`:
//!
//! ```
//! # use {idem_core::{BatchStore, BoxError, IdempotencyStore, Key}, std::{net::SocketAddr, sync::Arc}};
//! # trait CallerTransaction {} trait Harness {
//! // batch()
//! async fn open_batch(&self, namespace: &str) -> Result<Option<Arc<dyn BatchStore>>, BoxError>;
//! // network()
//! async fn open_through(&self, namespace: &str, address: SocketAddr)
//! -> Result<Option<Arc<dyn IdempotencyStore>>, BoxError>;
//! fn server_address(&self) -> Option<SocketAddr>;
//! // batch() and network(), behind `Batched`
//! async fn open_batch_through(&self, namespace: &str, address: SocketAddr)
//! -> Result<Option<Arc<dyn BatchStore>>, BoxError>;
//! // transactions(), row_locks()
//! async fn begin(&self, namespace: &str) -> Result<Option<Box<dyn CallerTransaction>>, BoxError>;
//! // damage()
//! async fn damage(&self, namespace: &str, key: &Key) -> Result<bool, BoxError>;
//! // password()
//! async fn open_with_password(&self, namespace: &str, password: &str)
//! -> Result<Option<Arc<dyn IdempotencyStore>>, BoxError>;
//! # }
//! ```
