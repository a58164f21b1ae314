//! A gRPC method that runs once per key: the key travels as metadata, and the method calls the
//! engine itself.
//!
//! ```sh
//! cargo run -p idem-examples --features grpc --bin grpc
//! ```
//!
//! Messages are plain text and the service is written by hand, so that the example needs no
//! `protoc`. With generated code, `pay` is the body of the method.

mod payments;
mod text;

use payments::{Payments, send, serve};
use tokio::net::TcpListener;
use tonic::transport::Channel;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(serve(listener, Payments::default()));
    let channel = Channel::from_shared(format!("http://{address}"))?
        .connect()
        .await?;
    for _ in 0..2 {
        let answer = send(&channel, "order-7", "12.50 EUR").await?;
        let replayed = answer.metadata().get("idempotent-replayed").is_some();
        println!("{} (replayed: {replayed})", answer.get_ref());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use idem_http::grpc;
    use tonic::Code;

    use super::*;

    async fn connect() -> Channel {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(listener, Payments::default()));
        let endpoint = Channel::from_shared(format!("http://{address}")).unwrap();
        endpoint.connect().await.unwrap()
    }

    #[tokio::test]
    async fn a_call_that_is_repeated_gets_the_first_answer() {
        let channel = connect().await;
        let first = send(&channel, "k", "1 EUR").await.unwrap();
        assert_eq!(first.metadata().get("idempotent-replayed"), None);
        let retry = send(&channel, "\"k\"", "1 EUR").await.unwrap();
        assert_eq!(
            (first.get_ref(), retry.get_ref()),
            (&"payment 1 of 1 EUR".to_owned(), first.get_ref())
        );
        assert!(retry.metadata().get("idempotent-replayed").is_some());
        let other = send(&channel, "k2", "1 EUR").await.unwrap();
        assert_eq!(other.get_ref(), "payment 2 of 1 EUR");
    }

    #[tokio::test]
    async fn a_key_with_another_message_is_refused() {
        let channel = connect().await;
        send(&channel, "k", "1 EUR").await.unwrap();
        let status = send(&channel, "k", "2 EUR").await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        let status = send(&channel, "\"k", "2 EUR").await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
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
}
