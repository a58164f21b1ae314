//! Keys in the metadata of gRPC calls.

use http::HeaderMap;
use idem_core::{Effect, Error, ErrorKind, RunError};
use idem_http::{KeyError, grpc};

#[test]
fn metadata_is_read_like_a_header() {
    let mut metadata = HeaderMap::new();
    assert_eq!(grpc::key(&metadata), Ok(None));
    metadata.append("idempotency-key", "k".parse().unwrap());
    assert_eq!(grpc::key(&metadata).unwrap().unwrap().as_str(), "k");
    metadata.append("idempotency-key", "k".parse().unwrap());
    assert_eq!(grpc::key(&metadata), Err(KeyError::Repeated));
    for (wrong, expected) in [
        ("?1", KeyError::AnotherType("a boolean")),
        ("\"  \"", KeyError::Blank),
    ] {
        metadata.insert("idempotency-key", wrong.parse().unwrap());
        assert_eq!(grpc::key(&metadata), Err(expected));
    }
}

#[test]
fn a_contended_key_is_aborted_and_a_store_that_is_away_unavailable() {
    for (kind, expected) in [
        (ErrorKind::Contention, grpc::ABORTED),
        (ErrorKind::Unavailable, grpc::UNAVAILABLE),
        (ErrorKind::Misconfigured, grpc::INTERNAL),
        (ErrorKind::Corrupt, grpc::DATA_LOSS),
    ] {
        let error = RunError::<(), ()>::Store(Error::new(kind, Effect::None, "a test"));
        assert_eq!(grpc::code(&error), Some(expected), "{kind:?}");
    }
}

#[test]
fn the_key_may_be_a_field_of_the_message() {
    let with_key = |key: &'static str| {
        let mut metadata = HeaderMap::new();
        metadata.insert("idempotency-key", http::HeaderValue::from_static(key));
        metadata
    };
    let none = HeaderMap::new();
    let read = |metadata: &HeaderMap, field: &str| {
        let key = grpc::key_or_field(metadata, field)?;
        Ok(key.map(|key| key.as_str().to_owned()))
    };
    for (metadata, field, expected) in [
        (&none, "", Ok(None)),
        (&none, "a", Ok(Some("a".to_owned()))),
        (&with_key("a"), "", Ok(Some("a".to_owned()))),
        (&with_key("\"a\""), "a", Ok(Some("a".to_owned()))),
        (&with_key("a"), "b", Err(KeyError::Different)),
        (&none, " ", Err(KeyError::Blank)),
        (&none, "\u{e9}", Err(KeyError::NotText)),
    ] {
        assert_eq!(read(metadata, field), expected, "{field:?}");
    }
}
