//! [`Config`]: the settings of a store.

use std::time::Duration;

use idem_core::{Effect, Error, ErrorKind, Limits, Result};

/// Whether a server that may drop records under memory pressure is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Eviction {
    /// Connecting fails when the server has a memory limit and an eviction policy other than
    /// `noeviction`.
    #[default]
    Refuse,
    /// The server may drop claims and results when memory is short: the work then runs again.
    Accept,
}

/// Whether changes are published to waiting runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Notifications {
    /// Results, failures and releases are published.
    #[default]
    Changes,
    /// Nothing is published: waiting runs poll.
    Off,
}

/// The longest time-out.
const MAX_TIME: Duration = Duration::from_secs(24 * 60 * 60);

/// How many replicas must have a write before it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replicas {
    pub(crate) count: u32,
    pub(crate) within: Duration,
}

impl Replicas {
    /// `WAIT count within` follows each write of a claim, a result, a release, a renewal, a
    /// checkpoint or a watermark; `within` is at least 1 ms and at most a day. When fewer replicas
    /// have answered by then, the operation fails as `Unavailable`, with an unknown effect: the
    /// master has the write, and a repetition waits for the replicas again.
    ///
    /// `WAIT` also precedes each answer that rests on a stored result: a replay, a conflict, a
    /// result that was read, `AlreadySealed`, a stale version, the id of a posted nonce. It was
    /// written by another caller, whose own `WAIT` may be under way or have failed. `WAIT` needs a
    /// write of its own connection, so the script renews the expiry of the record as it is. A
    /// replay is then two round trips and a write.
    ///
    /// A failover then loses only writes that the promoted replica had not acknowledged: see
    /// <https://redis.io/docs/latest/commands/wait/>. With `count` the number of all replicas, an
    /// acknowledged write is on every node that can be promoted.
    #[must_use]
    pub const fn new(count: u32, within: Duration) -> Self {
        let within = if within.as_secs() < MAX_TIME.as_secs() {
            within
        } else {
            MAX_TIME
        };
        Self { count, within }
    }
}

/// The settings of a store: namespace, limits, time-outs and requirements for the server.
#[derive(Debug, Clone)]
pub struct Config {
    namespace: String,
    limits: Limits,
    timeout: Duration,
    grace: Duration,
    eviction: Eviction,
    replicas: Option<Replicas>,
    notifications: Notifications,
    root_certificate: Option<Vec<u8>>,
    batching: bool,
}

impl Config {
    /// Creates the defaults: namespace `idem`, 8 MiB results, 5 s for each operation, a grace of
    /// one minute, no eviction, no waiting for replicas.
    #[must_use]
    pub fn new() -> Self {
        Self {
            namespace: "idem".to_owned(),
            limits: Limits::DEFAULT,
            timeout: Duration::from_secs(5),
            grace: Duration::from_secs(60),
            eviction: Eviction::default(),
            replicas: None,
            notifications: Notifications::default(),
            root_certificate: None,
            batching: true,
        }
    }

    /// Sets the prefix of all keys of this store in Redis, before a colon. Stores with different
    /// namespaces share nothing; stores that share records use the same.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when it is not 1 to 64 of `A`–`Z`, `a`–`z`, `0`–`9`, `_`, `-`, `.`.
    pub fn with_namespace(mut self, namespace: impl Into<String>) -> Result<Self> {
        self.namespace = checked_namespace(namespace.into())?;
        Ok(self)
    }

    /// Sets the limits for results and metadata.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets how long one operation may take, connecting and retries included; after that it fails
    /// as `Unavailable`. At most a day. A claim that reaches the server later than that does
    /// nothing.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.min(MAX_TIME);
        self
    }

    /// Sets whether concurrent claims, results and releases of this process share commands. Default:
    /// on. With fewer than nine callers each sends alone either way: they share the connection, and
    /// no caller waits for another's answer.
    #[must_use]
    pub fn with_batching(mut self, batching: bool) -> Self {
        self.batching = batching;
        self
    }

    /// Sets how long the server remembers the fencing token of a record that has ended. The next
    /// token is then greater even when a failover brings a server whose clock is behind. Set it to
    /// at least the difference between the clocks of master and replicas.
    #[must_use]
    pub fn with_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Sets whether a server is accepted that may drop records when memory is short.
    #[must_use]
    pub fn with_eviction(mut self, eviction: Eviction) -> Self {
        self.eviction = eviction;
        self
    }

    /// Makes every write wait for replicas.
    #[must_use]
    pub fn with_replicas(mut self, replicas: Replicas) -> Self {
        self.replicas = Some(replicas);
        self
    }

    /// Sets whether changes are published to waiting runs. All stores that share records should use
    /// the same setting.
    #[must_use]
    pub fn with_notifications(mut self, notifications: Notifications) -> Self {
        self.notifications = notifications;
        self
    }

    /// Sets the trusted certificate for `rediss://…`, in PEM: that of the authority that signed the
    /// server's. Default: the authorities of the crate `webpki-roots`.
    #[must_use]
    pub fn with_root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.root_certificate = Some(pem.into());
        self
    }

    /// Returns the prefix of the keys in Redis.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the limits for results and metadata.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Returns whether concurrent calls share commands.
    #[must_use]
    pub fn batching(&self) -> bool {
        self.batching
    }

    /// Returns how long one operation may take.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    pub(crate) fn eviction(&self) -> Eviction {
        self.eviction
    }

    pub(crate) fn replicas(&self) -> Option<Replicas> {
        self.replicas
    }

    pub(crate) fn notifies(&self) -> bool {
        self.notifications == Notifications::Changes
    }

    pub(crate) fn root_certificate(&self) -> Option<&[u8]> {
        self.root_certificate.as_deref()
    }

    /// Returns the grace in whole milliseconds.
    pub(crate) fn grace_millis(&self) -> u64 {
        // Far beyond any retention, and within the server's range.
        const MAX_MILLIS: u128 = 1 << 48;
        u64::try_from(self.grace.as_millis().min(MAX_MILLIS)).unwrap_or(1 << 48)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::new()
    }
}

/// A namespace is part of a pattern and of names, so it must not contain characters that are
/// special in either.
pub(crate) fn checked_namespace(namespace: String) -> Result<String> {
    const MAX_BYTES: usize = 64;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if (1..=MAX_BYTES).contains(&namespace.len()) && namespace.bytes().all(plain) {
        return Ok(namespace);
    }
    Err(Error::new(
        ErrorKind::InvalidInput,
        Effect::None,
        format!(
            "a namespace is 1 to {MAX_BYTES} letters, digits, `_`, `-` and `.`; this one has {} bytes",
            namespace.len()
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_out_without_end_is_a_day() {
        let config = Config::new()
            .with_timeout(Duration::MAX)
            .with_grace(Duration::MAX)
            .with_replicas(Replicas::new(1, Duration::MAX));
        assert_eq!(config.timeout(), MAX_TIME);
        assert_eq!(
            config.replicas().map(|replicas| replicas.within),
            Some(MAX_TIME)
        );
        assert_eq!(config.grace_millis(), 1 << 48);
    }

    #[test]
    fn a_namespace_has_nothing_that_a_pattern_or_a_hash_tag_would_take_for_its_own() {
        assert!(Config::new().with_namespace("orders-db_2.eu").is_ok());
        for wrong in ["", "a:b", "a*", "{a}", "a b", "ü", &"x".repeat(65)] {
            let error = Config::new().with_namespace(wrong).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{wrong}");
        }
    }
}
