//! The choices in an [`HttpPolicy`](crate::HttpPolicy).

/// Whether a route's requests carry a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Requirement {
    /// A request without a key gets `400`.
    Required,
    /// A request without a key goes to the service unchanged.
    #[default]
    Optional,
    /// The layer ignores keys.
    Off,
    /// A request with a key gets `501`: the route says that it does not support keys. A request
    /// without one goes to the service unchanged.
    Unsupported,
}

/// Which forms of the header are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum KeyForm {
    /// The structured field's string, `"8e03978e"`, and the bare form, `8e03978e`; both are the
    /// same key.
    ///
    /// The bare forms are UUIDs, tokens and numbers, compared as text (`1` and `1.0` are two keys).
    /// The layer refuses a bare value that begins like another type of structured field: `?1`,
    /// `:YWJj:`, `@1659578233`, `%"a"`, `("a")`.
    #[default]
    Lenient,
    /// The structured field's string only, as the draft specifies.
    Strict,
    /// The whole value as it is, quotes and all: 1 to 255 printable ASCII characters. For protocols
    /// that take any text, such as Stripe's.
    Opaque,
}

/// What happens to a request with a key while the store cannot be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnStoreError {
    /// It gets `503`: nothing runs that could run twice.
    #[default]
    Closed,
    /// It is handled as if it had no key. Then a retry runs again, even if the first request was
    /// answered before the store became unreachable. Choose it only where an outage is worse than
    /// running twice.
    ///
    /// It applies to a store that is unreachable or overloaded, not to a misconfigured one. A key
    /// held by an open transaction gets `409` instead.
    Open,
}

/// What becomes of the handler when the client disconnects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnDisconnect {
    /// A task of its own finishes the handler, and reads its answer to the end if that is a stream.
    /// A retry gets the answer.
    #[default]
    Finish,
    /// The handler, or the stream of its answer, is dropped where it waits, and the engine's policy decides about the key
    /// ([`Policy::with_on_cancel`](idem_core::Policy::with_on_cancel); by default it is released).
    /// For protocols in which closing the connection cancels the request, such as MCP.
    Cancel,
}
