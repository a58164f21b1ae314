//! A network that takes 500 ms each way to the server.

use std::net::TcpListener;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use idem_core::BoxError;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::Instant;

const DELAY: Duration = Duration::from_millis(500);

/// Returns the part before the address in a URL (scheme and credentials), and `host:port`.
pub(super) fn split(url: &str) -> (&str, &str) {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..]
        .find(['/', '?'])
        .map_or(url.len(), |at| start + at);
    let start = url[start..end]
        .rfind('@')
        .map_or(start, |at| start + at + 1);
    (&url[..start], &url[start..end])
}

/// The URL of this server by way of the slow network; for one server only.
pub(super) fn url(server: &str) -> Result<String, BoxError> {
    static SLOW: OnceLock<String> = OnceLock::new();
    if let Some(url) = SLOW.get() {
        return Ok(url.clone());
    }
    let (before, place) = split(server);
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    listener.set_nonblocking(true)?;
    let url = format!("{before}{}", listener.local_addr()?);
    let place = place.to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    thread::spawn(move || runtime.block_on(accept(listener, place)));
    Ok(SLOW.get_or_init(|| url).clone())
}

async fn accept(listener: TcpListener, place: String) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return;
    };
    while let Ok((client, _)) = listener.accept().await {
        let place = place.clone();
        tokio::spawn(async move {
            let Ok(server) = TcpStream::connect(place).await else {
                return;
            };
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            tokio::join!(
                delayed(from_client, to_server),
                delayed(from_server, to_client)
            );
        });
    }
}

/// Passes all bytes on, in order, half a second later.
async fn delayed(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
    let (sender, mut receiver) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let reading = async move {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(length @ 1..) = from.read(&mut bytes).await {
            let _ = sender.send((Instant::now() + DELAY, bytes[..length].to_vec()));
        }
    };
    let writing = async move {
        while let Some((due, bytes)) = receiver.recv().await {
            tokio::time::sleep_until(due).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
        let _ = to.shutdown().await;
    };
    tokio::join!(reading, writing);
}
