//! Secrets in results: encryption, masks, references.
//!
//! A store keeps what callers may need again: answers with tokens and addresses, checkpoints,
//! metadata. [`Protected`](crate::wrappers::Protected) is a store in front of the store that keeps
//! the secrets out. Its parts are independent.
//!
//! | what must not be in the database | use | a replay gets |
//! | --- | --- | --- |
//! | anything that a reader of the table, a backup or a cache could use | [`with_keys`] | the answer |
//! | fingerprints by which a request could be guessed | [`with_peppers`] | the answer |
//! | single values: a card number, a password | [`with_masked`] | `***` in their place |
//! | the answer at all | [`with_rebuild`] | an answer made from the current state |
//!
//! [`with_keys`]: crate::wrappers::Protected::with_keys
//! [`with_peppers`]: crate::wrappers::Protected::with_peppers
//! [`with_masked`]: crate::wrappers::Protected::with_masked
//! [`with_rebuild`]: crate::wrappers::Protected::with_rebuild
//!
//! Keys and peppers need the feature `encryption`.
//!
//! ```
//! # #[cfg(feature = "encryption")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//!
//! use idem_core::wrappers::protected::{KeyRing, Protected};
//! use idem_core::{Idempotency, IdempotencyStore, Key, MemoryStore, Work};
//!
//! // A file that only the service reads. The first line is the current key.
//! let file = "2026-02 GRkZGRkZGRkZGRkZGRkZGRkZGRkZGRkZGRkZGRkZGRk=
//!             2026-01 FhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhY=";
//! let ring = Arc::new(KeyRing::parse(file)?);
//! let database = MemoryStore::new();
//! let idem = Idempotency::new(Protected::new(database.clone()).with_keys(ring));
//!
//! let key = Key::new("tenant-7", "sessions.create", "8f14e45f")?;
//! let log_in = async |_: Work| Ok::<_, std::io::Error>("token 42".to_owned());
//! idem.run(&key, &"ada", log_in).await?;
//! assert_eq!(idem.run(&key, &"ada", log_in).await?.into_inner(), "token 42");
//! let stored = database.get(&key).await?.expect("it is completed");
//! assert!(!stored.response().expect("it is completed").body().ends_with(b"42\""));
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "encryption"))]
//! # fn main() {}
//! ```
//!
//! # Switch it on
//!
//! 1. Give every process the keys with
//!    [`PlainRecords::Accept`](crate::wrappers::protected::PlainRecords::Accept): new records are
//!    encrypted, old ones are still read. A process without the keys answers an encrypted record
//!    with an error, so stop the last of those before you rely on replays.
//! 2. Run `idem rewrap --plain` until nothing is left, or wait until the longest retention is over.
//! 3. Take `Accept` away. From then on a record without a ciphertext is refused.
//!
//! # Change the key
//!
//! In this order, with the time for all processes between the steps:
//!
//! 1. Add the new key in every process, behind the current one.
//! 2. Make it the current one, while the processes run or by restarting them.
//! 3. Run `idem rewrap` until nothing is left. It re-encrypts sealed records beside the traffic.
//!    Records in flight keep older values until they end.
//! 4. Remove the old key.
//!
//! A process that meets a key which it does not have answers with `Misconfigured`, and names the
//! key. No work runs again. When a key is lost, its results are lost: free those keys by hand, or
//! wait for the end of their retention.
//!
//! Keep each key in a secret store, or wrapped by a key management service
//! ([`KeyService`](crate::wrappers::protected::KeyService)). A backup of the database is as good as
//! its keys: keep them apart, and keep a key for as long as a backup that you would restore.
//!
//! # Caches, transactions, tools
//!
//! - The order matters: `Protected::new(HybridStore…)` puts ciphertexts into the cache. Name the
//!   cache to `idem rewrap`, which ends what it holds (`--cache`). The tiers within other processes
//!   hold ciphertexts under the old key until their lifetime ends: keep the key that much longer.
//! - The transaction methods of a store bypass the wrapper; `protect_claim`, `protect_response`
//!   and `reveal` go around them.
//! - `idem --keys FILE` shows and frees encrypted records. A failure that is forced without keys is
//!   a plain record, which the service refuses.
