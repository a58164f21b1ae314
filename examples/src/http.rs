//! [`Client`]: an HTTP client for bodies that fit into memory; and [`serve`].

use std::net::SocketAddr;

use axum::Router;
use axum::body::Bytes;
use axum::http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use idem_core::BoxError;
use tokio::net::TcpListener;

/// A client with a pool of connections, which its clones share.
#[derive(Debug, Clone)]
pub struct Client(legacy::Client<HttpConnector, Full<Bytes>>);

impl Default for Client {
    fn default() -> Self {
        Self(legacy::Client::builder(TokioExecutor::new()).build_http())
    }
}

impl Client {
    /// Sends the request, and reads the whole answer. Fails without an answer: the server cannot be
    /// reached, or closed the connection.
    pub async fn send(
        &self,
        request: Request<impl Into<Bytes>>,
    ) -> Result<Response<Bytes>, BoxError> {
        let request = request.map(|body| Full::new(body.into()));
        let (head, body) = self.0.request(request).await?.into_parts();
        Ok(Response::from_parts(head, body.collect().await?.to_bytes()))
    }
}

/// Serves at a free port of this machine until the program ends, and returns the address.
pub async fn serve(router: Router) -> Result<SocketAddr, BoxError> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(axum::serve(listener, router).into_future());
    Ok(address)
}
