//! What a key holds, for people and machines, with its secrets masked.
//!
//! Bodies, values of headers and metadata, and messages and details of failures may be anybody's
//! data: without `--reveal` only their sizes are shown.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use idem_core::admin::{AuditEntry, RecordSummary};
use idem_core::{Failure, Key, Metadata, Response, Timestamp};
use serde_json::{Map, Value, json};

use crate::when;

/// Whether secrets are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Secrets {
    Masked,
    Revealed,
}

impl Secrets {
    /// Returns the bytes as text or in base64 where they are none, or their number.
    pub(crate) fn bytes(self, bytes: &[u8]) -> Value {
        match (self, std::str::from_utf8(bytes)) {
            (Self::Masked, _) => json!({ "bytes": bytes.len() }),
            (Self::Revealed, Ok(text)) => json!({ "bytes": bytes.len(), "text": text }),
            (Self::Revealed, Err(_)) => {
                json!({ "bytes": bytes.len(), "base64": STANDARD.encode(bytes) })
            }
        }
    }

    pub(crate) fn metadata(self, metadata: &Metadata) -> Value {
        let entry = |(name, value): (&str, &str)| (name.to_owned(), self.bytes(value.as_bytes()));
        Value::Object(metadata.iter().map(entry).collect())
    }

    pub(crate) fn response(self, response: &Response) -> Value {
        let headers = response.headers().iter();
        let headers =
            headers.map(|(name, value)| json!({ "name": name, "value": self.bytes(value) }));
        json!({
            "kind": "response",
            "status": response.status(),
            "headers": headers.collect::<Vec<_>>(),
            "body": self.bytes(response.body()),
        })
    }

    pub(crate) fn failure(self, failure: &Failure) -> Value {
        json!({
            "kind": "failure",
            "code": failure.code(),
            "message": self.bytes(failure.message().as_bytes()),
            "details": self.bytes(failure.details()),
        })
    }

    /// Returns a record's summary.
    pub(crate) fn summary(self, record: &RecordSummary) -> Value {
        let mut value = key(&record.key);
        let at = |at: Option<Timestamp>| at.map(when::instant);
        let fields = json!({
            "state": record.state,
            "token": record.token,
            "attempts": record.attempts,
            "age_seconds": seconds(record),
            "created_at": when::instant(record.created_at),
            "expires_at": when::instant(record.expires_at),
            "lease_ends_at": at(record.lease_ends_at),
            "sealed_at": at(record.sealed_at),
            "observed_at": when::instant(record.observed_at),
            "on_stale": record.on_stale,
            "result_bytes": record.result_bytes,
            "checkpoint": record.checkpoint,
            "failure_code": record.failure_code,
            "metadata": self.metadata(&record.metadata),
        });
        if let Value::Object(fields) = fields {
            value.extend(fields);
        }
        Value::Object(value)
    }

    pub(crate) fn audit(self, entry: &AuditEntry) -> Value {
        json!({
            "at": when::instant(entry.at),
            "who": entry.who,
            "reason": entry.reason,
            "action": entry.action,
            "token": entry.token,
            "outcome": entry.outcome,
            "before": entry.before.as_ref().map(|before| self.summary(before)),
        })
    }
}

fn seconds(record: &RecordSummary) -> f64 {
    (record.age().as_secs_f64() * 1_000.0).round() / 1_000.0
}

/// Returns the parts of a key and its path.
pub(crate) fn key(key: &Key) -> Map<String, Value> {
    Map::from_iter([
        ("scope".to_owned(), json!(key.scope())),
        ("operation".to_owned(), json!(key.operation())),
        ("id".to_owned(), json!(key.id())),
        ("path".to_owned(), json!(key.path())),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_masked_has_only_its_size() {
        let response = Response::new(201, "s3cret").with_header("set-cookie", "s3cret");
        let failure = Failure::new("declined", "s3cret").with_details("s3cret");
        let metadata = Metadata::new().with("trace", "s3cret");
        let masked = [
            Secrets::Masked.response(&response),
            Secrets::Masked.failure(&failure),
            Secrets::Masked.metadata(&metadata),
        ];
        for value in &masked {
            let text = value.to_string();
            assert!(
                !text.contains("s3cret") && text.contains("\"bytes\":6"),
                "{text}"
            );
        }
        let revealed = Secrets::Revealed.response(&response).to_string();
        assert_eq!(revealed.matches("s3cret").count(), 2);
    }

    #[test]
    fn bytes_that_are_no_text_are_in_base64() {
        let value = Secrets::Revealed.bytes(&[0xff, 0]);
        assert_eq!(value, json!({ "bytes": 2, "base64": "/wA=" }));
    }
}
