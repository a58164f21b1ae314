//! Policies by route.

use std::sync::Arc;

use actix_web::{App as ActixApp, test, web};
use http::StatusCode;
use idem_actix::IdempotencyMiddleware;
use idem_core::{Idempotency, IdempotencyStore, Key, MemoryStore};
use idem_http::{HttpPolicy, ProblemType, Requirement};

use crate::support::{App, layer_on, request};

#[actix_web::test]
async fn each_resource_can_have_a_middleware_of_its_own() {
    let layer = layer_on(Idempotency::new(MemoryStore::new()));
    let middleware = IdempotencyMiddleware::from_layer(layer);
    let required = HttpPolicy::ietf().with_requirement(Requirement::Required);
    let off = HttpPolicy::ietf().with_requirement(Requirement::Off);
    let resource = |path, policy| {
        let own = middleware.clone().with_policy(policy);
        web::resource(path)
            .wrap(own)
            .route(web::post().to(async || "done"))
    };
    let app = ActixApp::new()
        .service(resource("/payments", required))
        .service(resource("/logs", off))
        .service(web::scope("/v1").service(resource("/orders", HttpPolicy::ietf())));
    let app = test::init_service(app).await;
    for (path, keyed, keyless) in [
        ("/payments", true, 400),
        ("/logs", false, 200),
        ("/v1/orders", true, 200),
    ] {
        let post = || {
            test::TestRequest::post()
                .uri(path)
                .insert_header(("x-account", "a"))
        };
        let answer = test::call_service(&app, post().to_request()).await;
        assert_eq!(answer.status().as_u16(), keyless, "{path}");
        let mut last = None;
        for _ in 0..2 {
            let request = post().insert_header(("idempotency-key", path)).to_request();
            last = Some(test::call_service(&app, request).await);
        }
        let headers = last.unwrap().headers().clone();
        assert_eq!(headers.contains_key("idempotent-replayed"), keyed, "{path}");
    }
}

#[tokio::test]
async fn one_middleware_can_choose_the_policy_by_request() {
    let payments = Arc::new(
        HttpPolicy::ietf()
            .with_status(ProblemType::KeyReused, StatusCode::BAD_REQUEST)
            .with_operation("payments.create"),
    );
    let store = Arc::new(MemoryStore::new());
    let layer = layer_on(Idempotency::new(Arc::clone(&store)));
    let middleware = IdempotencyMiddleware::from_layer(layer).with_policy_by(move |parts| {
        let is_payment = parts.uri.path().starts_with("/payments");
        is_payment.then(|| Arc::clone(&payments))
    });
    let app = App::counting_of(middleware);
    for path in ["/payments", "/orders"] {
        app.send(request("POST", path, "k", "{}")).await;
    }
    for (path, status) in [
        ("/payments", StatusCode::BAD_REQUEST),
        ("/orders", StatusCode::UNPROCESSABLE_ENTITY),
    ] {
        let answer = app.send(request("POST", path, "k", "[]")).await;
        answer.problem(ProblemType::KeyReused);
        assert_eq!(answer.status, status);
    }
    for operation in ["payments.create", "http"] {
        let key = Key::new("a", operation, "k").unwrap();
        assert!(store.get(&key).await.unwrap().is_some(), "{operation}");
    }
}
