//! [`IdempotencyClient::send`]: for any other HTTP client.

use std::future::Future;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body as HttpBody;
use idem_core::BoxError;

use crate::body::AnswerBody;
use crate::exchange::{Described, Failure, Transport};
use crate::protocol::Placed;
use crate::{Error, IdempotencyClient, Intent};

impl IdempotencyClient {
    /// Sends a request through any HTTP client: `send` gets the request with its key, once for each
    /// try. The [`Intent`] is in the request's extensions.
    ///
    /// A request with a method outside of the protocol's is sent once and has no key. Every error of
    /// `send` is tried again, because the key makes that safe. The extensions of the response have a
    /// [`Delivery`](crate::Delivery).
    ///
    /// ```
    /// # use bytes::Bytes;
    /// # use http_body_util::Full;
    /// # use idem_client::idem_core::MemoryStore;
    /// # use idem_client::{Answer, Delivery, IdempotencyClient, Intent, Protocol, StoreKeys};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let keys = StoreKeys::new(MemoryStore::new(), "bank.example")?; // a database in production
    /// let client = IdempotencyClient::new(keys, Protocol::idem_http());
    /// let request = http::Request::post("https://bank.example/charges")
    ///     .extension(Intent::new("order-17/charge")?)
    ///     .body(Bytes::from_static(b"1250"))?;
    /// let response = client
    ///     .send(request, async |request: http::Request<Bytes>| {
    ///         assert!(request.headers().contains_key("idempotency-key"));
    ///         Ok::<_, std::io::Error>(http::Response::new(Full::new(Bytes::from("paid"))))
    ///     })
    ///     .await?;
    /// let delivery: &Delivery = response.extensions().get().ok_or("sent with a key")?;
    /// assert_eq!((delivery.tries, delivery.answer), (1, Answer::First));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// See [`ErrorKind`](crate::ErrorKind); the last error of `send` is the source.
    pub async fn send<F, Fut, B, E>(
        &self,
        request: Request<Bytes>,
        mut send: F,
    ) -> Result<Response<AnswerBody<B>>, Error>
    where
        F: FnMut(Request<Bytes>) -> Fut + Send,
        Fut: Future<Output = Result<Response<B>, E>> + Send,
        B: HttpBody<Data = Bytes> + Send,
        B::Error: Send,
        E: Into<BoxError> + Send,
    {
        if !self.protocol.guards(request.method()) {
            let response = send(request).await;
            let response = response.map_err(|error| Failure::Transport(error).into_error())?;
            return Ok(response.map(AnswerBody::new));
        }
        let described = Described {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            body: request.body(),
            intent: request.extensions().get::<Intent>(),
        };
        let keyed = Box::pin(self.key(described)).await?;
        let delivered = Box::pin(self.deliver(keyed, Function { request, send })).await;
        delivered.map_err(Failure::into_error)
    }
}

/// Sends through a function.
struct Function<F> {
    request: Request<Bytes>,
    send: F,
}

impl<F, Fut, B, E> Transport for Function<F>
where
    F: FnMut(Request<Bytes>) -> Fut + Send,
    Fut: Future<Output = Result<Response<B>, E>> + Send,
    B: HttpBody<Data = Bytes> + Send,
    E: Send,
{
    type Body = B;
    type Error = E;

    async fn send(&mut self, placed: &Placed) -> Result<Response<B>, E> {
        let mut request = self.request.clone();
        placed.apply(request.headers_mut());
        if let Some(body) = &placed.body {
            *request.body_mut() = body.clone();
        }
        (self.send)(request).await
    }

    fn is_retryable(&self, _: &E) -> bool {
        true
    }
}
