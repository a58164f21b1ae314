//! A payments endpoint like Stripe's: the payment and its record are one transaction, and the
//! provider is called with a derived key. Customers send until they get an answer, while the server
//! is killed repeatedly.
//!
//! ```console
//! $ cargo run -p idem-examples --bin payments
//! ```

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::post;
use axum::{Extension, Json, Router};
use clap::Parser;
use idem_core::{BoxError, Idempotency, Policy, Response, Work};
use idem_examples::effects::Effects;
use idem_examples::payments::{Customer, Gateway, Order, Payment, Server, Story, charge};
use idem_http::{HttpPolicy, IdempotencyLayer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Pays, with retries, while the server is killed, and checks that every customer was charged once.
///
/// Exit status 0: all were; 1: some were not; 2: the run could not be made.
#[derive(Debug, Clone, Parser)]
#[command(name = "payments", version, max_term_width = 100)]
struct Args {
    /// Where records and payments are stored: the URLs of `storm`. Default: a SQLite file in a
    /// temporary folder
    #[arg(long, value_name = "URL")]
    store: Option<String>,

    /// Number of payments
    #[arg(long, value_name = "N", default_value_t = 200)]
    payments: u64,

    /// How often each payment is sent at the same time
    #[arg(long, value_name = "N", default_value_t = 3)]
    sendings: u32,

    /// How often the server is killed
    #[arg(long, value_name = "N", default_value_t = 5)]
    kills: u32,

    /// For the server: its address
    #[arg(long, hide = true)]
    serve: Option<SocketAddr>,

    /// For the server: the tables
    #[arg(long, hide = true, default_value = "")]
    namespace: String,

    /// For the server: the payment provider
    #[arg(long, hide = true, default_value = "")]
    gateway: String,
}

/// The state that the handlers share.
#[derive(Debug)]
struct Shop {
    effects: Effects,
    gateway: String,
}

type Refused = (StatusCode, String);

/// `POST /payments`: charges, then commits the payment together with the answer for every
/// repetition.
async fn pay(
    State(shop): State<Arc<Shop>>,
    Extension(work): Extension<Work>,
    Json(order): Json<Order>,
) -> Result<impl IntoResponse, Refused> {
    let failed = |error: BoxError| (StatusCode::BAD_GATEWAY, error.to_string());
    let charge = charge(&shop.gateway, &work.derive("gateway"), &order).await;
    let payment = Payment {
        charge: charge.map_err(failed)?,
        amount: order.amount,
    };
    let body = serde_json::to_vec(&payment).map_err(|error| failed(error.into()))?;
    let response = Response::new(201, body.clone()).with_header("content-type", "application/json");
    let committed = shop
        .effects
        .commit(&work, work.key().id(), &payment.charge, response);
    committed.await.map_err(failed)?;
    let headers = [(header::CONTENT_TYPE, "application/json")];
    Ok((StatusCode::CREATED, headers, body))
}

/// The server: one layer, one route.
async fn serve(address: SocketAddr, args: &Args) -> Result<(), BoxError> {
    let url = args.store.as_deref().unwrap_or_default();
    let effects = Effects::join(url, &args.namespace).await?;
    // Retries wait this long for a killed server's claim.
    let policy = Policy::default().with_lease(Duration::from_millis(500));
    let idem = Idempotency::new(effects.store()).with_policy(policy);
    let layer = IdempotencyLayer::new(idem, |parts: &axum::http::request::Parts| {
        // Replaces a lookup of the API key.
        let token = parts.headers.get(header::AUTHORIZATION)?.to_str().ok()?;
        token.strip_prefix("Bearer ").map(str::to_owned)
    });
    let policy = HttpPolicy::stripe().with_operation("payments.create");
    let shop = Arc::new(Shop {
        effects,
        gateway: args.gateway.clone(),
    });
    let router = Router::new().route("/payments", post(pay).layer(layer.with_policy(policy)));
    let listener = TcpListener::bind(address).await?;
    Ok(axum::serve(listener, router.with_state(shop)).await?)
}

/// Sends all payments, each several times at once. Returns the answers, by key.
async fn storm(customer: Customer, args: &Args) -> Result<BTreeMap<u64, Vec<Story>>, BoxError> {
    let permits = Arc::new(Semaphore::new(16));
    let mut paying = JoinSet::new();
    for number in (0..args.payments).flat_map(|number| (0..args.sendings).map(move |_| number)) {
        let permit = Arc::clone(&permits).acquire_owned().await?;
        let customer = customer.clone();
        paying.spawn(async move {
            let story = customer.pay(&key(number), &order(number)).await;
            drop(permit);
            Ok::<_, BoxError>((number, story?))
        });
    }
    let mut stories: BTreeMap<u64, Vec<Story>> = BTreeMap::new();
    while let Some(paid) = paying.join_next().await {
        let (number, story) = paid??;
        stories.entry(number).or_default().push(story);
    }
    Ok(stories)
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

/// Checks that every customer was charged once, has one payment, and got the same answer each time.
async fn judge(
    args: &Args,
    effects: &Effects,
    gateway: &Gateway,
    stories: &BTreeMap<u64, Vec<Story>>,
) -> Result<bool, BoxError> {
    let mut charged: Vec<u64> = gateway.charges().iter().map(|order| order.amount).collect();
    charged.sort_unstable();
    let expected: Vec<u64> = (0..args.payments)
        .map(|number| order(number).amount)
        .collect();
    let mut paid: Vec<String> = effects
        .all()
        .await?
        .into_iter()
        .map(|effect| effect.id)
        .collect();
    paid.sort_unstable();
    let rows = paid.len();
    paid.dedup();
    let all = || stories.values().flatten();
    let same = stories.values().all(|returned| {
        returned
            .iter()
            .all(|story| story.answer == returned[0].answer)
    });
    println!("  charges     {:>6}", charged.len());
    println!("  payments    {rows:>6}");
    println!(
        "  replays     {:>6}  the stored answer",
        all().filter(|story| story.is_replay).count()
    );
    println!(
        "  unanswered  {:>6}  sent again",
        all().map(|story| story.unanswered).sum::<u32>()
    );
    println!(
        "  busy        {:>6}  409, sent again",
        all().map(|story| story.busy).sum::<u32>()
    );
    Ok(charged == expected && rows == expected.len() && paid.len() == rows && same)
}

async fn run(args: Args) -> Result<ExitCode, BoxError> {
    if let Some(address) = args.serve {
        serve(address, &args).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let effects = Effects::create(args.store.as_deref(), "payments").await?;
    let gateway = Gateway::start().await?;
    let arguments = ["--store", effects.url(), "--namespace", effects.namespace()];
    let mut arguments: Vec<String> = arguments.map(str::to_owned).into();
    arguments.extend(["--gateway".to_owned(), gateway.url()]);
    let mut server = Server::start(arguments).await?;
    let customer = Customer::new(server.address());
    println!(
        "{}, {} payments, each sent {} times at once\n",
        effects.product().await?,
        args.payments,
        args.sendings
    );

    let (paying, orders) = (customer.clone(), args.clone());
    let storm = tokio::spawn(async move { storm(paying, &orders).await });
    let mut kills = 0;
    while kills < args.kills && !storm.is_finished() {
        tokio::time::sleep(Duration::from_millis(120)).await;
        server.kill_and_restart().await?;
        kills += 1;
    }
    let stories = storm.await??;
    println!("  kills       {kills:>6}  of the server, kill -9");
    let mut as_expected = judge(&args, &effects, &gateway, &stories).await?;
    let reused = customer.send(&key(0), &order(99_999)).await?;
    let status = reused.map(|(status, ..)| status);
    println!(
        "  reuse       {:>6}  the same key for another amount",
        status.map_or(0, |status| status.as_u16())
    );
    as_expected &= status == Some(StatusCode::BAD_REQUEST);
    server.stop().await?;
    effects.remove().await?;
    println!(
        "\n{}",
        if as_expected {
            "Everybody was charged exactly once."
        } else {
            "Not everybody was charged exactly once."
        }
    );
    Ok(ExitCode::from(u8::from(!as_expected)))
}

#[tokio::main]
async fn main() -> ExitCode {
    run(Args::parse()).await.unwrap_or_else(|reason| {
        eprintln!("payments: {reason}");
        ExitCode::from(2)
    })
}
