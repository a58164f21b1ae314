//! Payments that are made once, however often they are sent.
//!
//! ```sh
//! cargo run -p idem-actix --example actix
//! curl -i localhost:3000/payments -H 'authorization: Bearer token-of-alice' \
//!   -H 'idempotency-key: "8e03978e-40d5"' --json '{"amount": 1250}'
//! ```
//!
//! The second `curl` gets the first one's answer, with `idempotent-replayed: true`.

#![allow(
    clippy::future_not_send,
    reason = "actix runs each request on one thread"
)]

use std::sync::atomic::{AtomicU64, Ordering};

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::error::ErrorUnauthorized;
use actix_web::http::header::{AUTHORIZATION, LOCATION};
use actix_web::middleware::{Next, from_fn};
use actix_web::{App, Error, HttpMessage, HttpResponse, HttpServer, Responder, web};
use idem_actix::IdempotencyMiddleware;
use idem_core::{Idempotency, MemoryStore, Work};
use idem_http::{HttpPolicy, Requirement};
use serde_json::{Value, json};

/// The authenticated account.
#[derive(Clone)]
struct Account(&'static str);

/// Runs outside the idempotency middleware, so that only authenticated requests reach it.
async fn authenticate(
    request: ServiceRequest,
    next: Next<impl MessageBody>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    let token = request.headers().get(AUTHORIZATION);
    let account = match token.map(|token| token.as_bytes()) {
        Some(b"Bearer token-of-alice") => "alice",
        Some(b"Bearer token-of-bob") => "bob",
        _ => return Err(ErrorUnauthorized("send a token")),
    };
    request.extensions_mut().insert(Account(account));
    next.call(request).await
}

/// The scope of keys comes from the authentication, never from what the client sends.
fn account(request: &ServiceRequest) -> Option<String> {
    let extensions = request.extensions();
    extensions.get().map(|Account(name)| (*name).to_owned())
}

/// Makes a payment with a new number at each call.
async fn pay(
    numbers: web::Data<AtomicU64>,
    work: web::ReqData<Work>,
    order: web::Json<Value>,
) -> impl Responder {
    let _for_the_bank = work.derive("bank"); // the same at every attempt
    let payment = numbers.fetch_add(1, Ordering::SeqCst) + 1;
    HttpResponse::Created()
        .insert_header((LOCATION, format!("/payments/{payment}")))
        .json(json!({ "payment": payment, "amount": order["amount"] }))
}

#[actix_web::main]
async fn main() -> std::io::Result<()> {
    let idempotency = Idempotency::new(MemoryStore::new()); // or PostgresStore, MySqlStore, …
    let policy = HttpPolicy::ietf()
        .with_operation("payments.create")
        .with_requirement(Requirement::Required);
    let keys = IdempotencyMiddleware::new(idempotency, account).with_policy(policy);
    let numbers = web::Data::new(AtomicU64::new(0));
    let app = move || {
        let payments = web::resource("/payments").route(web::post().to(pay));
        App::new()
            .app_data(numbers.clone())
            .service(payments.wrap(keys.clone()))
            .wrap(from_fn(authenticate))
    };
    println!("listening on http://127.0.0.1:3000");
    HttpServer::new(app).bind(("127.0.0.1", 3000))?.run().await
}
