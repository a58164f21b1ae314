//! [`Stream`]: an answer whose pieces pass at once, and are recorded beside.
//!
//! A client may have to act on an early event before there is a later one, so none waits for the
//! record. The piece that ends the recording does: whoever has the whole answer finds it stored.

use std::future::Future;
use std::pin::{Pin, pin};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::Body as HttpBody;
use http_body_util::BodyExt;
use tokio::sync::mpsc;

use crate::Body;
use crate::json_rpc::{EventReader, Progress};

/// The most pieces that wait for a client that reads slowly.
const WAITING: usize = 16;

/// How long a stream goes on for the record alone, once its client is gone.
pub(crate) const ALONE: Duration = Duration::from_secs(10 * 60);

/// A frame of a body that a task reads; `None` at its end.
pub(crate) type Piece<B> = Option<Result<http_body::Frame<Bytes>, <B as HttpBody>::Error>>;

/// Ends when the client is gone.
pub(crate) type Closed = Pin<Box<dyn Future<Output = ()> + Send>>;

pub(crate) struct Stream<B: HttpBody<Data = Bytes>> {
    /// Status and headers of the answer.
    head: Response<()>,
    body: Body<B>,
    tape: Tape,
    pipe: mpsc::Sender<Piece<B>>,
    /// The piece that ended the recording.
    held: Option<Piece<B>>,
}

/// What is recorded.
pub(crate) enum Tape {
    /// The answer of a call.
    Answer(EventReader),
    /// All of it, up to this many bytes.
    Whole(Vec<u8>, usize),
}

/// How the recording ended.
pub(crate) enum Recorded {
    Answer(Response<Bytes>),
    /// It is over the limit.
    Over,
    /// The stream ended without the answer.
    Unfinished,
    /// The stream ended with an error.
    Broken,
}

impl<B: HttpBody<Data = Bytes>> Stream<B> {
    /// Creates the stream, and the body for its client.
    pub(crate) fn new(head: Response<()>, body: B, tape: Tape) -> (Self, Body<B>) {
        let (pipe, pieces) = mpsc::channel(WAITING);
        let stream = Self {
            head,
            body: Body::new(body),
            tape,
            pipe,
            held: None,
        };
        (stream, Body::piped(pieces))
    }

    pub(crate) fn closed(&self) -> Closed
    where
        B: 'static,
        B::Error: Send,
    {
        let pipe = self.pipe.clone();
        Box::pin(async move { pipe.closed().await })
    }

    /// Passes pieces on, until one ends the recording. A client that is gone ends it after a time:
    /// the stream may wait for an answer that only this client could give.
    pub(crate) async fn record(&mut self) -> Recorded {
        let pipe = self.pipe.clone();
        let mut alone = pin!(async {
            pipe.closed().await;
            tokio::time::sleep(ALONE).await;
        });
        loop {
            let piece = tokio::select! {
                piece = self.body.frame() => piece,
                () = &mut alone => return Recorded::Unfinished,
            };
            let read = match &piece {
                Some(Ok(frame)) => self.tape.push(frame.data_ref()),
                Some(Err(_)) => return self.end(piece, Recorded::Broken),
                None => match self.tape.end() {
                    Some(whole) => Progress::Done(whole),
                    None => return self.end(piece, Recorded::Unfinished),
                },
            };
            let recorded = match read {
                Progress::Open => {
                    let _ = self.pipe.send(piece).await;
                    continue;
                }
                Progress::Done(answer) => Recorded::Answer(self.head.clone().map(|()| answer)),
                Progress::Over => Recorded::Over,
            };
            return self.end(piece, recorded);
        }
    }

    fn end(&mut self, piece: Piece<B>, recorded: Recorded) -> Recorded {
        self.held = Some(piece);
        recorded
    }

    /// Passes on the piece that was held, and the rest.
    pub(crate) async fn pass(mut self) {
        let mut next = self.held.take();
        while let Some(piece) = next {
            let is_last = !matches!(piece, Some(Ok(_)));
            if self.pipe.send(piece).await.is_err() || is_last {
                return;
            }
            next = tokio::select! {
                piece = self.body.frame() => Some(piece),
                () = self.pipe.closed() => None,
            };
        }
    }
}

impl Tape {
    fn push(&mut self, data: Option<&Bytes>) -> Progress<Bytes> {
        let data = data.map(|data| &data[..]).unwrap_or_default();
        match self {
            Self::Answer(reader) => reader.push(data),
            Self::Whole(bytes, limit) if bytes.len() + data.len() > *limit => Progress::Over,
            Self::Whole(bytes, _) => {
                bytes.extend_from_slice(data);
                Progress::Open
            }
        }
    }

    /// Returns what was recorded of a stream that has ended; `None` without the answer.
    fn end(&mut self) -> Option<Bytes> {
        match self {
            Self::Answer(_) => None,
            Self::Whole(bytes, _) => Some(std::mem::take(bytes).into()),
        }
    }
}
