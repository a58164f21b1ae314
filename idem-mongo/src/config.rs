//! The configuration of a store.

use std::time::Duration;

use idem_core::{Error, Limits, Result};
use mongodb::options::{Acknowledgment, ReadConcern, WriteConcern};

/// The configuration of a store: names, limits, and the durability of writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    database: Option<String>,
    collection: String,
    limits: Limits,
    durability: Durability,
    timeout: Duration,
    batching: bool,
}

/// How far a write has got when the server acknowledges it, and so which failures may lose it.
///
/// The store sends its own choice with each write, whatever the caller's client is configured to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// `w: "majority", j: true`, and reads with `majority`: on the journals of most voting members.
    /// No crash and no failover loses it.
    #[default]
    MajorityJournaled,
    /// `w: 1, j: true`, and reads with `local`: on the primary's journal. A failover loses what the
    /// new primary had not received: a completed key is free again and its work may run twice; a
    /// claim may have two winners.
    PrimaryJournaled,
    /// `w: 1, j: false`, and reads with `local`: in the primary's memory. As above, and a crash of
    /// the server also loses about the last 100 ms (`storage.journal.commitIntervalMs`).
    PrimaryMemory,
}

impl Durability {
    pub(crate) fn write_concern(self, timeout: Duration) -> WriteConcern {
        let (nodes, journal) = match self {
            Self::MajorityJournaled => (Acknowledgment::Majority, true),
            Self::PrimaryJournaled => (Acknowledgment::Nodes(1), true),
            Self::PrimaryMemory => (Acknowledgment::Nodes(1), false),
        };
        let mut concern = WriteConcern::from(nodes);
        concern.journal = Some(journal);
        concern.w_timeout = Some(timeout);
        concern
    }

    /// A majority read shows only data that can no longer be rolled back, so no caller receives a
    /// response that vanishes. With a weaker write concern it would not show the latest
    /// acknowledged writes.
    pub(crate) fn read_concern(self) -> ReadConcern {
        match self {
            Self::MajorityJournaled => ReadConcern::majority(),
            Self::PrimaryJournaled | Self::PrimaryMemory => ReadConcern::local(),
        }
    }
}

/// The longest time-out: servers take time-outs as 32-bit milliseconds.
pub(crate) const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);
/// MongoDB's limit for a document, including result and metadata.
const MAX_DOCUMENT_BYTES: usize = 16 << 20;
/// More than a record takes without result and metadata, including the command around it: the
/// longest key has 1,916 bytes as an `_id` and occurs in it twice.
const OVERHEAD_BYTES: usize = 16 << 10;
/// MongoDB's limits: 63 bytes for a database, 255 for database and collection together.
const MAX_DATABASE_BYTES: usize = 63;
const MAX_COLLECTION_BYTES: usize = 120;

impl Config {
    /// Creates the default configuration: the collection `idem_records` in the database that the
    /// URL names, or `idem`; results up to 8 MiB; journaled by a majority; 10 s for an operation.
    #[must_use]
    pub fn new() -> Self {
        Self {
            database: None,
            collection: "idem_records".to_owned(),
            limits: Limits::DEFAULT,
            durability: Durability::default(),
            timeout: Duration::from_secs(10),
            batching: true,
        }
    }

    /// Sets the database, instead of the one that the URL names: 1 to 63 ASCII letters, digits,
    /// hyphens and underscores.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](idem_core::ErrorKind::InvalidInput) when the name is not valid.
    pub fn with_database(mut self, database: impl Into<String>) -> Result<Self> {
        self.database = Some(checked("database", database.into(), MAX_DATABASE_BYTES)?);
        Ok(self)
    }

    /// Sets the name of the collection: 1 to 120 ASCII letters, digits, hyphens and underscores.
    /// The collection of the watermarks has the same name with `_watermarks` after it.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](idem_core::ErrorKind::InvalidInput) when the name is not valid.
    pub fn with_collection(mut self, collection: impl Into<String>) -> Result<Self> {
        self.collection = checked("collection", collection.into(), MAX_COLLECTION_BYTES)?;
        Ok(self)
    }

