//! Choosing keys, scopes and fingerprints.
//!
//! A [`Key`](crate::Key) has three parts, which are compared byte by byte and never joined.
//!
//! | part | says | take it from | limit |
//! | --- | --- | --- | --- |
//! | scope | who asks | authentication: tenant, account, API key | 255 bytes |
//! | operation | the intent | a constant in the code, such as `payments.create` | 128 bytes |
//! | id | which request | the caller, see below | 255 bytes |
//!
//! - Never take the scope from the client's own words: a client that may choose it can read the
//!   stored answers of others.
//! - A scope is no place for a secret: keys stand in tables, backups and lists of operators in clear.
//!   Take the id of the account, not its API key. If there is only the API key, store an HMAC of it
//!   under a secret of the service: `IdempotencyLayer::with_scope_secret` of `idem-http` does so. A
//!   plain hash would do for long random keys only; guesses at others can be tested against it.
//! - Use a small, fixed set of operations. Policies and metrics go by them.
//! - Two operations on one request, such as *charge* and *send receipt*, are two keys.
//!
//! # The id
//!
//! A good id is the same for every repetition of one request, and another one for every new
//! request. Only the side that repeats can know the difference, so it chooses the id, before its
//! first attempt.
//!
//! | the request comes | id | constructor |
//! | --- | --- | --- |
//! | over HTTP | the client's `Idempotency-Key` (`idem-http` does all of this) | [`Key::new`](crate::Key::new) |
//! | as a webhook | the provider's event id (`idem-webhooks`) | [`Key::new`](crate::Key::new) |
//! | as a queue message | the producer's message id, not the broker's delivery id (`idem-queue`) | [`Key::new`](crate::Key::new) |
//! | from a file or a batch | file, line and the like | [`Key::from_parts`](crate::Key::from_parts) |
//! | from a person who clicks twice | the target of the click | [`Key::from_intent`](crate::Key::from_intent) |
//! | as a chat message | the client's short nonce, by author | [`Key::from_nonce`](crate::Key::from_nonce) |
//! | without any id | the bytes of the request | [`Key::from_parts`](crate::Key::from_parts) |
//!
//! With the last one, two requests that are meant to be two, such as two equal orders, count as one
//! until the retention ends. Ids that never work: a new random id for each attempt (no repetition
//! is found), a clock, a counter that starts anew with the process.
//!
//! ```
//! use idem_core::key::Target;
//! use idem_core::{Key, Nonce};
//!
//! // The client's header, as it is.
//! let payment = Key::new("tenant-7", "payments.create", "8f14e45f")?;
//! assert_eq!(payment.id(), "8f14e45f");
//!
//! // Several parts of any length: each is hashed with its length before it.
//! let line = Key::from_parts("tenant-7", "import.line", ["invoices.csv", "1042"])?;
//! assert_ne!(line, Key::from_parts("tenant-7", "import.line", ["invoices.csv1", "042"])?);
//!
//! // A person who requests the same build twice, with the name typed in two ways.
//! let click = Key::from_intent("user-7", Target::Name("My  Project "), "build")?;
//! assert_eq!(click, Key::from_intent("user-7", Target::Name("my project"), "build")?);
//!
//! // A nonce belongs to its author: another author's nonce 7 is another message.
//! let message = Key::from_nonce("ada", "chat.send", &Nonce::from(7_u64))?;
//! assert_ne!(message, Key::from_nonce("bob", "chat.send", &Nonce::from(7_u64))?);
//!
//! // Control characters and over-long parts are refused before anything is sent.
//! assert!(Key::new("tenant-7", "payments.create", "a\n").is_err());
//! # Ok::<(), idem_core::Error>(())
//! ```
//!
//! # The fingerprint
//!
//! The key says *which* request; the [`Fingerprint`](crate::Fingerprint) says *what* it requests. A
//! call with a known key and another fingerprint is a conflict: nothing runs, and the caller gets
//! [`RunError::Conflict`](crate::RunError::Conflict). It is a fault of the caller, and worth an
//! alert.
//!
//! | constructor | two requests are the same if |
//! | --- | --- |
//! | [`Fingerprint::of`](crate::Fingerprint::of), which `run` uses | the values have the same canonical JSON (RFC 8785) |
//! | [`Fingerprint::json`](crate::Fingerprint::json) | the documents do: order of members, white space and notation of numbers do not count |
//! | [`Fingerprint::fields`](crate::Fingerprint::fields) | the fields at these JSON Pointers are equal; other fields do not count |
//! | [`Fingerprint::raw`](crate::Fingerprint::raw) | all bytes are equal |
//!
//! Include what changes the effect: amount, currency, recipient. Leave out what a retry changes by
//! itself: the time of sending, trace ids, counters of attempts. The scope, the operation and the
//! id need not be in it. `of` and `json` give the same fingerprint for the same document;
//! fingerprints of `fields` and `raw` are never equal to those of another constructor.
//!
//! ```
//! use idem_core::{Fingerprint, Idempotency, Key, MemoryStore, RunError, Work};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let first = r#"{"amount": 1200, "currency": "EUR", "sent_at": "09:00:00"}"#;
//! let retry = r#"{"currency":"EUR", "amount":12e2, "sent_at":"09:00:07"}"#;
//!
//! // The documents differ, because the client wrote the time into them; the payment does not.
//! assert_ne!(Fingerprint::json(first)?, Fingerprint::json(retry)?);
//! let paid = |text: &str| Fingerprint::fields(text, ["/amount", "/currency"]);
//! assert_eq!(paid(first)?, paid(retry)?);
//!
//! let idem = Idempotency::new(MemoryStore::new());
//! let key = Key::new("tenant-7", "payments.create", "8f14e45f")?;
//! let charge = async |_: Work| Ok::<_, std::io::Error>("receipt 1".to_owned());
//! idem.run_with(&key, paid(first)?, charge).await?;
//! assert!(idem.run_with(&key, paid(retry)?, charge).await?.is_replayed());
//!
//! let other = r#"{"amount": 1, "currency": "EUR"}"#;
//! let conflict = idem.run_with(&key, paid(other)?, charge).await;
//! assert!(matches!(conflict, Err(RunError::Conflict(_))));
//! # Ok(())
//! # }
//! ```
//!
//! `fields` tells a missing field from one that is `null`. [`migrations`](super::migrations) says
//! how a fingerprint changes while records of the old form still live.
//!
//! # Requests without a key
//!
//! Where the key is optional, [`run_optional`](crate::Idempotency::run_optional) runs the work
//! without one: the value is fresh, and nothing is read or stored.
//!
//! # Storage and logs
//!
//! The store keeps the three parts as they are, and of the request only the digest. Errors, `Debug`
//! and logs never show scope or id. They show the operation and the beginning of
//! [`Key::hashed`](crate::Key::hashed), by which two log lines about one key can be matched. Do not
//! put secrets or personal data into an id: hash them with `Key::from_parts`.
