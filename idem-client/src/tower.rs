//! The layer for `tower` clients.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body as HttpBody;
use http_body_util::BodyExt;
use idem_core::BoxError;
use tower_layer::Layer;
use tower_service::Service;

use crate::body::AnswerBody;
use crate::exchange::{Described, Failure, Transport};
use crate::protocol::Placed;
use crate::{Error, IdempotencyClient, Intent};

/// Most bytes of a request body.
const MAX_BODY: u64 = 16 << 20;

impl<S> Layer<S> for IdempotencyClient {
    type Service = IdempotencyService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        IdempotencyService {
            inner,
            client: self.clone(),
        }
    }
}

/// A client behind an [`IdempotencyClient`].
///
/// A request with a method of the protocol gets its key, by the [`Intent`] in its extensions. Other
/// requests are passed on unread. Every error of the inner client is sent again, because the key
/// makes that safe; the last one is the source of a [`NoAnswer`](crate::ErrorKind::NoAnswer).
///
/// A body has an exact size of at most 16 MiB, as bytes in memory have. A stream, or a body with
/// trailers, is refused before anything is sent. The extensions of the response have a
/// [`Delivery`](crate::Delivery).
#[derive(Debug, Clone)]
pub struct IdempotencyService<S> {
    inner: S,
    client: IdempotencyClient,
}

/// The future of an [`IdempotencyService`].
pub struct ResponseFuture<R: HttpBody>(Answered<R>);

type Answered<R> = Pin<Box<dyn Future<Output = Result<Response<AnswerBody<R>>, Error>> + Send>>;

impl<S, B, R> Service<Request<B>> for IdempotencyService<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError> + Send,
    B: HttpBody<Data = Bytes> + From<Bytes> + Send + 'static,
    B::Error: Into<BoxError> + Send,
    R: HttpBody<Data = Bytes> + Send + 'static,
    R::Error: Send,
{
    type Response = Response<AnswerBody<R>>;
    type Error = Error;
    type Future = ResponseFuture<R>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let ready = self.inner.poll_ready(context);
        ready.map_err(|error| Failure::Transport(error).into_error())
    }

    fn call(&mut self, request: Request<B>) -> ResponseFuture<R> {
        // The clone is not ready, this one is.
        let next = self.inner.clone();
        let ready = std::mem::replace(&mut self.inner, next);
        let client = self.client.clone();
        ResponseFuture(Box::pin(call(client, ready, request)))
    }
}

async fn call<S, B, R>(
    client: IdempotencyClient,
    mut service: S,
    request: Request<B>,
) -> Result<Response<AnswerBody<R>>, Error>
where
    S: Service<Request<B>, Response = Response<R>> + Send,
    S::Future: Send,
    S::Error: Into<BoxError> + Send,
    B: HttpBody<Data = Bytes> + From<Bytes> + Send,
    B::Error: Into<BoxError>,
    R: HttpBody<Data = Bytes> + Send,
    R::Error: Send,
{
    if !client.protocol.guards(request.method()) {
        let response = service.call(request).await;
        let response = response.map_err(|error| Failure::Transport(error).into_error())?;
        return Ok(response.map(AnswerBody::new));
    }
    let (parts, body) = request.into_parts();
    let body = bytes_of(body).await?;
    let described = Described {
        method: &parts.method,
        uri: &parts.uri,
        headers: &parts.headers,
        body: &body,
        intent: parts.extensions.get::<Intent>(),
    };
    let keyed = Box::pin(client.key(described)).await?;
    let sender = Sender {
        parts,
        body,
        service,
        request: std::marker::PhantomData,
    };
    let delivered = Box::pin(client.deliver(keyed, sender)).await;
    delivered.map_err(Failure::into_error)
}

async fn bytes_of<B>(body: B) -> Result<Bytes, Error>
where
    B: HttpBody<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    match body.size_hint().exact() {
        Some(0..=MAX_BODY) => {}
        Some(_) => return Err(Error::invalid("the body has more than 16 MiB")),
        None => {
            return Err(Error::invalid(
                "the body is a stream, which cannot be sent again; collect it into bytes",
            ));
        }
    }
    let collected = body.collect().await;
    let collected = collected
        .map_err(|error| Error::invalid("the body ended with an error").with_source(error))?;
    if collected.trailers().is_some() {
        return Err(Error::invalid(
            "the body has trailers, which cannot be sent again",
        ));
    }
    Ok(collected.to_bytes())
}

/// Sends through the inner client.
struct Sender<S, B> {
    parts: Parts,
    body: Bytes,
    service: S,
    request: std::marker::PhantomData<fn(B)>,
}

impl<S, B, R> Transport for Sender<S, B>
where
    S: Service<Request<B>, Response = Response<R>> + Send,
    S::Future: Send,
    S::Error: Send,
    B: HttpBody<Data = Bytes> + From<Bytes> + Send,
    R: HttpBody<Data = Bytes> + Send,
{
    type Body = R;
    type Error = S::Error;

    async fn send(&mut self, placed: &Placed) -> Result<Response<R>, S::Error> {
        poll_fn(|context| self.service.poll_ready(context)).await?;
        let mut parts = self.parts.clone();
        placed.apply(&mut parts.headers);
        let body = placed.body.as_ref().unwrap_or(&self.body).clone();
        let request = Request::from_parts(parts, body.into());
        self.service.call(request).await
    }

    fn is_retryable(&self, _: &S::Error) -> bool {
        true
    }
}

impl<R: HttpBody> Future for ResponseFuture<R> {
    type Output = Result<Response<AnswerBody<R>>, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(context)
    }
}

impl<R: HttpBody> fmt::Debug for ResponseFuture<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
