//! [`OutgoingBody`]: the body of the inner service's response, as the layer sees it.

use std::fmt;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use actix_web::body::BodySize;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

use crate::handover::Panic;

/// A piece of a response's body.
pub(crate) enum Piece {
    Data(Bytes),
    End,
    Broken(BrokenBody),
    Panicked(Panic),
}

/// The pieces that the task sends.
pub(crate) struct OutgoingBody {
    /// `None` after the end.
    pieces: Option<mpsc::Receiver<Piece>>,
    /// The number of bytes that are still to come, if it is known.
    left: Option<u64>,
}

impl OutgoingBody {
    pub(crate) fn new(pieces: mpsc::Receiver<Piece>, size: BodySize) -> Self {
        let left = match size {
            BodySize::None => Some(0),
            BodySize::Sized(bytes) => Some(bytes),
            BodySize::Stream => None,
        };
        Self {
            pieces: Some(pieces),
            left,
        }
    }
}

impl Body for OutgoingBody {
    type Data = Bytes;
    type Error = BrokenBody;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenBody>>> {
        let Some(pieces) = &mut self.pieces else {
            return Poll::Ready(None);
        };
        let error = match ready!(pieces.poll_recv(context)) {
            Some(Piece::Data(bytes)) => {
                let len = bytes.len() as u64;
                self.left = self.left.map(|left| left.saturating_sub(len));
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            Some(Piece::End) => None,
            Some(Piece::Broken(error)) => Some(error),
            Some(Piece::Panicked(panic)) => resume_unwind(panic),
            None => Some(BrokenBody::lost()),
        };
        self.pieces = None;
        Poll::Ready(error.map(Err))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match (&self.pieces, self.left) {
            (None, _) => SizeHint::with_exact(0),
            (Some(_), Some(left)) => SizeHint::with_exact(left),
            (Some(_), None) => SizeHint::default(),
        }
    }
}

/// A body that ended with an error, which this text describes.
#[derive(Debug, Clone)]
pub struct BrokenBody(String);

impl BrokenBody {
    pub(crate) fn new(error: impl fmt::Display) -> Self {
        Self(error.to_string())
    }

    /// The task that reads the body is gone.
    pub(crate) fn lost() -> Self {
        Self::new("the worker stopped before the body ended")
    }
}

impl fmt::Display for BrokenBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BrokenBody {}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use http_body_util::BodyExt;

    use super::*;

    #[test]
    fn a_body_whose_task_is_gone_is_not_whole() {
        let (pieces, received) = mpsc::channel(1);
        pieces.try_send(Piece::Data(Bytes::from("begun "))).unwrap();
        drop(pieces);
        let mut body = OutgoingBody::new(received, BodySize::Stream);
        let mut next = || body.frame().now_or_never().unwrap();
        assert_eq!(next().unwrap().unwrap().into_data().unwrap(), "begun ");
        assert!(next().unwrap().is_err());
        assert!(next().is_none());
    }
}
