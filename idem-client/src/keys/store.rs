//! [`StoreKeys`]: keys in an idempotency store.

use std::convert::Infallible;
use std::time::Duration;

use async_trait::async_trait;
use idem_core::{
    BusyPolicy, ErrorKind as StoreErrorKind, Fingerprint, Idempotency, IdempotencyStore, Key,
    Outcome, Policy, Record, RunError,
};

use crate::issued::KeptKey;
use crate::{Error, ErrorKind, Intent, IntentKeys, IssuedKey, KeyForm};

/// Keeps the keys of intents in any [`IdempotencyStore`], for any number of processes.
///
/// To make a key is itself an operation that must happen once. The intent is its key in the store,
/// the request's fingerprint its fingerprint, and the new idempotency key its sealed result. So one
/// caller makes the key, every other one gets it replayed, and another request under the intent is
/// a conflict.
///
/// A process that is killed before the result is sealed has sent nothing: another caller takes over
/// after the lease of 5 s and makes a new key. A caller that finds another one at work waits up to
/// 15 s. The age of a key goes by the store's clock alone.
///
/// Use a durable store. A `MemoryStore` forgets the keys with the process.
#[derive(Debug, Clone)]
pub struct StoreKeys {
    idempotency: Idempotency,
    scope: String,
    retention: Duration,
}

/// The operation of all intents.
const OPERATION: &str = "idem-client.intent";
const LEASE: Duration = Duration::from_secs(5);
const BUSY_LIMIT: Duration = Duration::from_secs(15);
/// How often a caller that lost its claim looks for the winner's key.
const ROUNDS: u32 = 3;

impl StoreKeys {
    /// A year.
    pub const DEFAULT_RETENTION: Duration = Duration::from_secs(365 * 24 * 60 * 60);

    /// Keeps keys in this store. The scope separates the servers and accounts that share the store,
    /// such as `bank.example/account-7`: 1 to 255 bytes without control characters.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](ErrorKind::Misconfigured) when the scope cannot be part of a key.
    pub fn new(store: impl IdempotencyStore, scope: impl Into<String>) -> Result<Self, Error> {
        let scope = scope.into();
        Key::new(&scope, OPERATION, "1").map_err(|error| {
            let message = "the scope is not valid: it has 1 to 255 bytes, no control characters";
            Error::new(ErrorKind::Misconfigured, message).with_source(error)
        })?;
        Ok(Self {
            idempotency: Idempotency::new(store),
            scope,
            retention: Self::DEFAULT_RETENTION,
        }
        .with_policy())
    }

    /// Sets how long a key is kept, at most 3,650 days. Default: a year. After that the same intent
    /// is a new one. It must be longer than the server keeps answers.
    #[must_use]
    pub fn with_retention(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self.with_policy()
    }

    fn with_policy(mut self) -> Self {
        let policy = Policy::default()
            .with_lease(LEASE)
            .with_retention(self.retention)
            .with_on_busy(BusyPolicy::wait(BUSY_LIMIT));
        self.idempotency = self.idempotency.with_operation_policy(OPERATION, policy);
        self
    }

    /// Returns the age of a sealed key by the store's clock; `None` when the record is gone.
    async fn age(&self, key: &Key) -> Result<Option<Duration>, Error> {
        let record = self.idempotency.store().get(key).await;
        Ok(match record.map_err(failed)? {
            Some(Record::Completed(record)) => {
                // Made before it was sealed: the age of the record is that of the key or more.
                let begun = record.info.created_at.min(record.sealed_at);
                Some(record.info.observed_at.saturating_since(begun))
            }
            _ => None,
        })
    }
}

#[async_trait]
impl IntentKeys for StoreKeys {
    async fn key_for(
        &self,
        intent: &Intent,
        fingerprint: &Fingerprint,
        form: KeyForm,
    ) -> Result<IssuedKey, Error> {
        let key = Key::new(&self.scope, OPERATION, intent.name()).map_err(failed)?;
        let mut round = 1;
        loop {
            let make = async |_| Ok::<_, Infallible>(KeptKey::make(form));
            let run = self.idempotency.run_with(&key, *fingerprint, make).await;
            return match run {
                Ok(Outcome::Fresh(kept)) => Ok(kept.issued(Some(Duration::ZERO), true)),
                Ok(Outcome::Replayed { value, .. }) => {
                    Ok(value.issued(self.age(&key).await?, false))
                }
                // The key of this call was not sealed, so it is never sent. Another caller's is.
                Err(RunError::NotStored { source, .. }) if source.is_claim_lost() => {
                    if round < ROUNDS {
                        round += 1;
                        continue;
                    }
                    Err(failed(source))
                }
                Err(RunError::Conflict(_)) => Err(Error::changed()),
                Err(RunError::InFlight(_)) => Err(Error::new(
                    ErrorKind::KeysUnavailable,
                    "another caller has been making the intent's key for too long",
                )),
                Err(RunError::Store(source) | RunError::NotStored { source, .. }) => {
                    Err(failed(source))
                }
                Err(RunError::Work(never)) => match never {},
                Err(other) => Err(Error::corrupt("the intent's record is not a key")
                    .with_source(other.to_string())),
            };
        }
    }

    fn retention(&self) -> Duration {
        self.retention
    }
}

fn failed(source: idem_core::Error) -> Error {
    let (kind, message) = match source.kind() {
        StoreErrorKind::InvalidInput | StoreErrorKind::Misconfigured => (
            ErrorKind::Misconfigured,
            "the store cannot keep the intent's key as it is set up",
        ),
        StoreErrorKind::Corrupt => (ErrorKind::Corrupt, "the intent's record cannot be read"),
        _ => (
            ErrorKind::KeysUnavailable,
            "the store did not keep the intent's key",
        ),
    };
    Error::new(kind, message).with_source(source)
}
