//! The configuration of a store.

use std::time::Duration;

use idem_core::{Error, Limits, Result};

/// The configuration of a store: the table, limits, and times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    table: String,
    limits: Limits,
    timeout: Duration,
    max_clock_skew: Duration,
    lookup_first: LookupFirst,
}

/// Whether a claim reads the record before it writes.
///
/// Either way a claim of a free key, and one that loses, take one round trip if the guess was
/// right. A conditional write that is refused costs write capacity for the whole item, a read costs
/// an eighth of that or less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LookupFirst {
    /// Where most of the last claims of the same scope and operation met a record.
    #[default]
    WhereDuplicatesAreExpected,
    /// Never: the conditional write answers winner and loser.
    Never,
    /// Always: a claim of a free key takes two round trips.
    Always,
}

/// DynamoDB's limit for an item, names included:
/// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html>.
const MAX_ITEM_BYTES: usize = 400 << 10;
/// More than a record takes without result and metadata: the longest key has 1,918 bytes.
const OVERHEAD_BYTES: usize = 4 << 10;
const DEFAULT_RESULT_BYTES: usize = 384 << 10;
/// The longest time-out: a request that is sent later than that has an expired signature.
const MAX_TIMEOUT: Duration = Duration::from_secs(300);
/// A `Date` header alone leaves two seconds open.
const MIN_CLOCK_SKEW: Duration = Duration::from_secs(3);
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(300);

impl Config {
    /// Creates the default configuration: the table `idem_records`, results up to 384 KiB, 10 s for
    /// an operation, a clock that is known to 5 s.
    #[must_use]
    pub fn new() -> Self {
        Self {
            table: "idem_records".to_owned(),
            limits: Limits::DEFAULT.with_max_result_bytes(DEFAULT_RESULT_BYTES),
            timeout: Duration::from_secs(10),
            max_clock_skew: Duration::from_secs(5),
            lookup_first: LookupFirst::default(),
        }
    }

    /// Sets the name of the table, as DynamoDB allows it: 3 to 255 ASCII letters, digits, dots,
    /// hyphens and underscores.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](idem_core::ErrorKind::InvalidInput) when the name is not valid.
    pub fn with_table(mut self, table: impl Into<String>) -> Result<Self> {
        let table = table.into();
        let word = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        if !(3..=255).contains(&table.len()) || !table.bytes().all(word) {
            return Err(Error::invalid_input(
                "the name of the table has to be 3 to 255 ASCII letters, digits, dots, hyphens and \
                 underscores",
            ));
        }
        self.table = table;
        Ok(self)
    }

    /// Sets the limits. An item has at most 400 KiB, so result and metadata together have to stay
    /// 4 KiB below that.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](idem_core::ErrorKind::InvalidInput) when they do not fit into an item.
    pub fn with_limits(mut self, limits: Limits) -> Result<Self> {
        let bytes = limits
            .max_result_bytes
            .saturating_add(limits.max_metadata_bytes)
            .saturating_add(OVERHEAD_BYTES);
        if bytes > MAX_ITEM_BYTES {
            return Err(Error::invalid_input(format!(
                "results of {} bytes and metadata of {} do not fit into an item of DynamoDB, which \
                 has at most {MAX_ITEM_BYTES}; {OVERHEAD_BYTES} are kept for the rest. Store larger \
                 results elsewhere (S3) and keep a reference",
                limits.max_result_bytes, limits.max_metadata_bytes
            )));
        }
        self.limits = limits;
        Ok(self)
    }

    /// Sets the time limit of an operation, including the SDK's own retries; at most 5 minutes.
    /// After it the operation returns `Unavailable`, and a request already sent may still take
    /// effect.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.min(MAX_TIMEOUT);
        self
    }

    /// Sets how far this store's idea of the service's clock may be wrong, 3 s to 5 minutes.
    ///
    /// The store measures its clock against the `Date` header of each answer. While the bounds are
    /// farther apart than this, it refuses to work. So by anybody's clock a lease may end up to this
    /// much too early or too late: keep leases well above it. Clients whose clocks are right do not
    /// use it up.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](idem_core::ErrorKind::InvalidInput) when it is out of range.
    pub fn with_max_clock_skew(mut self, skew: Duration) -> Result<Self> {
        if !(MIN_CLOCK_SKEW..=MAX_CLOCK_SKEW).contains(&skew) {
            return Err(Error::invalid_input(format!(
                "the clock skew has to be {} to {} s: the header that shows the service's clock has \
                 whole seconds",
                MIN_CLOCK_SKEW.as_secs(),
                MAX_CLOCK_SKEW.as_secs()
            )));
        }
        self.max_clock_skew = skew;
        Ok(self)
    }

    /// Sets whether claims read before they write. Default: where most claims meet a record.
    #[must_use]
    pub fn with_lookup_first(mut self, lookup_first: LookupFirst) -> Self {
        self.lookup_first = lookup_first;
        self
    }

    /// Returns the table's name.
    #[must_use]
    pub fn table(&self) -> &str {
        &self.table
    }

    /// Returns the limits.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Returns the time limit of an operation.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns how far the store's idea of the service's clock may be wrong.
    #[must_use]
    pub fn max_clock_skew(&self) -> Duration {
        self.max_clock_skew
    }

    /// Returns whether claims read before they write.
    #[must_use]
    pub fn lookup_first(&self) -> LookupFirst {
        self.lookup_first
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_validated() {
        let config = Config::new().with_table("Shop-1.idem_2").unwrap();
        assert_eq!(config.table(), "Shop-1.idem_2");
        for name in ["", "ab", "a/b", "a b", "é23", &"x".repeat(256)] {
            assert!(Config::new().with_table(name).is_err(), "{name}");
        }
    }

    #[test]
    fn limits_that_fit_into_no_item_are_refused() {
        let default = Config::new().limits();
        assert_eq!(
            Config::new().with_limits(default).unwrap().limits(),
            default
        );
        let most = Limits::DEFAULT.with_max_result_bytes(392 << 10);
        assert!(Config::new().with_limits(most).is_ok());
        for bytes in [393 << 10, usize::MAX] {
            let error = Config::new().with_limits(most.with_max_result_bytes(bytes));
            assert!(error.unwrap_err().to_string().contains("409600"));
        }
    }

    #[test]
    fn a_skew_below_the_precision_of_the_header_is_refused() {
        for (seconds, is_valid) in [(0, false), (2, false), (3, true), (300, true), (301, false)] {
            let skew = Duration::from_secs(seconds);
            let config = Config::new().with_max_clock_skew(skew);
            assert_eq!(config.is_ok(), is_valid, "{seconds}");
        }
        let config = Config::new().with_timeout(Duration::MAX);
        assert_eq!(config.timeout(), MAX_TIMEOUT);
    }
}
