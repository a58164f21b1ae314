//! Errors of handlers and of the middleware inside.

use actix_web::error::{ErrorConflict, ErrorInternalServerError, InternalError};
use actix_web::middleware::{Next, from_fn};
use actix_web::{App as ActixApp, Error, HttpResponse, dev, test, web};
use http::StatusCode;
use idem_actix::IdempotencyMiddleware;
use idem_core::{Idempotency, MemoryStore};
use idem_http::HttpPolicy;

use crate::support::{App, layer, layer_on, post};

#[tokio::test]
async fn an_error_of_the_handler_is_its_response_and_stored_by_its_status() {
    let app = App::new(layer(HttpPolicy::ietf()), |_| async {
        Err::<HttpResponse, Error>(ErrorConflict("out of stock"))
    });
    for is_replayed in [false, true] {
        let answer = app.send(post("a", "{}")).await;
        assert_eq!(answer.status, StatusCode::CONFLICT);
        assert_eq!(answer.text(), "out of stock");
        assert_eq!(answer.is_replayed(), is_replayed);
    }
    assert_eq!(app.runs(), 1);
    let app = App::new(layer(HttpPolicy::ietf()), |_| async {
        Err::<HttpResponse, Error>(ErrorInternalServerError("the database is away"))
    });
    for runs in 1..3 {
        let answer = app.send(post("a", "{}")).await;
        assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
        assert!(!answer.is_replayed());
        assert_eq!(app.runs(), runs);
    }
}

/// A middleware that refuses, as authentication does.
async fn refuse(
    _: dev::ServiceRequest,
    _: Next<impl actix_web::body::MessageBody>,
) -> Result<dev::ServiceResponse, Error> {
    let mut response = HttpResponse::Forbidden();
    response.insert_header(("location", "/login"));
    let response = response.body("not you");
    Err(InternalError::from_response("refused inside", response).into())
}

#[actix_web::test]
async fn an_error_of_a_middleware_inside_stays_one_and_is_stored_by_its_status() {
    let middleware =
        IdempotencyMiddleware::from_layer(layer_on(Idempotency::new(MemoryStore::new())));
    let app = ActixApp::new()
        .wrap(from_fn(refuse))
        .wrap(middleware)
        .default_service(web::to(HttpResponse::Ok));
    let app = test::init_service(app).await;
    let request = || {
        let request = test::TestRequest::post().insert_header(("x-account", "a"));
        request.insert_header(("idempotency-key", "a")).to_request()
    };
    let error = test::try_call_service(&app, request()).await.unwrap_err();
    assert_eq!(error.to_string(), "refused inside", "for the log");
    let response = error.error_response();
    assert_eq!(response.status(), 403);
    let replay = test::call_service(&app, request()).await;
    assert_eq!(replay.status(), 403);
    assert_eq!(replay.headers().get("location").unwrap(), "/login");
    assert!(replay.headers().contains_key("idempotent-replayed"));
    assert_eq!(test::read_body(replay).await, "not you");
}
