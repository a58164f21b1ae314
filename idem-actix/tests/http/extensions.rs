//! What actix keeps beside a request: extensions, and the request itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use actix_web::dev::{Service, ServiceRequest};
use actix_web::{App as ActixApp, HttpMessage, HttpRequest, HttpResponse, test, web};
use http::HeaderValue;
use idem_actix::{IdempotencyMiddleware, RequestScope};
use idem_core::{Idempotency, MemoryStore, Work};
use idem_http::{HttpPolicy, ProblemType, ScopeError};

use crate::support::{App, Received, layer, post, without};

#[derive(Clone)]
struct Account(String);

fn account(request: &ServiceRequest) -> Option<String> {
    let extensions = request.extensions();
    extensions.get().map(|Account(name)| name.clone())
}

#[actix_web::test]
async fn the_scope_is_what_the_authentication_left_in_the_extensions() {
    let runs = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&runs);
    let handler = move |account: web::ReqData<Account>, _: web::ReqData<Work>| {
        let run = count.fetch_add(1, Ordering::SeqCst) + 1;
        async move { format!("{} {run}", account.0) }
    };
    let app = ActixApp::new()
        .route("/orders", web::post().to(handler))
        .wrap(IdempotencyMiddleware::new(
            Idempotency::new(MemoryStore::new()),
            account,
        ))
        .wrap_fn(|request, next| {
            let token = request.headers().get("authorization");
            let account = token.map(|token| Account(token.to_str().unwrap().to_owned()));
            if let Some(account) = account {
                request.extensions_mut().insert(account);
            }
            next.call(request)
        });
    let app = test::init_service(app).await;
    for (token, expected) in [("a", "a 1"), ("b", "b 2"), ("a", "a 1"), ("b", "b 2")] {
        let request = test::TestRequest::post()
            .uri("/orders")
            .insert_header(("authorization", token))
            .insert_header(("idempotency-key", "k"));
        let answer = test::call_and_read_body(&app, request.to_request()).await;
        assert_eq!(answer, expected);
    }
    let unknown = test::TestRequest::post().insert_header(("idempotency-key", "k"));
    let refused = test::call_service(&app, unknown.to_request()).await;
    assert_eq!(refused.status(), 403);
    let problem = *refused
        .response()
        .extensions()
        .get::<ProblemType>()
        .unwrap();
    assert_eq!(problem, ProblemType::ScopeUnknown);
}

struct Refusing(ScopeError);

impl RequestScope for Refusing {
    fn scope(&self, _: &ServiceRequest) -> Result<String, ScopeError> {
        Err(self.0.clone())
    }
}

#[tokio::test]
async fn an_extractor_can_refuse_in_each_way() {
    let challenge = HeaderValue::from_static("Basic realm=\"api\"");
    for (error, status) in [
        (ScopeError::Unknown, 403),
        (ScopeError::Unauthenticated(challenge), 401),
        (ScopeError::Misconfigured, 500),
    ] {
        let idempotency = Idempotency::new(MemoryStore::new());
        let app = App::counting_of(IdempotencyMiddleware::new(idempotency, Refusing(error)));
        let answer = app.send(post("a", "{}")).await;
        assert_eq!(answer.status, status);
        let challenge = (status == 401).then_some("Basic realm=\"api\"");
        assert_eq!(answer.header("www-authenticate"), challenge);
        assert_eq!(app.runs(), 0);
        let keyless = without(post("a", "{}"), "idempotency-key");
        assert_eq!(app.send(keyless).await.status, 201, "it needs no scope");
    }
}

#[derive(Clone, Copy)]
struct Note(u8);

#[actix_web::test]
async fn extensions_and_path_parameters_survive_in_both_directions() {
    let layer = crate::support::layer_on(Idempotency::new(MemoryStore::new()));
    let handler = async |request: HttpRequest, id: web::Path<u32>| {
        assert_eq!(request.extensions().get().map(|Note(note)| *note), Some(1));
        let mut response = HttpResponse::Ok().body(id.to_string());
        response.extensions_mut().insert(Note(2));
        response
    };
    let app = ActixApp::new()
        .service(web::scope("/v1").route("/orders/{id}", web::put().to(handler)))
        .wrap(IdempotencyMiddleware::from_layer(layer))
        .wrap_fn(|request, next| {
            request.extensions_mut().insert(Note(1));
            let answering = next.call(request);
            async move {
                let answered = answering.await?;
                let is_first = !answered.headers().contains_key("idempotent-replayed");
                let note = answered
                    .response()
                    .extensions()
                    .get()
                    .map(|Note(note)| *note);
                assert_eq!(note, is_first.then_some(2));
                let request = answered.request();
                assert_eq!(request.match_pattern().as_deref(), Some("/v1/orders/{id}"));
                Ok(answered)
            }
        });
    let app = test::init_service(app).await;
    for _ in 0..2 {
        let request = test::TestRequest::put()
            .uri("/v1/orders/7")
            .insert_header(("x-account", "a"))
            .insert_header(("idempotency-key", "k"));
        let answer = test::call_and_read_body(&app, request.to_request()).await;
        assert_eq!(answer, "7");
    }
}

#[tokio::test]
async fn the_handler_finds_its_run_in_the_request() {
    let app = App::new(layer(HttpPolicy::ietf()), |received: Received| async move {
        let extensions = received.request.extensions();
        let work = extensions.get::<Work>().unwrap();
        assert!(!work.is_lost() && work.attempts() == 1);
        format!("{} {}", work.key().id(), work.derive("bank").id())
    });
    let answer = app.send(post("k-1", "{}")).await;
    assert!(answer.text().starts_with("k-1 d1:"), "{}", answer.text());
}
