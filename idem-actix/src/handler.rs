//! [`run`]: the task that keeps the actix request, and serves the layer.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::rc::Rc;

use actix_web::body::MessageBody;
use actix_web::dev::{Payload, Service, ServiceRequest, ServiceResponse};
use actix_web::http::StatusCode;
use actix_web::{Error, HttpMessage, HttpRequest, HttpResponse};
use futures_util::{FutureExt, StreamExt, stream};
use tokio::sync::{mpsc, oneshot};

use crate::body::{BrokenBody, OutgoingBody, Piece};
use crate::convert;
use crate::handover::{Ask, Call};

/// The actix request, when the layer needs it no more.
pub(crate) enum Returned {
    /// The inner service was not called.
    Untouched(ServiceRequest),
    /// The inner service answered, with this head.
    Answered(HttpRequest, HttpResponse<()>),
    /// The inner service failed, and this is the head of the error's response.
    Failed(Error, HttpResponse<()>),
}

/// Serves the layer until it has made its call, or can make none any more.
pub(crate) async fn run<S, B>(
    inner: Rc<S>,
    mut request: ServiceRequest,
    mut asked: mpsc::UnboundedReceiver<Ask>,
    returns: oneshot::Sender<Returned>,
) where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error>,
    B: MessageBody,
{
    let mut payload = None;
    while let Some(ask) = asked.recv().await {
        match ask {
            Ask::Chunk(mut reply) => {
                let payload: &mut Payload = payload.get_or_insert_with(|| request.take_payload());
                tokio::select! {
                    chunk = payload.next() => {
                        // Where nobody waits any more, the request is being dropped.
                        let _ = reply.send(chunk.map(|chunk| chunk.map_err(BrokenBody::new)));
                    }
                    () = reply.closed() => {}
                }
            }
            Ask::Call(call) => return answer(&*inner, request, call, returns).await,
        }
    }
    // A client that is gone needs no request.
    let _ = returns.send(Returned::Untouched(request));
}

/// Calls the inner service, and sends its response.
async fn answer<S, B>(
    inner: &S,
    mut request: ServiceRequest,
    call: Call,
    returns: oneshot::Sender<Returned>,
) where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error>,
    B: MessageBody,
{
    let mut upgrade = None;
    if let Some(body) = call.body {
        let payload = match convert::is_upgrade(request.head()) {
            true => {
                let (switches, payload) = after_switch();
                upgrade = Some((switches, request.take_payload()));
                payload
            }
            false => Payload::from(body),
        };
        request.set_payload(payload);
    }
    if let Some(work) = call.work {
        request.extensions_mut().insert(work);
    }
    // The panic goes on in the layer, and this task has nothing left to do.
    let calling = AssertUnwindSafe(async {
        match inner.call(request).await {
            Ok(response) => {
                let (request, response) = response.into_parts();
                if let Some((switches, payload)) = upgrade.take()
                    && response.status() == StatusCode::SWITCHING_PROTOCOLS
                {
                    // A handler that dropped the payload reads nothing.
                    let _ = switches.send(payload);
                }
                let (head, body) = response.into_parts();
                (Ok(request), head, Either::Own(body))
            }
            Err(error) => {
                let (head, body) = error.error_response().into_parts();
                (Err(error), head, Either::OfError(body))
            }
        }
    });
    let (outcome, head, body) = match calling.catch_unwind().await {
        Ok(answered) => answered,
        Err(panic) => {
            let _ = call.reply.send(Err(panic));
            return;
        }
    };
    let size = match &body {
        Either::Own(body) => body.size(),
        Either::OfError(body) => body.size(),
    };
    let (pieces, received) = mpsc::channel(1);
    let response = convert::response(&head).map(|()| OutgoingBody::new(received, size));
    if call.reply.send(Ok(response)).is_err() {
        return;
    }
    // A client that is gone needs no head.
    let _ = returns.send(match outcome {
        Ok(request) => Returned::Answered(request, head),
        Err(error) => Returned::Failed(error, head),
    });
    match body {
        Either::Own(body) => send(body, pieces).await,
        Either::OfError(body) => send(body, pieces).await,
    }
}

/// Returns the payload of an upgrade: empty until the handler has switched protocols, so that it
/// acts on nothing that the layer did not compare.
fn after_switch() -> (oneshot::Sender<Payload>, Payload) {
    let (switches, mut switched) = oneshot::channel();
    let mut current = Payload::None;
    let payload = stream::poll_fn(move |context| {
        if let Ok(payload) = switched.try_recv() {
            current = payload;
        }
        current.poll_next_unpin(context)
    });
    let payload = Box::pin(payload);
    (switches, Payload::Stream { payload })
}

enum Either<A, B> {
    Own(A),
    OfError(B),
}

/// Sends the body piece by piece, until nobody reads it.
async fn send<B: MessageBody>(body: B, pieces: mpsc::Sender<Piece>) {
    let mut body = pin!(body);
    loop {
        let next = std::future::poll_fn(|context| body.as_mut().poll_next(context));
        let next = AssertUnwindSafe(next).catch_unwind();
        let piece = tokio::select! {
            next = next => next,
            () = pieces.closed() => return,
        };
        let piece = match piece {
            Ok(Some(Ok(bytes))) => Piece::Data(bytes),
            Ok(Some(Err(error))) => Piece::Broken(BrokenBody::new(error.into())),
            Ok(None) => Piece::End,
            Err(panic) => Piece::Panicked(panic),
        };
        let is_last = !matches!(piece, Piece::Data(_));
        if pieces.send(piece).await.is_err() || is_last {
            return;
        }
    }
}
