//! [`Handover`]: the service inside of the layer.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use idem_core::Work;
use tokio::sync::{mpsc, oneshot};
use tower_service::Service;

use crate::body::OutgoingBody;
use crate::incoming::{Chunk, Incoming};

/// What the layer wants from the task that keeps the actix request.
pub(crate) enum Ask {
    /// The next piece of the payload.
    Chunk(oneshot::Sender<Chunk>),
    /// A call of the inner service.
    Call(Call),
}

pub(crate) struct Call {
    /// The body that was read; `None` if the payload is untouched.
    pub(crate) body: Option<Bytes>,
    /// The run, where the request has a key.
    pub(crate) work: Option<Work>,
    pub(crate) reply: oneshot::Sender<Reply>,
}

pub(crate) type Reply = Result<Response<OutgoingBody>, Panic>;

/// The words of a panic of the inner service.
pub(crate) type Panic = Box<dyn Any + Send>;

/// Hands each request over to the task, and waits for the head of the response.
#[derive(Clone)]
pub(crate) struct Handover(mpsc::UnboundedSender<Ask>);

impl Handover {
    pub(crate) fn new(asks: mpsc::UnboundedSender<Ask>) -> Self {
        Self(asks)
    }
}

/// The task of the request is gone, because its worker stopped.
#[derive(Debug)]
pub(crate) struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the worker stopped before the request was answered")
    }
}

impl Service<Request<Incoming>> for Handover {
    type Response = Response<OutgoingBody>;
    type Error = Stopped;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Stopped>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Stopped>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let (mut parts, body) = request.into_parts();
        let (reply, replied) = oneshot::channel();
        let call = Call {
            body: body.into_read(),
            work: parts.extensions.remove::<Work>(),
            reply,
        };
        // If the task is gone, so is the other end of the reply.
        let _ = self.0.send(Ask::Call(call));
        Box::pin(async {
            match replied.await {
                Ok(Ok(response)) => Ok(response),
                // The panic goes on here, where the engine sees it.
                Ok(Err(panic)) => resume_unwind(panic),
                Err(_) => Err(Stopped),
            }
        })
    }
}
