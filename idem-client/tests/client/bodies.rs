//! Bodies: what can be repeated, and how one carries a key.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Frame;
use idem_client::{Answer, ErrorKind, GaveUp, Protocol};

use crate::support::{
    Act, BODY, Server, all_same, answer, client, delivery, error, ietf, is, memory, ok, post,
    settings,
};

#[tokio::test]
async fn a_stream_is_refused_before_anything_is_sent() {
    let server = Server::start([]).await;
    let stream = Stream(Some(Bytes::from_static(b"{}")));
    let streamed = post(&ietf(), &server.url(), "a").body(reqwest::Body::wrap(stream));
    let result = streamed.send().await;
    let error = error(&result);
    assert_eq!(error.kind(), ErrorKind::InvalidRequest);
    assert!(error.to_string().contains("stream"), "{error}");
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn a_request_without_a_body_has_a_key_too() {
    let server = Server::start([Act::Drop, ok()]).await;
    let intent = idem_client::Intent::new("a").unwrap();
    let response = ietf()
        .delete(server.url())
        .with_extension(intent)
        .send()
        .await;
    is(&response.unwrap(), 200, 2, Answer::Unknown);
    assert_eq!(all_same(&server.seen()), 2);
}

#[tokio::test]
async fn a_key_in_the_body_is_the_same_at_every_try_and_changes_nothing_else() {
    let server = Server::start([Act::Drop, answer(200, "", r#"{"replayed":true}"#)]).await;
    let client = client(settings(memory(), Protocol::adcp()));
    let response = post(&client, &server.url(), "a").send().await.unwrap();
    is(&response, 200, 2, Answer::Replayed);
    let key = delivery(&response).key.as_str().to_owned();
    assert_eq!(response.text().await.unwrap(), r#"{"replayed":true}"#);
    let seen = server.seen();
    assert_eq!(all_same(&seen), 2);
    let expected = format!(r#"{{"idempotency_key":"{key}",{}"#, &BODY[1..]);
    assert_eq!(seen[0].body, expected);
    assert_eq!(seen[0].header("content-length"), expected.len().to_string());
    assert!(!seen[0].headers.contains_key("idempotency-key"));
}

#[tokio::test]
async fn an_error_with_status_200_is_tried_again_as_its_code_says() {
    let busy = r#"{"adcp_error":{"code":"IDEMPOTENCY_IN_FLIGHT","retry_after":3600}}"#;
    let server = Server::start([answer(200, "", busy)]).await;
    let client = client(settings(memory(), Protocol::adcp()));
    let response = post(&client, &server.url(), "a").send().await.unwrap();
    is(&response, 200, 1, Answer::Unknown);
    assert_eq!(delivery(&response).gave_up, Some(GaveUp::Deadline));
}

#[tokio::test]
async fn a_body_that_cannot_carry_a_key_is_refused_before_one_is_made() {
    let server = Server::start([]).await;
    let client = client(settings(memory(), Protocol::square()));
    for body in ["[]", "text", "", r#"{"idempotency_key":"mine"}"#] {
        let result = post(&client, &server.url(), "a").body(body).send().await;
        assert_eq!(error(&result).kind(), ErrorKind::InvalidRequest, "{body}");
    }
    assert!(server.seen().is_empty());
    // The intent is still free for the right request.
    let response = post(&client, &server.url(), "a").send().await.unwrap();
    assert!(delivery(&response).key.is_new());
}

/// A body of one frame whose length is not known.
pub(crate) struct Stream(pub(crate) Option<Bytes>);

impl http_body::Body for Stream {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<std::io::Result<Frame<Bytes>>>> {
        Poll::Ready(self.0.take().map(|data| Ok(Frame::data(data))))
    }
}
