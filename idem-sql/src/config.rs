//! The settings that all stores share.

use std::time::Duration;

use idem_core::{Error, Result};

/// A time that never ends in practice, and that can be added to any instant.
pub const MAX_TIME: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The most bytes of a table's name. Derived names (indexes, the table of watermarks) are longer by
/// up to eleven. PostgreSQL and Babelfish cut names at 63 bytes; MySQL and MariaDB refuse more than
/// 64.
pub const MAX_TABLE_BYTES: usize = 50;

/// Returns the name if it is valid in a statement: 1 to `max` ASCII letters, digits and
/// underscores, no digit first.
///
/// # Errors
///
/// [`InvalidInput`](idem_core::ErrorKind::InvalidInput) for any other name.
pub fn checked_name(what: &str, name: impl Into<String>, max: usize) -> Result<String> {
    let name = name.into();
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let valid = !name.is_empty()
        && name.len() <= max
        && name.bytes().all(word)
        && !name.starts_with(|first: char| first.is_ascii_digit());
    if valid {
        return Ok(name);
    }
    Err(Error::invalid_input(format!(
        "the name of the {what} has to be 1 to {max} ASCII letters, digits and underscores, and not \
         start with a digit"
    )))
}

/// Implements the settings of every store for a `Config` with the fields `table`, `limits`,
/// `timeout` and `batching`: the setters, such as `with_table`, and the getters.
#[macro_export]
macro_rules! config_methods {
    (
        table: $table:literal,
        limits: $limits:literal,
        timeout: $timeout:literal,
        batching: $batching:literal,
        longest: $longest:expr
    ) => {
        /// Sets the table's name: 1 to 50 ASCII letters, digits and underscores, no digit first.
        #[doc = $table]
        ///
        /// Watermarks are in a table of their own, whose name ends in `_watermarks`.
        ///
        /// # Errors
        ///
        /// [`InvalidInput`](idem_core::ErrorKind::InvalidInput) for any other name.
        pub fn with_table(mut self, table: impl Into<String>) -> idem_core::Result<Self> {
            let max = $crate::config::MAX_TABLE_BYTES;
            self.table = $crate::config::checked_name("table", table, max)?;
            Ok(self)
        }

        /// Sets the limits.
        #[doc = $limits]
        #[must_use]
        pub fn with_limits(mut self, limits: idem_core::Limits) -> Self {
            self.limits = limits;
            self
        }

        /// Sets how long an operation may take, the wait for a connection included, before it
        /// returns `Unavailable`. A statement that was sent may still take effect then. Default:
        /// 10 s.
        #[doc = $timeout]
        #[must_use]
        pub fn with_timeout(mut self, timeout: ::std::time::Duration) -> Self {
            self.timeout = timeout.min($longest);
            self
        }

        /// Sets whether concurrent claims, completions, failures and releases of this process share
        /// statements, as behind [`Batched`](idem_core::wrappers::Batched). Default: on. A single
        /// caller sends its call at once either way.
        #[doc = $batching]
        #[must_use]
        pub fn with_batching(mut self, batching: bool) -> Self {
            self.batching = batching;
            self
        }

        /// Returns the table's name.
        #[must_use]
        pub fn table(&self) -> &str {
            &self.table
        }

        /// Returns the limits.
        #[must_use]
        pub fn limits(&self) -> idem_core::Limits {
            self.limits
        }

        /// Returns whether concurrent calls share statements.
        #[must_use]
        pub fn batching(&self) -> bool {
            self.batching
        }

        /// Returns how long an operation may take.
        #[must_use]
        pub fn timeout(&self) -> ::std::time::Duration {
            self.timeout
        }
    };
}

/// Implements `with_max_connections` and `max_connections` for a `Config` with that field.
#[macro_export]
macro_rules! max_connections_methods {
    () => {
        /// Sets the most connections for the operations of a store that `connect` makes; at least
        /// one. Default: 10. A store on the caller's pool has that pool's limit.
        #[must_use]
        pub fn with_max_connections(mut self, max: u32) -> Self {
            self.max_connections = max.max(1);
            self
        }

        /// Returns the most connections for operations.
        #[must_use]
        pub fn max_connections(&self) -> u32 {
            self.max_connections
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_validated() {
        for name in [
            "",
            "1a",
            "a-b",
            "a\"b",
            "a`b",
            "a]b",
            "a'b",
            "a.b",
            "é",
            "a b",
            "abcde",
            "x; DROP y",
        ] {
            assert!(checked_name("table", name, 4).is_err(), "{name}");
        }
        for name in ["a", "_1", "Abc2"] {
            assert_eq!(checked_name("table", name, 4).unwrap(), name);
        }
    }
}
