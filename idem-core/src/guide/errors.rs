//! What to do for each error.
//!
//! Losing a race is no error of a store: [`ClaimOutcome`](crate::ClaimOutcome) says who has the
//! key. An [`Error`](crate::Error) means that a call of a store was refused or gave no clear
//! answer. A [`RunError`](crate::RunError) means that a run of the engine has no stored value.
//!
//! # Errors of runs
//!
//! | [`RunError`](crate::RunError) | what happened | may the work have run? | what to do |
//! | --- | --- | --- | --- |
//! | `Conflict` | the key belongs to a request with another fingerprint | not for this request | refuse the caller (HTTP 422); a new request needs a new key. Alert: a client reuses keys |
//! | `InFlight` | another run works on the request, also after the wait that the policy allows | yes, elsewhere, now | tell the caller to repeat it later (HTTP 409), after [`retry_after`](crate::RunError::retry_after) at the latest; or [wait](super::waiting) |
//! | `Failed` | an earlier run failed for good; this is the [`Failure`](crate::Failure) | yes, earlier; see its code [below](#codes-of-failures) | answer as the first time; do not repeat |
//! | `Work` | the work returned this error in this call | yes, in this call | handle your own error; the [policy](super::failures) has released or recorded the claim |
//! | `Store` | the store gave no decision | not in this call | by the [kind of its error](#errors-of-stores); most often: repeat the run with the same key. After an unknown effect the key may be held until the lease ends |
//! | `NotStored` | the work ran and this is its value; it is unknown whether the store has it | yes, in this call | use the value, it is real; see [below](#notstored) |
//! | `Codec` | the stored response cannot be read as `T` | yes, earlier | a fault of a [deployment](super::migrations): a person has to look. Repeating changes nothing |
//!
//! [`RunError::has_run`](crate::RunError::has_run) is true for `Work` and `NotStored`. Repeating a
//! run with the same key and the same request is always safe: at worst it gets the same error.
//!
//! ```
//! use std::time::Duration;
//!
//! use idem_core::{Idempotency, Key, MemoryStore, Outcome, RunError, Work};
//!
//! /// Status and Retry-After of an HTTP answer.
//! fn status<T, E>(run: &Result<Outcome<T>, RunError<E, T>>) -> (u16, Option<Duration>) {
//!     match run {
//!         Ok(_) => (200, None),
//!         Err(RunError::NotStored { .. }) => (200, None), // it has happened
//!         Err(RunError::Conflict(_)) => (422, None),
//!         Err(busy @ RunError::InFlight(_)) => (409, busy.retry_after()),
//!         Err(RunError::Failed(_)) => (500, None),
//!         Err(RunError::Store(error)) if error.is_retryable() => (503, None),
//!         Err(_) => (500, None),
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let idem = Idempotency::new(MemoryStore::new());
//! let key = Key::new("tenant-7", "payments.create", "8f14e45f")?;
//! let charge = async |_: Work| Ok::<_, std::io::Error>("receipt 1".to_owned());
//! assert_eq!(status(&idem.run(&key, &1250, charge).await), (200, None));
//! assert_eq!(status(&idem.run(&key, &9999, charge).await), (422, None));
//!
//! let slow = Key::new("tenant-7", "payments.create", "45c48cce")?;
//! let busy = async |_: Work| {
//!     let second = status(&idem.run(&slow, &1250, charge).await);
//!     assert!(matches!(second, (409, Some(wait)) if wait <= Duration::from_secs(10)));
//!     Ok::<_, std::io::Error>("receipt 2".to_owned())
//! };
//! assert_eq!(status(&idem.run(&slow, &1250, busy).await), (200, None));
//! # Ok(())
//! # }
//! ```
//!
//! `idem-http` and `idem-queue` do this for services and consumers.
//!
//! # `NotStored`
//!
//! The value is real, and a retry may not find it. The source says why:
//!
//! | kind of the source | what happened | a retry gets |
//! | --- | --- | --- |
//! | `ClaimLost` | another attempt acquired the key, or a sweep failed it: the work may have run twice | the other attempt's result |
//! | `AlreadySealed` | the claim was completed with another result, such as by the work itself in its transaction | that result |
//! | `InvalidInput` | the value is too large, or its JSON does not read back as the value | [`Failure::NOT_STORED`](crate::Failure::NOT_STORED); the work does not run again |
//! | others | the store was away for the retry time-out, and at least for a lease | the value, if it was stored after all; otherwise the stale policy decides |
//!
//! # Codes of failures
//!
//! | [`Failure`](crate::Failure) code | may the work have taken effect? | what to do |
//! | --- | --- | --- |
//! | `idem.failed` | as the application's error says; its text is the message | answer with it |
//! | `idem.cancelled`, `idem.panicked` | unknown: it was interrupted | a person checks the effect |
//! | `idem.abandoned` | unknown: its worker vanished | a person checks the effect |
//! | `idem.not_stored` | yes, all of it | look up the result where the effect is; make the result smaller |
//! | any other | the application stored it with `fail` | as the application decided |
//!
//! # Errors of stores
//!
//! [`Error::kind`](crate::Error::kind) says what to do next, and
//! [`Error::effect`](crate::Error::effect) whether the call may have changed the store.
//!
//! | [`ErrorKind`](crate::ErrorKind) | what happened | effect | what to do |
//! | --- | --- | --- | --- |
//! | `InvalidInput` | an argument is outside of its limits; nothing was sent | none | correct it: the same argument fails again |
//! | `ClaimLost` | the claim is no longer held: overtaken, released, expired, or failed by a sweep | none | stop the work; roll its transaction back |
//! | `AlreadySealed` | the claim was sealed with another result, which stands | none | read it with [`get`](crate::IdempotencyStore::get); use that one |
//! | `Contention` | another caller or an open transaction is in the way | none; unknown where a commit was cut off | repeat; in a caller's transaction, [repeat all of it](super::transactions) |
//! | `Unavailable` | the store cannot be reached, or did not answer in time | none or unknown | repeat with the same request or claim; alert if it lasts |
//! | `Misconfigured` | schema, rights or settings are wrong; the message says which | nearly always none | an operator acts; repeating does not help |
//! | `Corrupt` | stored data cannot be read | nearly always none | a person looks at the record; repeating does not help |
//! | `Other` | something that no other kind fits | as it says | look at the source |
//!
//! [`is_retryable`](crate::Error::is_retryable) is true for `Contention` and `Unavailable`. The
//! engine repeats both for the policy's retry time-out before it returns them.
//!
//! # Unknown effects
//!
//! [`Effect::Unknown`](crate::Effect::Unknown) means that the call may have taken effect, or may
//! still do so. Repeat the *same* call: the same [`ClaimRequest`](crate::ClaimRequest), with its
//! attempt id, gets its own claim back; the same claim and response complete twice with success. A
//! new request would find the key held by the lost one, until its lease ends.
//!
//! ```
//! use std::time::Duration;
//!
//! use idem_core::{
//!     ClaimRequest, ErrorKind, Fingerprint, IdempotencyStore, IdempotencyStoreExt, Key,
//!     MemoryStore, Response,
//! };
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (store, hour) = (MemoryStore::new(), Duration::from_secs(3600));
//! let key = Key::new("tenant-7", "payments.create", "8f14e45f")?;
//! let request = ClaimRequest::new(key, Fingerprint::raw("EUR 12.50"));
//!
//! // Say that the first answer was lost. The repetition is the same attempt.
//! let lost = store.claim(&request).await?.acquired().expect("the key is free");
//! let again = store.claim_retrying(&request, Duration::from_secs(10)).await?;
//! let claim = again.acquired().expect("its own claim comes back");
//! assert_eq!((claim.token(), claim.attempts()), (lost.token(), 1));
//!
//! // The same completion twice succeeds twice. Another one is refused, and the first stands.
//! store.complete(&claim, &Response::new(201, "receipt 1"), hour).await?;
//! store.complete(&claim, &Response::new(201, "receipt 1"), hour).await?;
//! let other = store.complete(&claim, &Response::new(201, "receipt 2"), hour).await;
//! assert_eq!(other.unwrap_err().kind(), ErrorKind::AlreadySealed);
//! # Ok(())
//! # }
//! ```
//!
//! # Logging errors
//!
//! `Display` and `Debug` of these errors show no key, no payload and no text of the driver, which
//! may quote data. [`source`](std::error::Error::source) has the driver's error: a reporter that
//! walks the chain of sources shows its text. The work's own error shows itself as it is.
