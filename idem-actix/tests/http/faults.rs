//! Handlers that panic, bodies that break.

use actix_web::HttpResponse;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use idem_core::engine::InterruptPolicy;
use idem_core::{Idempotency, MemoryStore, Policy};
use idem_http::ProblemType;

use crate::loopback::{connect, read_to_end};
use crate::support::{App, layer_on, post};

/// An application whose handler panics.
fn panicking(idempotency: Idempotency) -> App {
    App::new(layer_on(idempotency), |_| async {
        if true {
            panic!("the handler's own words");
        }
    })
}

#[tokio::test]
async fn a_panic_reaches_the_caller_and_frees_the_key() {
    let app = panicking(Idempotency::new(MemoryStore::new()));
    for runs in 1..3 {
        assert_eq!(app.try_send(post("a", "{}")).await, None);
        assert_eq!(app.runs(), runs);
    }
    let mut stream = connect(app.serve(), "content-length: 2\r\n\r\n{}").await;
    let answer = read_to_end(&mut stream).await;
    assert_eq!(
        answer, "",
        "the connection closes, as without the middleware"
    );
}

#[tokio::test]
async fn a_panic_of_the_body_is_one_of_the_handler() {
    let policy = Policy::default().with_on_panic(InterruptPolicy::Record);
    let idempotency = Idempotency::new(MemoryStore::new()).with_policy(policy);
    let app = App::new(layer_on(idempotency), |_| async {
        let pieces = stream::iter([1, 2]).then(async |piece| match piece {
            1 => Ok::<_, std::io::Error>(Bytes::from("begun ")),
            _ => panic!("the body's own words"),
        });
        HttpResponse::Ok().streaming(pieces)
    });
    assert_eq!(app.try_send(post("a", "{}")).await, None);
    let retry = app.send(post("a", "{}")).await;
    retry.problem(ProblemType::OutcomeUnknown);
    assert_eq!(app.runs(), 1);
}

fn broken() -> HttpResponse {
    let pieces = [
        Ok(Bytes::from("begun ")),
        Err(std::io::Error::other("broken")),
    ];
    HttpResponse::Ok().streaming(stream::iter(pieces))
}

#[tokio::test]
async fn a_response_that_breaks_off_does_so_for_its_caller_and_frees_the_key() {
    let app = App::new(layer_on(Idempotency::new(MemoryStore::new())), |_| async {
        broken()
    });
    let address = app.serve();
    for runs in 1..3 {
        let mut stream = connect(address, "content-length: 2\r\n\r\n{}").await;
        let answer = read_to_end(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        assert!(answer.contains("begun "), "{answer}");
        assert!(!answer.ends_with("0\r\n\r\n"), "it seems whole: {answer}");
        assert_eq!(app.runs(), runs);
    }
}
