//! Keys in the metadata of gRPC calls, with the example.

use http::HeaderMap;
use idem_core::{Effect, Error, ErrorKind, RunError};
use idem_http::{KeyError, grpc};
use tokio::net::TcpListener;
use tonic::Code;
use tonic::transport::Channel;

#[path = "../../examples/tonic/payments.rs"]
mod example;

async fn connect() -> Channel {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(example::serve(listener, example::Payments::default()));
    let endpoint = Channel::from_shared(format!("http://{address}")).unwrap();
    endpoint.connect().await.unwrap()
}

#[tokio::test]
async fn a_call_that_is_repeated_gets_the_first_answer() {
    let channel = connect().await;
    let first = example::send(&channel, "k", "1 EUR").await.unwrap();
    assert_eq!(first.metadata().get("idempotent-replayed"), None);
    let retry = example::send(&channel, "\"k\"", "1 EUR").await.unwrap();
    assert_eq!(
        (first.get_ref(), retry.get_ref()),
        (&"payment 1 of 1 EUR".to_owned(), first.get_ref())
    );
    assert!(retry.metadata().get("idempotent-replayed").is_some());
    let other = example::send(&channel, "k2", "1 EUR").await.unwrap();
    assert_eq!(other.get_ref(), "payment 2 of 1 EUR");
}

#[tokio::test]
async fn a_key_with_another_message_is_refused() {
    let channel = connect().await;
    example::send(&channel, "k", "1 EUR").await.unwrap();
    let status = example::send(&channel, "k", "2 EUR").await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    let status = example::send(&channel, "\"k", "2 EUR").await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
}

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
fn codes_are_those_of_grpc() {
    for (code, expected) in [
        (grpc::INVALID_ARGUMENT, Code::InvalidArgument),
        (grpc::ABORTED, Code::Aborted),
        (grpc::INTERNAL, Code::Internal),
        (grpc::UNAVAILABLE, Code::Unavailable),
        (grpc::DATA_LOSS, Code::DataLoss),
    ] {
        assert_eq!(Code::from(code), expected);
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
