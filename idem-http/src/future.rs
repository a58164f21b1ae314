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

/// A request with a key while it is handled.
pub(crate) type Guarded<B, E> =
    Pin<Box<dyn Future<Output = Result<Response<Body<B>>, E>> + Send + 'static>>;

pin_project! {
    /// The future of [`IdempotencyService`](crate::IdempotencyService).
    ///
    /// A request without a key goes straight to the service. A request with a key is read, then
    /// handled in a task of its own. Dropping this future after that leaves the handler running,
    /// and the layer stores its response.
    pub struct ResponseFuture<F, B, E>
    where
        B: HttpBody<Data = Bytes>,
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
    {
        Passed { #[pin] future: F },
        Guarded { future: Guarded<B, E> },
        Refused { response: Option<Response<Body<B>>> },
    }
}

impl<F, B: HttpBody<Data = Bytes>, E> ResponseFuture<F, B, E> {
    pub(crate) fn passed(future: F) -> Self {
        Self {
            state: State::Passed { future },
        }
    }

    pub(crate) fn guarded(future: Guarded<B, E>) -> Self {
        Self {
            state: State::Guarded { future },
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
    B: HttpBody<Data = Bytes>,
{
    type Output = Result<Response<Body<B>>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProjection::Passed { future } => {
                let wrap = |response: Response<B>| response.map(Body::new);
                future.poll(context).map_ok(wrap)
            }
            StateProjection::Guarded { future } => future.as_mut().poll(context),
            StateProjection::Refused { response } => match response.take() {
                Some(response) => Poll::Ready(Ok(response)),
                // Polled after its end, which the contract of `Future` forbids.
                None => Poll::Pending,
            },
        }
    }
}

impl<F, B: HttpBody<Data = Bytes>, E> fmt::Debug for ResponseFuture<F, B, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
