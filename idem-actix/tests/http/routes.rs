//! Policies by route.

use std::sync::Arc;

use actix_web::{App as ActixApp, test, web};
use idem_actix::IdempotencyMiddleware;
use idem_core::{Idempotency, MemoryStore};
use idem_http::{HttpPolicy, Requirement};

use crate::support::layer_on;

#[actix_web::test]
async fn each_resource_can_have_a_middleware_of_its_own() {
    let layer = layer_on(Idempotency::new(MemoryStore::new()));
    let middleware = IdempotencyMiddleware::from_layer(layer);
    let required = HttpPolicy::ietf().with_requirement(Requirement::Required);
    let off = HttpPolicy::ietf().with_requirement(Requirement::Off);
    let chosen = Arc::new(required.clone());
    let by_path = middleware.clone().with_policy_by(move |parts| {
        let is_refund = parts.uri.path() == "/refunds";
        is_refund.then(|| Arc::clone(&chosen))
    });
    let resource = |path, policy| {
        let own = match policy {
            Some(policy) => middleware.clone().with_policy(policy),
            None => by_path.clone(),
        };
        web::resource(path)
            .wrap(own)
            .route(web::post().to(async || "done"))
    };
    let app = ActixApp::new()
        .service(resource("/payments", Some(required)))
        .service(resource("/logs", Some(off)))
        .service(resource("/refunds", None))
        .service(web::scope("/v1").service(resource("/orders", None)));
    let app = test::init_service(app).await;
    for (path, keyed, keyless) in [
        ("/payments", true, 400),
        ("/logs", false, 200),
        ("/refunds", true, 400),
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
