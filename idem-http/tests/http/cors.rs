//! Behind `tower-http`'s CORS layer, as the README sets it up.

use axum::body::Body;
use axum::extract::Request;
use http::header::{CONTENT_TYPE, ORIGIN, RETRY_AFTER};
use http::{HeaderName, Method};
use idem_http::{FIRST_ANSWERED, HttpPolicy, IDEMPOTENCY_KEY, IDEMPOTENT_REPLAYED};
use tower_http::cors::{AllowOrigin, CorsLayer};

use crate::support::{App, layer, post, with};

fn app() -> App {
    let cors = CorsLayer::new()
        .allow_origin(AllowOrigin::exact("https://shop.example".parse().unwrap()))
        .allow_methods([Method::POST])
        .allow_headers([CONTENT_TYPE, IDEMPOTENCY_KEY])
        .expose_headers([IDEMPOTENT_REPLAYED, FIRST_ANSWERED, RETRY_AFTER]);
    let mut app = App::counting(layer(HttpPolicy::ietf()));
    app.router = app.router.layer(cors);
    app
}

#[tokio::test]
async fn a_browser_may_send_the_key_and_read_the_markers() {
    let app = app();
    let preflight = Request::builder()
        .method(Method::OPTIONS)
        .uri("/orders")
        .header(ORIGIN, "https://shop.example")
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "idempotency-key")
        .body(Body::empty())
        .unwrap();
    let allowed = app.send(preflight).await;
    let headers = allowed.header("access-control-allow-headers").unwrap();
    assert!(headers.contains("idempotency-key"), "{headers}");
    assert_eq!(app.runs(), 0);
    for is_replayed in [false, true] {
        let answer = app
            .send(with(post("k", "{}"), "origin", "https://shop.example"))
            .await;
        assert_eq!(answer.is_replayed(), is_replayed);
        let exposed = answer.header("access-control-expose-headers").unwrap();
        for name in [IDEMPOTENT_REPLAYED, FIRST_ANSWERED, RETRY_AFTER] {
            assert!(exposed.contains(name.as_str()), "{exposed}");
        }
    }
}

#[tokio::test]
async fn a_refusal_is_readable_for_a_browser_and_a_replay_repeats_no_origin() {
    let app = app();
    let send = |body, origin| app.send(with(post("k", body), "origin", origin));
    send("{}", "https://shop.example").await;
    let refused = send("[]", "https://shop.example").await;
    let origin = HeaderName::from_static("access-control-allow-origin");
    assert_eq!(
        refused.header(origin.as_str()),
        Some("https://shop.example")
    );
    let replay = send("{}", "https://elsewhere.example").await;
    assert!(replay.is_replayed());
    assert_eq!(replay.headers.get_all(origin).iter().count(), 1);
}
