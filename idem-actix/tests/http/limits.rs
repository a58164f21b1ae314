//! Bodies over a limit.

use actix_web::dev::{Payload, Service};
use actix_web::error::PayloadError;
use actix_web::{App as ActixApp, HttpResponse, test, web};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::StatusCode;
use idem_actix::IdempotencyMiddleware;
use idem_http::{HttpPolicy, IdempotencyLayer, ProblemType};

use crate::loopback::{connect, read_head};
use crate::support::{App, Received, layer, post, send_to};

fn small() -> HttpPolicy {
    HttpPolicy::ietf()
        .with_max_request_bytes(8)
        .with_max_response_bytes(8)
}

#[tokio::test]
async fn a_request_over_the_limit_is_refused_and_nothing_runs() {
    let app = App::counting(layer(small()));
    let fits = app.send(post("fits", "[123456]")).await;
    assert_eq!(fits.status, StatusCode::CREATED);
    let answer = app.send(post("a", "[1234567]")).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    answer.problem(ProblemType::RequestTooLarge);
    // It is not waited for: no byte of the body is sent.
    let announced = "content-length: 9\r\n\r\n";
    let mut stream = connect(app.serve(), announced).await;
    let head = read_head(&mut stream).await;
    assert!(head.starts_with("HTTP/1.1 413"), "{head}");
    let chunked = "transfer-encoding: chunked\r\n\r\n9\r\n[1234567]\r\n";
    let mut stream = connect(app.serve(), chunked).await;
    let head = read_head(&mut stream).await;
    assert!(head.starts_with("HTTP/1.1 413"), "{head}");
    assert_eq!(app.runs(), 1);
}

#[actix_web::test]
async fn a_request_body_that_breaks_off_is_refused_and_nothing_runs() {
    // Actix closes the connection by itself, so the body breaks off in a middleware outside.
    let app = ActixApp::new()
        .default_service(web::to(async || -> &str {
            unreachable!("it must not run")
        }))
        .wrap(IdempotencyMiddleware::from_layer(layer(HttpPolicy::ietf())))
        .wrap_fn(|mut request, next| {
            let pieces = [Ok(Bytes::from("{")), Err(PayloadError::Incomplete(None))];
            let payload = Box::pin(stream::iter(pieces));
            request.set_payload(Payload::Stream { payload });
            next.call(request)
        });
    let app = test::init_service(app).await;
    let request = test::TestRequest::post().insert_header(("x-account", "a"));
    let request = request.insert_header(("idempotency-key", "a"));
    let refused = test::call_service(&app, request.to_request()).await;
    assert_eq!(refused.status(), 400);
    let problem = *refused
        .response()
        .extensions()
        .get::<ProblemType>()
        .unwrap();
    assert_eq!(problem, ProblemType::RequestUnreadable);
}

#[tokio::test]
async fn the_handler_gets_the_bytes_of_the_request() {
    let app = App::new(layer(HttpPolicy::ietf()), |received: Received| async {
        let body = received.payload.to_bytes().await.unwrap();
        String::from_utf8(body.into()).unwrap()
    });
    let chunked = "transfer-encoding: chunked\r\n\r\n4\r\n{ \"a\r\n6\r\n\": 1 }\r\n0\r\n\r\n";
    let mut stream = connect(app.serve(), chunked).await;
    let answer = crate::loopback::read_until(&mut stream, "{ \"a\": 1 }").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(app.send(post("b", "")).await.text(), "");
}

/// A service that answers with these chunks.
fn answering(layer: IdempotencyLayer, chunks: &'static [&'static str], is_sized: bool) -> App {
    App::new(layer, move |_| async move {
        if is_sized {
            return HttpResponse::Ok().body(chunks.concat());
        }
        let chunks = stream::iter(chunks).map(|chunk| Ok::<_, std::io::Error>(Bytes::from(*chunk)));
        HttpResponse::Ok().streaming(chunks)
    })
}

#[tokio::test]
async fn a_response_over_the_limit_reaches_its_caller_and_is_never_made_again() {
    for is_sized in [true, false] {
        let app = answering(layer(small()), &["1234", "5678", "9"], is_sized);
        let first = app.send(post("a", "{}")).await;
        assert_eq!((first.status, first.text()), (StatusCode::OK, "123456789"));
        for _ in 0..2 {
            let again = app.send(post("a", "{}")).await;
            assert_eq!(again.status, StatusCode::GONE);
            again.problem(ProblemType::ResponseNotStored);
            assert!(again.is_replayed() && again.header("idempotency-first-answered").is_some());
        }
        let other = app.send(post("a", "[]")).await;
        other.problem(ProblemType::KeyReused);
        assert_eq!(app.runs(), 1);
    }
}

#[tokio::test]
async fn a_response_at_the_limit_is_stored() {
    for is_sized in [true, false] {
        let app = answering(layer(small()), &["1234", "5678"], is_sized);
        let first = send_to(app.serve(), post("a", "{}")).await.unwrap();
        let retry = app.send(post("a", "{}")).await;
        assert!(retry.is_replayed());
        assert_eq!((retry.status, retry.text()), (StatusCode::OK, first.text()));
    }
}
