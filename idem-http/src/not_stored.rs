//! [`NotStored`]: a response that is not to be stored.

/// In the extensions of a response, says that it passes through: it is not read and not stored, and
/// the key is free again at once. With axum, answer `(Extension(NotStored), body)`.
///
/// For streams that the layer does not know by their media type, and for answers that must not lie
/// in the store. It knows `text/event-stream`, `application/x-ndjson`, `application/ndjson`,
/// `application/jsonl`, `application/json-seq`, `multipart/x-mixed-replace` and
/// `application/grpc…`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct NotStored;
