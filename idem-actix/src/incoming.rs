//! [`Incoming`]: the body of a request, as the layer sees it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::sync::{mpsc, oneshot};

use crate::body::BrokenBody;
use crate::handover::Ask;

/// A body that the task reads piece by piece, when the layer asks for it, or one that was read.
pub(crate) enum Incoming {
    Read(Option<Bytes>),
    /// One whose end nobody can tell.
    Unreadable,
    Unread {
        asks: mpsc::UnboundedSender<Ask>,
        next: Option<oneshot::Receiver<Chunk>>,
    },
}

/// The next piece of a payload; `None` at its end.
pub(crate) type Chunk = Option<Result<Bytes, BrokenBody>>;

impl Incoming {
    pub(crate) fn empty() -> Self {
        Self::Read(None)
    }

    pub(crate) fn unread(asks: mpsc::UnboundedSender<Ask>) -> Self {
        Self::Unread { asks, next: None }
    }

    /// Returns the body that was read; `None` if it still lies in the request.
    pub(crate) fn into_read(self) -> Option<Bytes> {
        match self {
            Self::Read(bytes) => Some(bytes.unwrap_or_default()),
            Self::Unreadable | Self::Unread { .. } => None,
        }
    }
}

impl From<Bytes> for Incoming {
    fn from(bytes: Bytes) -> Self {
        Self::Read(Some(bytes))
    }
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = BrokenBody;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenBody>>> {
        let (asks, next) = match &mut *self {
            Self::Read(bytes) => {
                return Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes))));
            }
            Self::Unreadable => {
                let error = BrokenBody::new("the body does not end where the upgrade begins");
                return Poll::Ready(Some(Err(error)));
            }
            Self::Unread { asks, next } => (asks, next),
        };
        let receiver = next.get_or_insert_with(|| {
            let (reply, chunk) = oneshot::channel();
            // If the task is gone, so is the other end of the reply.
            let _ = asks.send(Ask::Chunk(reply));
            chunk
        });
        let chunk = ready!(Pin::new(receiver).poll(context));
        *next = None;
        let chunk = chunk.unwrap_or_else(|_| Some(Err(BrokenBody::lost())));
        Poll::Ready(chunk.map(|chunk| chunk.map(Frame::data)))
    }
}
