//! Real connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::StreamExt;
use http::StatusCode;
use http::header::{CONNECTION, CONTENT_TYPE, UPGRADE};
use http_body_util::BodyExt;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use idem_http::HttpPolicy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::support::{Answer, App, layer, post, until};

/// Opens a connection and sends the head of a keyed request.
pub(crate) async fn connect(address: SocketAddr, more: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /orders HTTP/1.1\r\nhost: a\r\nx-account: a\r\ncontent-type: application/json\r\n\
         idempotency-key: a\r\n{more}"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

/// Sets its flag when it is dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_client_that_disconnects_mid_way_finds_the_answer_on_retry() {
    let gate = Arc::new(Semaphore::new(0));
    let mut app = App::gated(layer(HttpPolicy::ietf()), &gate);
    let is_dropped = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_dropped);
    app.router = app
        .router
        .layer(from_fn(move |request: Request, next: Next| {
            let guard = Dropped(Arc::clone(&flag));
            async move {
                let response = next.run(request).await;
                drop(guard);
                response
            }
        }));
    let address = app.serve().await;
    let stream = connect(address, "content-length: 2\r\n\r\n{}").await;
    app.until_runs(1).await;
    drop(stream);
    until(async || is_dropped.load(Ordering::SeqCst)).await;
    gate.add_permits(1);
    until(async || app.send(post("a", "{}")).await.status == StatusCode::OK).await;
    let retry = app.send(post("a", "{}")).await;
    assert!(retry.is_replayed());
    assert_eq!((retry.text(), app.runs()), ("done", 1));
}

#[tokio::test]
async fn a_client_that_disconnects_before_its_body_is_sent_leaves_nothing() {
    let app = App::counting(layer(HttpPolicy::ietf()));
    let address = app.serve().await;
    let stream = connect(address, "content-length: 2\r\n\r\n{").await;
    drop(stream);
    let answer = app.send(post("a", "[]")).await;
    assert_eq!(
        (answer.status, answer.text()),
        (StatusCode::CREATED, "run 1")
    );
}

