//! [`AnswerBody`]: the body of a response of the layer.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use actix_web::HttpResponse;
use actix_web::body::{BodySize, MessageBody};
use actix_web::http::StatusCode;
use bytes::Bytes;
use http::response::Parts;
use http_body::Body as _;
use idem_http::{Body, ProblemType};

use crate::BrokenBody;
use crate::body::OutgoingBody;
use crate::convert;

/// The body of the response to a request with a key: a replay, a refusal, or that of the inner
/// service.
pub struct AnswerBody {
    body: Body<OutgoingBody>,
    size: BodySize,
}

/// Returns the response for actix. That of the inner service keeps what the layer does not see: its
/// extensions, and how it treats the connection.
pub(crate) fn response(
    parts: &Parts,
    body: Body<OutgoingBody>,
    original: Option<HttpResponse<()>>,
) -> HttpResponse<AnswerBody> {
    let size = body.size_hint().exact();
    let size = size.map_or(BodySize::Stream, BodySize::Sized);
    let head = original.unwrap_or_else(|| HttpResponse::with_body(StatusCode::OK, ()));
    let mut response = head.set_body(AnswerBody { body, size });
    convert::write(parts, response.head_mut());
    if let Some(problem) = parts.extensions.get::<ProblemType>() {
        response.extensions_mut().insert(*problem);
    }
    response
}

impl MessageBody for AnswerBody {
    type Error = BrokenBody;

    fn size(&self) -> BodySize {
        self.size
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, BrokenBody>>> {
        loop {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                // Bodies of actix have no trailers.
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Poll::Ready(Some(Ok(data)));
                    }
                }
            }
        }
    }
}

impl fmt::Debug for AnswerBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerBody")
            .field("body", &self.body)
            .field("size", &self.size)
            .finish()
    }
}
