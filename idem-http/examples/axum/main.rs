//! Payments that are made once, however often they are sent.
//!
//! ```sh
//! cargo run -p idem-http --example axum
//! ```
//!
//! Then send the `curl` lines of `transcripts.txt`.

mod app;

use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app::app(Duration::from_secs(5))).await
}
