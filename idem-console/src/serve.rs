//! [`serve`]: a console on an address of its own.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use idem_core::{ErrorKind, IdempotencyStore};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tower::ServiceExt;

use crate::Options;
use crate::routes::served;

/// Most connections at a time; further ones wait.
const CONNECTIONS: usize = 256;
/// How long a browser may take to send the head of a request, or keep a connection idle.
const HEAD: Duration = Duration::from_secs(15);
/// The pause after a connection that could not be accepted, when files have run out.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves a console of this store on the address of the options, until the future is dropped.
///
/// # Errors
///
/// `InvalidInput` for options that would let strangers in, and for a store that does not list its
/// records; the error of the system when the address cannot be bound.
///
/// # Cancellation
///
/// Closes all connections. A change that is under way is made or not.
pub async fn serve(store: Arc<dyn IdempotencyStore>, options: Options) -> io::Result<()> {
    options.check(options.address).map_err(refused)?;
    let listener = TcpListener::bind(options.address).await?;
    serve_on(listener, store, options).await
}

/// Serves a console on this listener, whose address takes the place of that of the options.
///
/// # Errors
///
/// As for [`serve`].
///
/// # Cancellation
///
/// As for [`serve`].
pub async fn serve_on(
    listener: TcpListener,
    store: Arc<dyn IdempotencyStore>,
    options: Options,
) -> io::Result<()> {
    let address = listener.local_addr()?;
    options.check(address).map_err(refused)?;
    let app = served(store, options.with_address(address)).map_err(refused)?;
    tracing::info!(%address, "the console listens");
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let permit = Arc::clone(&permits).acquire_owned().await;
        let permit = permit.map_err(io::Error::other)?;
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, peer)) => {
                let app = app.clone();
                connections.spawn(async move {
                    let _permit = permit;
                    answer(stream, peer, app).await;
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn answer(stream: TcpStream, peer: SocketAddr, app: Router) {
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        app.clone().oneshot(request.map(Body::new))
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(TokioIo::new(stream), service);
    // A browser that breaks off is no news.
    let _ = connection.await;
}

fn refused(error: idem_core::Error) -> io::Error {
    let kind = match error.kind() {
        ErrorKind::Misconfigured | ErrorKind::InvalidInput => io::ErrorKind::InvalidInput,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}
