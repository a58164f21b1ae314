//! [`Client`]: an HTTP client for bodies that fit into memory.

use axum::body::Bytes;
use axum::http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use idem_core::BoxError;

/// A client with a pool of connections, which its clones share.
#[derive(Debug, Clone)]
pub struct Client(legacy::Client<HttpConnector, Full<Bytes>>);

impl Default for Client {
    fn default() -> Self {
        Self(legacy::Client::builder(TokioExecutor::new()).build_http())
    }
}

impl Client {
    /// Sends the request, and reads the whole answer.
    ///
    /// # Errors
    ///
    /// An error without an answer: the server cannot be reached, or closed the connection.
    pub async fn send(
        &self,
        request: Request<impl Into<Bytes>>,
    ) -> Result<Response<Bytes>, BoxError> {
        let request = request.map(|body| Full::new(body.into()));
        let (head, body) = self.0.request(request).await?.into_parts();
        Ok(Response::from_parts(head, body.collect().await?.to_bytes()))
    }
}
