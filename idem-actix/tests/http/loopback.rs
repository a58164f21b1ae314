//! Real connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use actix_web::HttpResponse;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::StatusCode;
use idem_http::{HttpPolicy, JsonRpc, KeySource};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::support::{App, Received, layer, post, until};

/// Opens a connection and sends the head of a keyed request.
pub(crate) async fn connect(address: SocketAddr, more: &str) -> TcpStream {
    connect_with("idempotency-key: a\r\n", address, more).await
}

async fn connect_with(key: &str, address: SocketAddr, more: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /orders HTTP/1.1\r\nhost: a\r\nx-account: a\r\ncontent-type: application/json\r\n\
         {key}{more}"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

/// Reads until the answer ends with this.
pub(crate) async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut read = Vec::new();
    while !read.ends_with(end.as_bytes()) {
        read.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(read).unwrap()
}

pub(crate) async fn read_head(stream: &mut TcpStream) -> String {
    read_until(stream, "\r\n\r\n").await
}

/// Reads until the connection ends, in whatever way.
pub(crate) async fn read_to_end(stream: &mut TcpStream) -> String {
    let mut read = Vec::new();
    let _ = stream.read_to_end(&mut read).await;
    String::from_utf8(read).unwrap()
}

#[tokio::test]
async fn a_client_that_disconnects_mid_way_finds_the_answer_on_retry() {
    let gate = Arc::new(Semaphore::new(0));
    let waits = Arc::clone(&gate);
    let app = App::new(layer(HttpPolicy::ietf()), move |_| {
        let gate = Arc::clone(&waits);
        async move {
            gate.acquire().await.unwrap().forget();
            "done"
        }
    });
    // The future of the middleware is dropped, as a server does it for a client that is gone.
    let first = tokio::spawn({
        let app = app.clone();
        async move { app.send(post("a", "{}")).await }
    });
    app.until_runs(1).await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    let stream = connect_with(
        "idempotency-key: b\r\n",
        app.serve(),
        "content-length: 2\r\n\r\n{}",
    );
    let stream = stream.await;
    app.until_runs(2).await;
    drop(stream);
    gate.add_permits(2);
    for key in ["a", "b"] {
        until(async || app.send(post(key, "{}")).await.status == StatusCode::OK).await;
        let retry = app.send(post(key, "{}")).await;
        assert!(retry.is_replayed());
        assert_eq!(retry.text(), "done");
    }
    assert_eq!(app.runs(), 2);
}

/// Sets its flag when it is dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn without_a_key_a_handler_ends_with_its_client() {
    let is_dropped = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_dropped);
    let app = App::new(layer(HttpPolicy::ietf()), move |_| {
        let guard = Dropped(Arc::clone(&flag));
        async move {
            std::future::pending::<()>().await;
            drop(guard);
        }
    });
    let stream = connect_with("", app.serve(), "content-length: 2\r\n\r\n{}").await;
    app.until_runs(1).await;
    drop(stream);
    until(async || is_dropped.load(Ordering::SeqCst)).await;
}

#[tokio::test]
async fn without_a_key_the_handler_reads_the_body_while_it_arrives() {
    let app = App::new(layer(HttpPolicy::ietf()), |received: Received| async {
        let echoed = received
            .payload
            .map(|piece| piece.map_err(actix_web::Error::from));
        HttpResponse::Ok().streaming(echoed)
    });
    let head = "transfer-encoding: chunked\r\n\r\n3\r\none\r\n";
    let mut stream = connect_with("", app.serve(), head).await;
    read_until(&mut stream, "3\r\none\r\n").await;
    stream.write_all(b"3\r\ntwo\r\n0\r\n\r\n").await.unwrap();
    read_until(&mut stream, "3\r\ntwo\r\n0\r\n\r\n").await;
}

#[tokio::test]
async fn a_client_that_disconnects_before_its_body_is_sent_leaves_nothing() {
    let app = App::counting(layer(HttpPolicy::ietf()));
    let address = app.serve();
    let stream = connect(address, "content-length: 2\r\n\r\n{").await;
    drop(stream);
    let answer = app.send(post("a", "[]")).await;
    assert_eq!(
        (answer.status, answer.text()),
        (StatusCode::CREATED, "run 1")
    );
}

