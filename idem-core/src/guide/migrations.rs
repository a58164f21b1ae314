//! Migrations and upgrades.
//!
//! Four things outlive a deployment: the tables, the keys, the fingerprints and the stored results.
//! While a new version rolls out, old and new processes share them.
//!
//! # Tables
//!
//! No store creates its tables by itself. Either let the program do it, or your own migrations:
//!
//! | crate | in the program | as text, for your own migrations |
//! | --- | --- | --- |
//! | `idem-postgres`, `idem-mysql`, `idem-mssql`, `idem-sqlite` | `store.migrate()` | `schema_sql(&Config)` |
//! | `idem-mongo` | `store.migrate()` | `schema_commands(&Config)` |
//! | `idem-redis` | nothing to create | |
//! | `idem-hybrid` | `store.database().migrate()` | that of its database |
//! | [`MemoryStore`](crate::MemoryStore) | nothing to create | |
//!
//! - `migrate()` creates what is missing, and compares the rest with what the statements need. It
//!   only reads if there is nothing to do, and any number of processes may run it at once.
//! - It needs the right to create tables. If the service must not have it, run the printed text as
//!   an administrator and grant the service what the crate's README lists.
//! - `verify()` changes nothing: it checks columns, types, keys, indexes and rights, and answers
//!   `Misconfigured` with the remedy. Call it when a process starts.
//!
//! - To get the text, print `schema_sql(&Config::new())` in a small program, with the `Config` that
//!   the service uses. It may run any number of times.
//!
//! The text names the version of its schema, `SCHEMA_VERSION` of the crate, and each database
//! except SQLite keeps it beside the tables. A crate refuses tables of a later version than its own
//! with `Misconfigured`, and says that the crate has to be upgraded. There is one version so far.
//!
//! # Keys
//!
//! A key is compared byte by byte. If a new version makes another key of the same request, such as
//! by another name of the operation, a repetition of an old request is fresh: the work runs again.
//! So do not rename operations or change recipes while requests may be repeated. If you must, let
//! [`Work::add_alias`](crate::Work::add_alias) claim the old key as well, for one retention. It
//! returns the response that the old key has, and keeps old processes out meanwhile.
//!
//! ```
//! use idem_core::{Idempotency, Key, MemoryStore, Work};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let idem = Idempotency::new(MemoryStore::new());
//! let old = Key::new("tenant-7", "pay", "8f14e45f")?;
//! let before = async |_: Work| Ok::<_, idem_core::Error>("receipt 1".to_owned());
//! idem.run(&old, &1250, before).await?;
//!
//! // The new version has renamed the operation.
//! let new = Key::new("tenant-7", "payments.create", "8f14e45f")?;
//! let after = async |work: Work| match work.add_alias(&old).await? {
//!     Some(response) => response.from_json(),
//!     None => Ok::<_, idem_core::Error>("receipt 2".to_owned()),
//! };
//! assert_eq!(idem.run(&new, &1250, after).await?.into_inner(), "receipt 1");
//! # Ok(())
//! # }
//! ```
//!
//! The ids that [`Key::derive`](crate::Key::derive), [`from_parts`](crate::Key::from_parts) and
//! [`from_intent`](crate::Key::from_intent) make begin with the version of their form: `d1:`, `p1:`
//! and `t1:`. An id in one of these forms that a client sends, such as a derived one of another
//! service, is another key: [`Key::new`](crate::Key::new) gives it an id that begins with `c1:`.
//! Stores, and tools that read keys from them, use [`Key::stored`](crate::Key::stored).
//!
//! # Fingerprints
//!
//! The stored fingerprint is of the form that was current at the claim. If a new version makes
//! another fingerprint of the same request, a repetition is a *conflict* until the retention ends.
//! Nothing runs twice, but clients get refusals that they do not deserve.
//!
//! | change | fingerprint of an old request | what to do |
//! | --- | --- | --- |
//! | a new optional field, left out where it is `None` | the same | `#[serde(skip_serializing_if = "Option::is_none")]` |
//! | a new field that always appears | another | leave it out of the fingerprint ([`fields`](crate::Fingerprint::fields)), or accept conflicts for one retention |
//! | a field renamed, or its type changed | another | as above |
//! | members in another order, other white space | the same | nothing |
//! | another constructor, such as `json` instead of `raw` | another, always | as above |
//! | `fields` with other pointers | another, always | as above |
//!
//! ```
//! use idem_core::Fingerprint;
//! use serde::Serialize;
//!
//! #[derive(Serialize)]
//! struct Payment {
//!     cents: u32,
//! }
//!
//! #[derive(Serialize)]
//! struct PaymentWithNote {
//!     #[serde(skip_serializing_if = "Option::is_none")]
//!     note: Option<String>,
//!     cents: u32,
//! }
//!
//! let old = Fingerprint::of(&Payment { cents: 1250 })?;
//! let new = |note| Fingerprint::of(&PaymentWithNote { note, cents: 1250 });
//! assert_eq!(new(None)?, old);
//! assert_ne!(new(Some("for July".to_owned()))?, old);
//!
//! // A document that carries its version still has the same payment in it.
//! let paid = |text: &str| Fingerprint::fields(text, ["/cents"]);
//! assert_eq!(paid(r#"{"cents": 1250}"#)?, paid(r#"{"cents": 1250, "version": 2}"#)?);
//! # Ok::<(), idem_core::Error>(())
//! ```
//!
//! # Response types
//!
//! [`run`](crate::Idempotency::run) stores the value as JSON and reads it back as the type of the
//! *reader*. A value that it cannot read is [`RunError::Codec`](crate::RunError::Codec): the work
//! has run, and no repetition helps.
//!
//! | while old and new processes run | the new type needs | the old type needs |
//! | --- | --- | --- |
//! | a field is added | `#[serde(default)]` on it | no `deny_unknown_fields` |
//! | a field is removed | nothing | `#[serde(default)]` on it, in an earlier deployment |
//! | a field is renamed | `#[serde(rename = "old")]`, until the old processes and their records are gone | nothing |
//! | a variant is added to a tagged enum | nothing | a variant with `#[serde(other)]`, in an earlier deployment |
//!
//! ```
//! use idem_core::{Idempotency, Key, MemoryStore, RunError, Work};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Receipt {
//!     number: u32,
//! }
//!
//! #[derive(Serialize, Deserialize)]
//! struct ReceiptWithFee {
//!     number: u32,
//!     #[serde(default)]
//!     fee: u32,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let idem = Idempotency::new(MemoryStore::new());
//! let old = Key::new("tenant-7", "payments.create", "by the old version")?;
//! let new = Key::new("tenant-7", "payments.create", "by the new version")?;
//! let before = async |_: Work| Ok::<_, std::io::Error>(Receipt { number: 1 });
//! let after = async |_: Work| Ok::<_, std::io::Error>(ReceiptWithFee { number: 2, fee: 30 });
//! idem.run(&old, &(), before).await.map_err(|error| error.to_string())?;
//! idem.run(&new, &(), after).await.map_err(|error| error.to_string())?;
//!
//! // Each version reads what the other has stored.
//! let read = idem.run(&old, &(), after).await.map_err(|error| error.to_string())?.into_inner();
//! assert_eq!((read.number, read.fee), (1, 0));
//! let read = idem.run(&new, &(), before).await.map_err(|error| error.to_string())?.into_inner();
//! assert_eq!(read.number, 2);
//!
//! // A type that cannot read it fails, and the work does not run.
//! let text = async |_: Work| Ok::<_, std::io::Error>("receipt".to_owned());
//! assert!(matches!(idem.run(&old, &(), text).await, Err(RunError::Codec(_))));
//! # Ok(())
//! # }
//! ```
//!
//! The same holds for [checkpoints](super::calls#checkpoints), which a process of another version
//! may read, and for steps of sagas, whose names are their identity.
//!
//! # Features and policies
//!
//! - A process without the feature `zstd` answers `Misconfigured` for a compressed result. No
//!   setting reads such results without writing them. So while a deployment that turns it on rolls
//!   out, old processes cannot replay new results above 4 KiB: callers repeat, or stop the old
//!   version first.
//! - A policy counts for the runs that start under it. The record keeps lease, retention and stale
//!   policy of the claim that made it; a shorter retention does not shorten existing records.
//!
//! # Adopting
//!
//! A service that keeps answers in a table of its own moves to a store in steps. While old processes
//! run, the old table decides between them and new ones, because they know no other:
//!
//! | deployment | does | why nothing runs twice |
//! | --- | --- | --- |
//! | 1 | runs the old code, with its table, as the work of [`run`](crate::Idempotency::run) | new processes meet at the record, an old and a new one at the old table's unique key |
//! | when no older process runs | `idem import` of the old table, beside traffic | existing records stay as they are |
//! | 2 | runs the work alone | each key of the old table has a record |
//!
//! Keep scope, operation and id as deployment 1 makes them, and the old table until its longest
//! retention is over: until then you can go back. `idem-cli/tests/commands.rs` runs both codes side
//! by side.
//!
//! An old table rarely has a fingerprint that a store understands. So imported records have
//! [`Fingerprint::UNKNOWN`](crate::Fingerprint::UNKNOWN): they match every request with their key, and
//! another request under a used key gets the old answer, not a conflict. `idem show`, and the
//! `info.fingerprint` of a [record](crate::Record) or claim, say so. A claim of a store by itself is a
//! conflict with that fingerprint: use
//! [`claim_matching`](crate::IdempotencyStoreExt::claim_matching), as the engine does.
//!
//! `idem import` reads a JSON object a line, stores 64 at once, and may be stopped and run again:
//!
//! ```json
//! {"scope": "tenant-7", "operation": "payments.create", "id": "8f14e45f", "status": 201, "headers": [["content-type", "application/json"]], "body": "{}"}
//! {"scope": "tenant-7", "operation": "jobs.run", "id": "45c48cce", "json": {"receipt": 7}, "expires_at": "2026-12-24T18:00:00Z"}
//! ```
//!
//! | member | |
//! | --- | --- |
//! | `scope`, `operation`, `id` | the key, as [`Key::new`](crate::Key::new) takes it |
//! | `status`, `headers` | default: 200, and none; the result of `run` has neither |
//! | one of `body`, `json`, `base64` | a text; a value, kept as it is written; bytes |
//! | `failure` | in place of these: an object with `code` and `message` |
//! | `expires_at` | RFC 3339; default: `--retention` (24 h) from now |
//!
//! A program does the same by [`adopt`](crate::IdempotencyStoreExt::adopt):
//!
//! ```
//! use std::time::Duration;
//!
//! use idem_core::backend::StoredResult;
//! use idem_core::{Idempotency, IdempotencyStoreExt, Key, MemoryStore, Response, Work};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = MemoryStore::new();
//! let key = Key::new("tenant-7", "payments.create", "8f14e45f")?;
//! let old = StoredResult::Response(Response::new(200, r#""receipt 1""#));
//! assert!(store.adopt(&key, &old, Duration::from_secs(3600)).await?);
//!
//! let charge = async |_: Work| Ok::<_, std::io::Error>("receipt 2".to_owned());
//! let receipt = Idempotency::new(store).run(&key, &1250, charge).await?;
//! assert_eq!(receipt.into_inner(), "receipt 1");
//! # Ok(())
//! # }
//! ```
