//! [`AnswerBody`]: the body of an answer, of which a part may have been read.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::fingerprint;

/// The most of a body that is read to see a problem type or a marker.
pub(crate) const MAX_READ: usize = 64 * 1024;

/// The body of an answer: what was read to judge it, and then the rest.
///
/// The bytes are those that the server sent.
pub struct AnswerBody<B> {
    read: VecDeque<Frame<Bytes>>,
    rest: Pin<Box<B>>,
}

impl<B: HttpBody<Data = Bytes>> AnswerBody<B> {
    pub(crate) fn new(body: B) -> Self {
        Self {
            read: VecDeque::new(),
            rest: Box::pin(body),
        }
    }

    /// Reads the text of the body, if its type is JSON and it has at most 64 KiB, and keeps what was
    /// read.
    ///
    /// Fails when the body breaks off.
    pub(crate) async fn json(&mut self, headers: &HeaderMap) -> Result<Option<Vec<u8>>, B::Error> {
        let is_json = fingerprint::is_json(headers, &fingerprint::essence(headers));
        if !is_json || self.rest.size_hint().lower() > MAX_READ as u64 {
            return Ok(None);
        }
        let mut text = Vec::new();
        while let Some(frame) = poll_fn(|context| self.rest.as_mut().poll_frame(context)).await {
            let frame = frame?;
            if let Some(data) = frame.data_ref() {
                text.extend_from_slice(data);
            }
            self.read.push_back(frame);
            if text.len() > MAX_READ {
                return Ok(None);
            }
        }
        Ok(Some(text))
    }

    fn read_bytes(&self) -> u64 {
        let data = self.read.iter().filter_map(Frame::data_ref);
        data.map(|data| data.len() as u64).sum()
    }
}

impl<B: HttpBody<Data = Bytes>> HttpBody for AnswerBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.read.pop_front() {
            Some(frame) => Poll::Ready(Some(Ok(frame))),
            None => self.rest.as_mut().poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.read.is_empty() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (read, rest) = (self.read_bytes(), self.rest.size_hint());
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(read));
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(read));
        }
        hint
    }
}

impl<B> fmt::Debug for AnswerBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerBody").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::{BodyExt, Full};

    fn json_headers() -> HeaderMap {
        let json = "application/problem+json".parse().unwrap();
        HeaderMap::from_iter([(http::header::CONTENT_TYPE, json)])
    }

    async fn read(text: String, headers: &HeaderMap) -> Option<Vec<u8>> {
        let mut body = AnswerBody::new(Full::new(Bytes::from(text.clone())));
        let value = body.json(headers).await.unwrap();
        assert_eq!(body.size_hint().exact(), Some(text.len() as u64));
        assert_eq!(
            body.collect().await.unwrap().to_bytes(),
            text,
            "nothing is lost"
        );
        value
    }

    #[tokio::test]
    async fn json_up_to_the_limit_is_read_and_nothing_is_lost() {
        let headers = json_headers();
        assert_eq!(
            read("{}".to_owned(), &headers).await.as_deref(),
            Some(&b"{}"[..])
        );
        assert_eq!(read("{}".to_owned(), &HeaderMap::new()).await, None);
        let long = format!("\"{}\"", "x".repeat(MAX_READ - 1));
        assert_eq!(read(long, &headers).await, None);
        let fits = format!("\"{}\"", "x".repeat(MAX_READ - 2));
        assert!(read(fits, &headers).await.is_some());
    }

    #[tokio::test]
    async fn a_body_without_a_length_is_read_up_to_the_limit() {
        let chunk = || Ok::<_, std::io::Error>(Frame::data(Bytes::from(vec![b'1'; 40 * 1024])));
        let mut left = 3;
        let stream = std::iter::from_fn(move || {
            left -= 1;
            (left >= 0).then(chunk)
        });
        let mut body = AnswerBody::new(Frames(stream));
        assert_eq!(body.json(&json_headers()).await.unwrap(), None);
        let read = body.read_bytes();
        assert!(read > MAX_READ as u64 && read < 3 * 40 * 1024, "{read}");
        let whole = body.collect().await.unwrap().to_bytes();
        assert_eq!(whole.len(), 3 * 40 * 1024);
    }

    struct Frames<I>(I);

    impl<I> HttpBody for Frames<I>
    where
        I: Iterator<Item = std::io::Result<Frame<Bytes>>> + Unpin,
    {
        type Data = Bytes;
        type Error = std::io::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<std::io::Result<Frame<Bytes>>>> {
            Poll::Ready(self.0.next())
        }
    }
}