    /// Sets the limits. A document has at most 16 MiB, so result and metadata together have to stay
    /// 16 KiB below that; 15 MiB is a good maximum for a result.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](idem_core::ErrorKind::InvalidInput) when they do not fit into a document.
    pub fn with_limits(mut self, limits: Limits) -> Result<Self> {
        let bytes = limits
            .max_result_bytes
            .saturating_add(limits.max_metadata_bytes)
            .saturating_add(OVERHEAD_BYTES);
        if bytes > MAX_DOCUMENT_BYTES {
            return Err(Error::invalid_input(format!(
                "results of {} bytes and metadata of {} do not fit into a document of MongoDB, which has at \
                 most {MAX_DOCUMENT_BYTES}; {OVERHEAD_BYTES} are kept for the rest",
                limits.max_result_bytes, limits.max_metadata_bytes
            )));
        }
        self.limits = limits;
        Ok(self)
    }

    /// Sets the durability of writes; any choice except the default loses records when servers
    /// fail.
    #[must_use]
    pub fn with_durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets whether the claims of nine or more concurrent callers of this process share commands:
    /// one reads their records, one claims the keys without a record, and a read proves those
    /// claims. Every other write is its own command either way. Default: on.
    #[must_use]
    pub fn with_batching(mut self, batching: bool) -> Self {
        self.batching = batching;
        self
    }

    /// Sets the time limit of an operation, including finding a server and waiting for a
    /// connection; at most a day. After it the operation returns `Unavailable`, and a statement
    /// already sent may still take effect.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.min(MAX_TIMEOUT);
        self
    }

    /// Returns the database, if one is set.
    #[must_use]
    pub fn database(&self) -> Option<&str> {
        self.database.as_deref()
    }

    /// Returns the collection's name.
    #[must_use]
    pub fn collection(&self) -> &str {
        &self.collection
    }

    /// Returns the name of the watermarks' collection: that of the records, and `_watermarks`.
    pub(crate) fn watermarks(&self) -> String {
        format!("{}_watermarks", self.collection)
    }

    /// Returns the limits.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Returns the durability of writes.
    #[must_use]
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// Returns whether concurrent claims share commands.
    #[must_use]
    pub fn batching(&self) -> bool {
        self.batching
    }

    /// Returns the time limit of an operation.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::new()
    }
}

fn checked(what: &str, name: String, max: usize) -> Result<String> {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if !name.is_empty() && name.len() <= max && name.bytes().all(word) {
        return Ok(name);
    }
    Err(Error::invalid_input(format!(
        "the name of the {what} has to be 1 to {max} ASCII letters, digits, hyphens and underscores"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_validated() {
        let config = Config::new()
            .with_database("Shop-1")
            .and_then(|config| config.with_collection("idem_2"))
            .unwrap();
        assert_eq!(config.database(), Some("Shop-1"));
        assert_eq!(config.collection(), "idem_2");
        for name in ["", "a.b", "$cmd", "a b", "é", "a\0b", &"x".repeat(121)] {
            assert!(Config::new().with_collection(name).is_err(), "{name}");
            assert!(Config::new().with_database(name).is_err(), "{name}");
        }
    }

    #[test]
    fn limits_that_fit_into_no_document_are_refused() {
        let max = Limits::DEFAULT.with_max_result_bytes(15 << 20);
        assert_eq!(Config::new().with_limits(max).unwrap().limits(), max);
        for bytes in [16 << 20, usize::MAX] {
            let limits = Limits::DEFAULT.with_max_result_bytes(bytes);
            assert!(Config::new().with_limits(limits).is_err());
        }
        let limits = max.with_max_metadata_bytes(1 << 20);
        assert!(Config::new().with_limits(limits).is_err());
    }

    #[test]
    fn a_time_out_without_end_is_a_day() {
        let config = Config::new().with_timeout(Duration::MAX);
        assert_eq!(config.timeout(), Duration::from_secs(86_400));
    }

    #[test]
    fn the_default_is_a_journaled_majority() {
        let concern = Durability::default().write_concern(Duration::from_secs(1));
        assert_eq!(concern.w, Some(Acknowledgment::Majority));
        assert_eq!(concern.journal, Some(true));
        assert_eq!(
            Durability::default().read_concern(),
            ReadConcern::majority()
        );
    }
}
