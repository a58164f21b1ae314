//! [`ResponseFuture`]: the future of a call of the service.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use http_body::Body as HttpBody;
use pin_project_lite::pin_project;

use crate::Body;
use crate::exchange::Begun;

/// A request with a key while it is handled.
pub(crate) struct Guarded<B, E>
where
    B: HttpBody<Data = Bytes> + 'static,
    E: 'static,
{
    /// Taken out while it is polled: a future that has panicked is not polled again.
    exchange: Option<Exchange<B, E>>,
    begun: Begun<B>,
}

pub(crate) type Exchange<B, E> =
    Pin<Box<dyn Future<Output = Result<Response<Body<B>>, E>> + Send + 'static>>;

impl<B, E> Guarded<B, E>
where
    B: HttpBody<Data = Bytes> + 'static,
    E: 'static,
{
    pub(crate) fn new(begun: Begun<B>, exchange: Exchange<B, E>) -> Self {
        Self {
            exchange: Some(exchange),
            begun,
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Response<Body<B>>, E>> {
        // Polled after its end, which the contract of `Future` forbids.
        let Some(mut exchange) = self.exchange.take() else {
            return Poll::Pending;
        };
        let poll = exchange.as_mut().poll(context);
        if poll.is_ready() {
            return poll;
        }
        if let Some((response, closed)) = self.begun.take_streamed() {
            self.begun.stream(exchange, closed);
            return Poll::Ready(Ok(response));
        }
        self.exchange = Some(exchange);
        Poll::Pending
    }
}

impl<B, E> Drop for Guarded<B, E>
where
    B: HttpBody<Data = Bytes> + 'static,
    E: 'static,
{
    fn drop(&mut self) {
        if let Some(exchange) = self.exchange.take() {
            self.begun.finish(exchange);
        }
    }
}

pin_project! {
    /// The future of [`IdempotencyService`](crate::IdempotencyService).
    ///
    /// A request without a key goes straight to the service. A request with a key is read and
    /// handled. If this future is dropped after the service was called, a task of its own finishes
    /// the handler, and the layer stores its response. Such a task also reads an answer that is a
    /// stream, after its head was sent.
    pub struct ResponseFuture<F, B, E>
    where
        B: HttpBody<Data = Bytes>,
        B: 'static,
        E: 'static,
    {
        #[pin]
        state: State<F, B, E>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<F, B, E>
    where
        B: HttpBody<Data = Bytes>,
        B: 'static,
        E: 'static,
    {
        Passed { #[pin] future: F },
        Guarded { guarded: Guarded<B, E> },
        Refused { response: Option<Response<Body<B>>> },
    }
}

impl<F, B: HttpBody<Data = Bytes> + 'static, E: 'static> ResponseFuture<F, B, E> {
    pub(crate) fn passed(future: F) -> Self {
        Self {
            state: State::Passed { future },
        }
    }

    pub(crate) fn guarded(guarded: Guarded<B, E>) -> Self {
        Self {
            state: State::Guarded { guarded },
        }
    }

    pub(crate) fn refused(response: Response<Body<B>>) -> Self {
        Self {
            state: State::Refused {
                response: Some(response),
            },
        }
    }
}

impl<F, B, E> Future for ResponseFuture<F, B, E>
where
    F: Future<Output = Result<Response<B>, E>>,
    B: HttpBody<Data = Bytes> + 'static,
    E: 'static,
{
    type Output = Result<Response<Body<B>>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProjection::Passed { future } => {
                let wrap = |response: Response<B>| response.map(Body::new);
                future.poll(context).map_ok(wrap)
            }
            StateProjection::Guarded { guarded } => guarded.poll(context),
            StateProjection::Refused { response } => match response.take() {
                Some(response) => Poll::Ready(Ok(response)),
                // Polled after its end, which the contract of `Future` forbids.
                None => Poll::Pending,
            },
        }
    }
}

impl<F, B: HttpBody<Data = Bytes> + 'static, E: 'static> fmt::Debug for ResponseFuture<F, B, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