#[tokio::test]
async fn a_body_that_breaks_off_reaches_the_client_as_far_as_it_got() {
    let app = App::new(layer(HttpPolicy::ietf()), |_| async {
        let parts = [Ok("part one, "), Ok("part two"), Err("broken")];
        Body::from_stream(futures_util::stream::iter(parts))
    });
    let address = app.serve().await;
    for run in 1..=2 {
        let mut stream = connect(address, "content-length: 2\r\n\r\n{}").await;
        let mut answer = Vec::new();
        // The connection may end with an error.
        let _ = stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "run {run}: {answer}");
        assert!(
            answer.contains("part one, ") && answer.contains("part two"),
            "run {run}: {answer}"
        );
        assert!(!answer.ends_with("0\r\n\r\n"), "run {run}: it seems whole");
        assert_eq!(app.runs(), run, "what broke off is released");
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_does_so_on_http_2_too() {
    let app = App::new(layer(HttpPolicy::ietf()), |_| async {
        let parts = [Ok("part one, "), Ok("part two"), Err("broken")];
        Body::from_stream(futures_util::stream::iter(parts))
    });
    let address = app.serve().await;
    let mut client = Client::builder(TokioExecutor::new());
    let client = client.http2_only(true).build_http::<Body>();
    let mut request = post("a", "{}");
    *request.uri_mut() = format!("http://{address}/orders").parse().unwrap();
    let mut body = client.request(request).await.unwrap().into_body();
    let mut read = Vec::new();
    let end = loop {
        match body.frame().await {
            Some(Ok(frame)) => read.extend(frame.into_data().unwrap()),
            end => break end,
        }
    };
    assert_eq!(String::from_utf8(read).unwrap(), "part one, part two");
    assert!(matches!(end, Some(Err(_))), "it seems whole");
}

#[tokio::test]
async fn a_body_that_breaks_off_at_once_still_has_a_head() {
    let app = App::new(layer(HttpPolicy::ietf()), |_| async {
        Body::from_stream(futures_util::stream::iter([Err::<Bytes, _>("broken")]))
    });
    let address = app.serve().await;
    let mut stream = connect(address, "content-length: 2\r\n\r\n{}").await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_64_racing_clients_one_request_is_handled_and_all_get_its_answer() {
    let app = App::counting(layer(HttpPolicy::ietf()));
    let address = app.serve().await;
    let client = Client::builder(TokioExecutor::new()).build_http::<Body>();
    let racing = (0..64).map(|_| {
        let client = client.clone();
        tokio::spawn(async move {
            loop {
                let mut request = post("a", "{\"amount\": 1}");
                *request.uri_mut() = format!("http://{address}/orders").parse().unwrap();
                let response = client.request(request).await.unwrap();
                let answer = Answer::read(response.map(Body::new)).await;
                if answer.status != StatusCode::CONFLICT {
                    return answer;
                }
            }
        })
    });
    let answers = futures_util::future::join_all(racing.collect::<Vec<_>>()).await;
    let answers: Vec<Answer> = answers.into_iter().map(Result::unwrap).collect();
    assert!(
        answers
            .iter()
            .all(|answer| answer.text() == "run 1" && answer.status == StatusCode::CREATED)
    );
    assert_eq!(
        answers
            .iter()
            .filter(|answer| !answer.is_replayed())
            .count(),
        1
    );
    assert_eq!(app.runs(), 1);
}

/// Switches to a protocol that echoes.
async fn echo(mut request: Request) -> Response {
    let upgrading = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let mut io = TokioIo::new(upgrading.await.unwrap());
        let mut bytes = [0; 4];
        io.read_exact(&mut bytes).await.unwrap();
        io.write_all(&bytes).await.unwrap();
    });
    let headers = [(CONNECTION, "upgrade"), (UPGRADE, "echo")];
    (StatusCode::SWITCHING_PROTOCOLS, headers).into_response()
}

#[tokio::test]
async fn a_connection_is_upgraded_through_the_layer() {
    let app = App::new(layer(HttpPolicy::ietf()), echo);
    let address = app.serve().await;
    for runs in 1..3 {
        let mut stream = connect(address, "connection: upgrade\r\nupgrade: echo\r\n\r\n").await;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        assert!(head.starts_with(b"HTTP/1.1 101"), "{:?}", Bytes::from(head));
        stream.write_all(b"ping").await.unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        assert_eq!(bytes, b"ping");
        assert_eq!(app.runs(), runs, "it was not sealed");
    }
}

#[tokio::test]
async fn events_arrive_while_the_stream_is_open() {
    let app = App::new(layer(HttpPolicy::ietf()), |_| async {
        let first = futures_util::stream::iter([Ok::<_, std::io::Error>("data: 1\n\n")]);
        let open = Body::from_stream(first.chain(futures_util::stream::pending()));
        ([(CONTENT_TYPE, "text/event-stream")], open)
    });
    let address = app.serve().await;
    let mut stream = connect(address, "content-length: 2\r\n\r\n{}").await;
    let mut read = Vec::new();
    while !read.ends_with(b"data: 1\n\n\r\n") {
        read.push(stream.read_u8().await.unwrap());
    }
    assert!(read.starts_with(b"HTTP/1.1 200"));
}

#[tokio::test]
async fn a_panic_closes_the_connection_as_it_does_without_the_layer() {
    let app = App::new(layer(HttpPolicy::ietf()), |_| async {
        if true {
            panic!("the handler's own words");
        }
    });
    let address = app.serve().await;
    let mut stream = connect(address, "content-length: 2\r\n\r\n{}").await;
    let mut read = Vec::new();
    let _ = stream.read_to_end(&mut read).await;
    assert!(read.is_empty(), "{:?}", Bytes::from(read));
}
