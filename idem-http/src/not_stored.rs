//! [`NotStored`]: marks a response that must not be stored.

/// In the extensions of a response, makes it pass through: the layer does not read or store it, and
/// the key is free again at once. With axum, answer `(Extension(NotStored), body)`.
///
/// Use it for streams that the layer does not recognize by their media type, and for responses that
/// must not be in the store. The layer recognizes `text/event-stream`, `application/x-ndjson`,
/// `application/ndjson`, `application/jsonl`, `application/json-seq`, `multipart/x-mixed-replace`
/// and `application/grpc…`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct NotStored;
