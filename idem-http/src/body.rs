//! [`Body`]: the part that was already read, and the rest.

use std::collections::VecDeque;
use std::fmt;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::mpsc;

use crate::stream::Piece;

/// The body of every response of the layer: its own bytes, the service's body untouched, the part of
/// that body already read, followed by the rest, or a body that a task reads and records.
///
/// It also serves as a request body where the service's request body cannot be made from bytes, as
/// with plain `hyper`: map requests with [`Body::new`] before the layer.
pub struct Body<B: HttpBody<Data = Bytes>> {
    read: VecDeque<Result<Frame<Bytes>, B::Error>>,
    rest: Rest<B>,
    /// Whether `poll_frame` has already paused before the error that ends the read part.
    has_paused: bool,
}

/// What was not read.
enum Rest<B: HttpBody<Data = Bytes>> {
    Ended,
    Own(Pin<Box<B>>),
    /// A task reads it.
    Piped(mpsc::Receiver<Piece<B>>),
}

impl<B: HttpBody<Data = Bytes>> Body<B> {
    /// Wraps this body, untouched.
    pub fn new(body: B) -> Self {
        Self::of(VecDeque::new(), Rest::Own(Box::pin(body)))
    }

    /// Returns the body that a task reads.
    pub(crate) fn piped(pieces: mpsc::Receiver<Piece<B>>) -> Self {
        Self::of(VecDeque::new(), Rest::Piped(pieces))
    }

    fn of(read: VecDeque<Result<Frame<Bytes>, B::Error>>, rest: Rest<B>) -> Self {
        Self {
            read,
            rest,
            has_paused: false,
        }
    }

    /// Reads the whole body into memory, up to `limit` bytes.
    pub(crate) async fn collect(mut self, limit: usize) -> Collected<B> {
        let mut bytes = 0;
        while let Rest::Own(rest) = &mut self.rest {
            if size_is_over(rest.size_hint().lower(), limit - bytes) {
                return Collected::Over(self);
            }
            let next = std::future::poll_fn(|context| rest.as_mut().poll_frame(context)).await;
            let Some(frame) = next else {
                self.rest = Rest::Ended;
                break;
            };
            let is_broken = frame.is_err();
            bytes += frame.as_ref().map_or(0, data_len);
            self.read.push_back(frame);
            if is_broken {
                self.rest = Rest::Ended;
                return Collected::Broken(self);
            }
            if bytes > limit {
                return Collected::Over(self);
            }
        }
        Collected::Whole(self)
    }

    /// Returns the data that was read, in one piece.
    pub(crate) fn read_bytes(&self) -> Bytes {
        let mut data = self.read.iter().filter_map(|frame| {
            let frame = frame.as_ref().ok()?;
            frame.data_ref()
        });
        match (data.next(), data.next()) {
            (None, _) => Bytes::new(),
            (Some(only), None) => only.clone(),
            (Some(first), Some(second)) => {
                let start = [first, second].into_iter();
                start.chain(data).flatten().copied().collect()
            }
        }
    }
}

/// The result of reading a body.
pub(crate) enum Collected<B: HttpBody<Data = Bytes>> {
    /// All of it was read.
    Whole(Body<B>),
    /// It is longer than the limit.
    Over(Body<B>),
    /// It ended with an error.
    Broken(Body<B>),
}

/// Returns whether the number of bytes is over the limit.
pub(crate) fn size_is_over(bytes: u64, limit: usize) -> bool {
    usize::try_from(bytes).map_or(true, |bytes| bytes > limit)
}

fn data_len(frame: &Frame<Bytes>) -> usize {
    frame.data_ref().map_or(0, Bytes::len)
}

impl<B: HttpBody<Data = Bytes>> From<Bytes> for Body<B> {
    fn from(bytes: Bytes) -> Self {
        let frame = (!bytes.is_empty()).then(|| Ok(Frame::data(bytes)));
        Self::of(frame.into_iter().collect(), Rest::Ended)
    }
}

impl<B: HttpBody<Data = Bytes>> Unpin for Body<B> {}

impl<B: HttpBody<Data = Bytes>> HttpBody for Body<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        // A server that receives the data and the error in one go drops the connection before it
        // has sent the data. It sends when no frame is ready, so this body pauses once.
        if matches!(self.read.front(), Some(Err(_))) && !self.has_paused {
            self.has_paused = true;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Some(frame) = self.read.pop_front() {
            return Poll::Ready(Some(frame));
        }
        match &mut self.rest {
            Rest::Ended => Poll::Ready(None),
            Rest::Own(rest) => rest.as_mut().poll_frame(context),
            Rest::Piped(pieces) => match ready!(pieces.poll_recv(context)) {
                Some(Some(Ok(frame))) => Poll::Ready(Some(Ok(frame))),
                Some(last) => {
                    self.rest = Rest::Ended;
                    self.read.extend(last);
                    self.poll_frame(context)
                }
                // The body panicked in its task. A server that sees no panic takes it for whole.
                None => resume_unwind(Box::new("the task that reads the body is gone")),
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        let is_ended = match &self.rest {
            Rest::Ended => true,
            Rest::Own(rest) => rest.is_end_stream(),
            Rest::Piped(_) => false,
        };
        self.read.is_empty() && is_ended
    }

    fn size_hint(&self) -> SizeHint {
        let size = match &self.rest {
            Rest::Ended => SizeHint::with_exact(0),
            Rest::Own(rest) => rest.size_hint(),
            Rest::Piped(_) => SizeHint::default(),
        };
        let frames = self.read.iter().filter_map(|frame| frame.as_ref().ok());
        let read = frames.map(data_len).sum::<usize>() as u64;
        let mut whole = SizeHint::new();
        whole.set_lower(size.lower() + read);
        // A known length rules out trailers on HTTP/1, and an error breaks its promise.
        let is_plain =
            |frame: &Result<Frame<Bytes>, B::Error>| frame.as_ref().is_ok_and(Frame::is_data);
        if let Some(upper) = size.upper().filter(|_| self.read.iter().all(is_plain)) {
            whole.set_upper(upper + read);
        }
        whole
    }
}

impl<B: HttpBody<Data = Bytes>> fmt::Debug for Body<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body")
            .field("frames_read", &self.read.len())
            .field("has_rest", &!matches!(self.rest, Rest::Ended))
            .finish()
    }
}
