//! A gRPC method that runs once per key: the key travels as metadata, and the method calls the
//! engine itself.
//!
//! ```sh
//! cargo run -p idem-http --example tonic
//! ```
//!
//! Messages are plain text and the service is written by hand, so that the example needs no
//! `protoc`. With generated code, `pay` is the body of the method.

mod payments;

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
