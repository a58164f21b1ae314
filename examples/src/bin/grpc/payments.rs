//! The service and its client.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use http::uri::PathAndQuery;
use idem_core::{Fingerprint, Idempotency, Key, MemoryStore, RunError};
use idem_http::grpc;
use tokio::net::TcpListener;
use tonic::body::Body;
use tonic::metadata::MetadataMap;
use tonic::server::{NamedService, UnaryService};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Server};
use tonic::{Code, Request, Response, Status};
use tower::Service;

use crate::text::Text;

type Pending<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The client's side: the request carries one more metadata entry.
pub(crate) async fn send(
    channel: &Channel,
    key: &str,
    order: &str,
) -> Result<Response<String>, Status> {
    let mut request = Request::new(order.to_owned());
    let metadata = request.metadata_mut();
    metadata.insert("authorization", parsed("Bearer token-of-alice")?);
    metadata.insert("idempotency-key", parsed(key)?);
    let mut client = tonic::client::Grpc::new(channel.clone());
    client
        .ready()
        .await
        .map_err(|error| Status::unavailable(error.to_string()))?;
    let path = PathAndQuery::from_static("/shop.Payments/Pay");
    client.unary(request, path, Text).await
}

fn parsed<T: std::str::FromStr>(text: &str) -> Result<T, Status> {
    text.parse()
        .map_err(|_| Status::invalid_argument("not metadata"))
}

/// Serves payments on this listener.
pub(crate) async fn serve(listener: TcpListener, payments: Payments) {
    let serving = Server::builder()
        .add_service(payments)
        .serve_with_incoming(TcpIncoming::from(listener));
    if let Err(error) = serving.await {
        eprintln!("{error}");
    }
}

/// The service.
#[derive(Clone)]
pub(crate) struct Payments {
    idempotency: Idempotency,
    made: Arc<AtomicU64>,
}

impl Default for Payments {
    fn default() -> Self {
        Self {
            idempotency: Idempotency::new(MemoryStore::new()), // or PostgresStore, MySqlStore, …
            made: Arc::default(),
        }
    }
}

impl Payments {
    /// The method. The payment runs in a task of its own, so that a client that disconnects does
    /// not end it.
    async fn pay(self, request: Request<String>) -> Result<Response<String>, Status> {
        let key = key_of(request.metadata())?;
        let order = request.into_inner();
        let running = tokio::spawn(self.pay_once(key, order));
        running
            .await
            .map_err(|_| Status::internal("the payment was interrupted"))?
    }

    async fn pay_once(self, key: Key, order: String) -> Result<Response<String>, Status> {
        let work = async |_work| {
            let number = self.made.fetch_add(1, Ordering::SeqCst) + 1;
            Ok::<_, Status>(format!("payment {number} of {order}"))
        };
        match self
            .idempotency
            .run_with(&key, Fingerprint::raw(&order), work)
            .await
        {
            Ok(outcome) => {
                let is_replayed = outcome.is_replayed();
                let mut response = Response::new(outcome.into_inner());
                if is_replayed {
                    response
                        .metadata_mut()
                        .insert("idempotent-replayed", parsed("true")?);
                }
                Ok(response)
            }
            Err(error) => answered(error),
        }
    }
}

/// Builds the key in the scope of the authenticated caller.
fn key_of(metadata: &MetadataMap) -> Result<Key, Status> {
    let account = match metadata.get("authorization").map(|token| token.as_bytes()) {
        Some(b"Bearer token-of-alice") => "alice",
        _ => return Err(Status::unauthenticated("no known token")),
    };
    let key = grpc::key(&metadata.clone().into_headers())
        .map_err(|error| Status::invalid_argument(error.to_string()))?
        .ok_or_else(|| Status::invalid_argument("the metadata has no `idempotency-key`"))?;
    Key::new(account, "shop.Payments/Pay", key.as_str())
        .map_err(|error| Status::invalid_argument(error.to_string()))
}

fn answered(error: RunError<Status, String>) -> Result<Response<String>, Status> {
    if let Some(code) = grpc::code(&error) {
        return Err(Status::new(Code::from(code), error.to_string()));
    }
    match error {
        RunError::Work(status) => Err(status),
        error => error
            .into_unsealed()
            .map(Response::new)
            .ok_or_else(|| Status::internal("no answer")),
    }
}

impl UnaryService<String> for Payments {
    type Response = String;
    type Future = Pending<Result<Response<String>, Status>>;

    fn call(&mut self, request: Request<String>) -> Self::Future {
        Box::pin(self.clone().pay(request))
    }
}

impl Service<http::Request<Body>> for Payments {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pending<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let payments = self.clone();
        Box::pin(async move {
            if request.uri().path() != "/shop.Payments/Pay" {
                return Ok(Status::unimplemented("").into_http());
            }
            Ok(tonic::server::Grpc::new(Text)
                .unary(payments, request)
                .await)
        })
    }
}

impl NamedService for Payments {
    const NAME: &'static str = "shop.Payments";
}