#[tokio::test]
async fn a_body_that_breaks_off_at_once_still_has_a_head() {
    let app = App::new(layer(HttpPolicy::ietf()), |_| async {
        let broken = [Err::<Bytes, _>(std::io::Error::other("broken"))];
        HttpResponse::Ok().streaming(stream::iter(broken))
    });
    let mut stream = connect(app.serve(), "content-length: 2\r\n\r\n{}").await;
    let answer = read_to_end(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
}

/// Switches to a protocol that echoes.
async fn echo(received: Received) -> HttpResponse {
    let echoed = received
        .payload
        .map(|piece| piece.map_err(actix_web::Error::from));
    let mut response = HttpResponse::SwitchingProtocols();
    response.upgrade("websocket").streaming(echoed)
}

#[tokio::test]
async fn a_connection_is_upgraded_through_the_middleware() {
    let app = App::new(layer(HttpPolicy::ietf()), echo);
    let address = app.serve();
    let upgrade = format!("{UPGRADE}\r\n");
    for (runs, key) in ["", "idempotency-key: a\r\n", "idempotency-key: a\r\n"]
        .into_iter()
        .enumerate()
    {
        let mut stream = connect_with(key, address, &upgrade).await;
        let head = read_head(&mut stream).await;
        assert!(head.starts_with("HTTP/1.1 101"), "{head}");
        for _ in 0..2 {
            stream.write_all(b"ping").await.unwrap();
            read_until(&mut stream, "ping").await;
        }
        assert_eq!(app.runs(), runs + 1, "it was not sealed");
    }
}

/// Answers with the first piece of the payload, as a handler that reads while it arrives.
async fn first_piece(mut received: Received) -> String {
    let piece = received.payload.next().await;
    let piece = piece.map(|piece| piece.unwrap().to_vec());
    String::from_utf8(piece.unwrap_or_default()).unwrap()
}

const UPGRADE: &str = "connection: upgrade\r\nupgrade: websocket\r\n";

#[tokio::test]
async fn a_body_before_an_upgrade_is_refused() {
    let app = App::new(layer(HttpPolicy::ietf()), first_piece);
    let address = app.serve();
    for body in ["{}", "[]"] {
        let more = format!("{UPGRADE}content-length: 2\r\n\r\n{body}");
        let mut stream = connect(address, &more).await;
        let head = read_head(&mut stream).await;
        assert!(head.starts_with("HTTP/1.1 400"), "{head}");
    }
    assert_eq!(app.runs(), 0);
    // Without a key it is none of the layer's business.
    let more = format!("{UPGRADE}content-length: 2\r\n\r\n{{}}");
    let mut stream = connect_with("", address, &more).await;
    read_until(&mut stream, "\r\n\r\n{}").await;
}

#[tokio::test]
async fn what_follows_the_head_of_an_upgrade_is_no_body() {
    let app = App::new(layer(HttpPolicy::ietf()), first_piece);
    let address = app.serve();
    for length in ["", "content-length: 0\r\n"] {
        for follows in ["{}", "[]"] {
            let more = format!("{UPGRADE}{length}\r\n{follows}");
            let mut stream = connect(address, &more).await;
            let head = read_head(&mut stream).await;
            assert!(head.starts_with("HTTP/1.1 200"), "{head}");
            assert!(head.contains("content-length: 0"), "{head}");
        }
    }
}

#[tokio::test]
async fn a_key_or_a_call_beside_an_upgrade_is_not_passed_over() {
    let body =
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay"},"key":"a"}"#;
    let length = format!("content-length: {}\r\n", body.len());
    let calls = HttpPolicy::ietf().with_json_rpc(JsonRpc::new().with_required(["pay"]));
    let members = HttpPolicy::ietf().with_key_source(KeySource::member("/key"));
    for policy in [calls, members] {
        let app = App::new(layer(policy), first_piece);
        let address = app.serve();
        let more = format!("{UPGRADE}{length}\r\n{body}");
        let mut stream = connect_with("", address, &more).await;
        let head = read_head(&mut stream).await;
        assert!(head.starts_with("HTTP/1.1 400"), "{head}");
        assert_eq!(app.runs(), 0);
        let mut stream = connect_with("", address, &format!("{UPGRADE}\r\n{body}")).await;
        let head = read_head(&mut stream).await;
        assert!(head.contains("content-length: 0"), "no call: {head}");
    }
}

#[tokio::test]
async fn a_body_counts_beside_the_offer_of_an_upgrade() {
    let app = App::counting(layer(HttpPolicy::ietf()));
    let address = app.serve();
    let offer = "connection: upgrade\r\nupgrade: h2c\r\ncontent-length: 2\r\n\r\n";
    for (body, status) in [("{}", "201"), ("[]", "422")] {
        let mut stream = connect(address, &format!("{offer}{body}")).await;
        let head = read_head(&mut stream).await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{head}");
    }
}

#[tokio::test]
async fn events_arrive_while_the_stream_is_open() {
    let app = App::new(layer(HttpPolicy::ietf()), |_| async {
        let first = stream::iter([Ok::<_, std::io::Error>(Bytes::from("data: 1\n\n"))]);
        let open = first.chain(stream::pending());
        HttpResponse::Ok()
            .content_type("text/event-stream")
            .streaming(open)
    });
    let mut stream = connect(app.serve(), "content-length: 2\r\n\r\n{}").await;
    let answer = read_until(&mut stream, "data: 1\n\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}
