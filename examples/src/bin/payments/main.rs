//! A payments endpoint like Stripe's: the payment and its record are one transaction, and the
//! provider is called with a derived key. Customers send until they get an answer, while the server
//! is killed repeatedly.

mod customer;
mod gateway;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::post;
use axum::{Extension, Json, Router};
use clap::Parser;
use futures_util::{StreamExt, TryStreamExt, stream};
use idem_core::{BoxError, Idempotency, Policy, Response, Work};
use idem_examples::crew::Crew;
use idem_http::{HttpPolicy, IdempotencyLayer};
use idem_storm::effects::{Effects, StoreArgs};
use idem_storm::report::{Report, exit};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::time::sleep;

use customer::{Customer, Story};
use gateway::{Gateway, charge};

/// Pays, with retries, while the server is killed, and checks that every customer was charged once.
///
/// Exit status 0: all were; 1: some were not; 2: the run could not be made.
#[derive(Debug, Parser)]
#[command(name = "payments", version, max_term_width = 100)]
struct Args {
    #[command(flatten)]
    store: StoreArgs,

    /// Number of payments
    #[arg(long, value_name = "N", default_value_t = 200)]
    payments: u64,

    /// How often the server is killed
    #[arg(long, value_name = "N", default_value_t = 5)]
    kills: u64,

    /// For the server: its address
    #[arg(long, hide = true)]
    serve: Option<SocketAddr>,

    /// For the server: the payment provider
    #[arg(long, hide = true, default_value = "")]
    gateway: String,
}

/// How often each payment is sent at the same time.
const SENDINGS: usize = 3;

/// A customer's request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Order {
    /// The amount in cents.
    amount: u64,
    currency: String,
}

/// The answer to a customer.
#[derive(Debug, Serialize)]
struct Payment {
    /// The provider's number of the charge.
    charge: String,
    amount: u64,
}

/// The state that the handlers share.
struct Shop {
    effects: Effects,
    gateway: String,
}

/// `POST /payments`: charges, then commits the payment together with the answer for every
/// repetition.
async fn pay(
    State(shop): State<Arc<Shop>>,
    Extension(work): Extension<Work>,
    Json(order): Json<Order>,
) -> Result<impl IntoResponse, (StatusCode, String)> {
    let failed = |error: BoxError| (StatusCode::BAD_GATEWAY, error.to_string());
    let charge = charge(&shop.gateway, &work.derive("gateway"), &order).await;
    let payment = Payment {
        charge: charge.map_err(failed)?,
        amount: order.amount,
    };
    let body = serde_json::to_vec(&payment).map_err(|error| failed(error.into()))?;
    let response = Response::new(201, body).with_header("content-type", "application/json");
    let committed = shop.effects.commit(&work, work.key().id(), response).await;
    committed.map_err(failed)?;
    Ok((StatusCode::CREATED, Json(payment)))
}

/// The server: one layer, one route.
async fn serve(address: SocketAddr, effects: Effects, gateway: String) -> Result<(), BoxError> {
    // Retries wait this long for a killed server's claim.
    let policy = Policy::default().with_lease(Duration::from_millis(500));
    let idem = Idempotency::new(effects.store()).with_policy(policy);
    let layer = IdempotencyLayer::new(idem, |parts: &Parts| {
        // Replaces a lookup of the API key.
        let token = parts.headers.get(header::AUTHORIZATION)?.to_str().ok()?;
        token.strip_prefix("Bearer ").map(str::to_owned)
    });
    let policy = HttpPolicy::ietf().with_operation("payments.create");
    let shop = Arc::new(Shop { effects, gateway });
    let router = Router::new().route("/payments", post(pay).layer(layer.with_policy(policy)));
    let listener = TcpListener::bind(address).await?;
    Ok(axum::serve(listener, router.with_state(shop)).await?)
}

fn key(number: u64) -> String {
    format!("\"payment-{number}\"")
}

fn order(number: u64) -> Order {
    Order {
        amount: 1_000 + number,
        currency: "EUR".to_owned(),
    }
}

/// Sends all payments, each several times at once. Returns the answers to each.
async fn storm(customer: Customer, payments: u64) -> Result<Vec<Vec<Story>>, BoxError> {
    let sendings = (0..payments).flat_map(|number| [number; SENDINGS]);
    let pay = |number| customer.pay(key(number), order(number));
    let stories = stream::iter(sendings).map(pay).buffered(16);
    let stories = stories.try_chunks(SENDINGS).try_collect().await;
    stories.map_err(|error| error.1)
}

/// Checks that every customer was charged once, has one payment, and got the same answer each time.
async fn judge(
    report: &mut Report,
    args: &Args,
    effects: &Effects,
    gateway: &Gateway,
    stories: &[Vec<Story>],
) -> Result<(), BoxError> {
    let mut charged: Vec<u64> = gateway.charges().iter().map(|order| order.amount).collect();
    charged.sort_unstable();
    let paid = effects.all().await?;
    let payments: BTreeSet<&String> = paid.iter().collect();
    report.count("charges", charged.len() as u64, "");
    report.count("payments", paid.len() as u64, "");
    let all = || stories.iter().flatten();
    let replays = all().filter(|story| story.is_replay).count();
    report.count("replays", replays as u64, "the stored answer");
    let unanswered = all().map(|story| story.unanswered).sum();
    report.count("unanswered", unanswered, "sent again");
    let busy = all().map(|story| story.busy).sum();
    report.count("busy", busy, "409, sent again");

    let expected = (0..args.payments).map(|number| order(number).amount);
    report.check(
        charged.into_iter().eq(expected),
        "the charges differ from the orders",
    );
    let is_once = payments.len() == paid.len() && paid.len() as u64 == args.payments;
    report.check(is_once, "the payments differ from the orders");
    let is_same =
        |returned: &Vec<Story>| returned.iter().all(|one| one.answer == returned[0].answer);
    report.check(stories.iter().all(is_same), "a payment has two answers");
    Ok(())
}

async fn run(args: Args) -> Result<bool, BoxError> {
    let effects = args.store.open("payments").await?;
    if let Some(address) = args.serve {
        serve(address, effects, args.gateway).await?;
        return Ok(true);
    }
    let gateway = Gateway::start().await?;
    // The listener is gone by the time the server needs its port.
    let address = TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
    let mut process = effects.process()?;
    process.args(["--serve", &address.to_string()]);
    process.args(["--gateway", &gateway.url]);
    let mut server = Crew::start(1, process)?;
    server.until_up(address).await?;
    let customer = Customer::new(address);
    let mut report = Report::new(format!(
        "{}, {} payments, each sent {SENDINGS} times at once",
        effects.product().await?,
        args.payments
    ));

    let storm = tokio::spawn(storm(customer.clone(), args.payments));
    while server.killed < args.kills && !storm.is_finished() {
        sleep(Duration::from_millis(120)).await;
        server.kill_one().await?;
        server.until_up(address).await?;
    }
    let stories = storm.await??;
    report.count("kills", server.killed, "of the server, kill -9");
    judge(&mut report, &args, &effects, &gateway, &stories).await?;
    let reused = customer.send(&key(0), &order(99_999)).await?;
    let status = reused.map_or(0, |response| response.status().as_u16());
    report.count("reuse", status.into(), "the same key for another amount");
    report.check(status == 422, "a reused key was not refused");
    server.dismiss().await;
    effects.remove().await?;
    Ok(report.print(
        "Everybody was charged exactly once.",
        "Not everybody was charged exactly once.",
    ))
}

#[tokio::main]
async fn main() -> ExitCode {
    exit("payments", run(Args::parse()).await)
}
