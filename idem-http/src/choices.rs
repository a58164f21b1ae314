//! What an [`HttpPolicy`](crate::HttpPolicy) chooses between.

/// Whether a route's requests carry a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Requirement {
    /// A request without a key is refused with `400`.
    Required,
    /// A request without a key goes to the service as it is.
    #[default]
    Optional,
    /// Keys are not looked at.
    Off,
}

/// Which forms of the header are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum KeyForm {
    /// The structured field's string, `"8e03978e"`, and the bare form, `8e03978e`; both are the
    /// same key.
    ///
    /// Bare are UUIDs, tokens and numbers, as the text that they are (`1` and `1.0` are two keys).
    /// What begins like another type of structured field is refused: `?1`, `:YWJj:`, `@1659578233`,
    /// `%"a"`, `("a")`.
    #[default]
    Lenient,
    /// The structured field's string only, as the draft has it.
    Strict,
}

/// What a key has to look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum KeyFormat {
    /// 1 to 255 printable ASCII characters.
    #[default]
    Any,
    /// A UUID in its usual text form, 32 hexadecimal digits in five groups; upper and lower case
    /// are the same.
    Uuid,
}

/// What happens to a request with a key while the store cannot be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnStoreError {
    /// It is refused with `503`: nothing runs that could run twice.
    #[default]
    Closed,
    /// It is handled as if it had no key. A retry runs again, also one of a request that was
    /// answered before the store went away: choose it only where being away is worse than happening
    /// twice.
    ///
    /// It holds for a store that is out of reach or overloaded, not for one that is wrongly set up,
    /// nor for a key that a transaction holds which is still open: that is answered with `409`.
    Open,
}
