//! Consumers of a queue on NATS JetStream, killed while they work: every order is shipped once, and
//! poison messages end as failed.

mod broker;
mod order;

use std::io::Read;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use async_nats::jetstream::Message as Delivery;
use clap::Parser;
use futures_util::StreamExt;
use idem_core::{BoxError, Idempotency, Policy, Record, Response, Work};
use idem_examples::crew::Crew;
use idem_queue::{Backoff, Consumer, Disposition, Message, WorkError};
use idem_storm::effects::{Effects, StoreArgs};
use idem_storm::report::{Report, exit};
use tokio::time::sleep;

use broker::Broker;
use order::{Kind, Order, orders};

/// Publishes orders, kills the consumers that work on them, and checks that each was shipped once.
///
/// Exit status 0: all were; 1: some were not, they are listed; 2: the run could not be made.
#[derive(Debug, Parser)]
#[command(name = "queue", version, max_term_width = 100)]
struct Args {
    /// The broker: NATS 2.9 or later with JetStream. Default: a private one
    #[arg(long, value_name = "URL", env = "IDEM_NATS_URL")]
    broker: Option<String>,

    #[command(flatten)]
    store: StoreArgs,

    /// Number of orders
    #[arg(long, value_name = "N", default_value_t = 150)]
    orders: u32,

    /// Number of kills
    #[arg(long, value_name = "N", default_value_t = 8)]
    kills: u64,

    /// The same seed: the same orders
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Acknowledges before the work and claims nothing, to show that the check finds the errors
    #[arg(long)]
    sabotage: bool,

    /// Consumes the messages of its parent
    #[arg(long, hide = true)]
    consume: bool,
}

/// Long enough for a consumer's work between two renewals, and short, because other consumers wait
/// for it after a kill.
const LEASE: Duration = Duration::from_millis(500);
/// A crash costs up to two deliveries.
const MAX_DELIVERIES: u64 = 16;
/// Number of consumers.
const CONSUMERS: usize = 3;
/// How many messages a consumer works on at a time.
const AT_ONCE: usize = 4;
const LIMIT: Duration = Duration::from_secs(180);

/// A consumer: receives deliveries, works, answers the broker.
async fn consume(effects: &Effects, broker: &Broker, is_sabotaged: bool) -> Result<(), BoxError> {
    let policy = Policy::default().with_lease(LEASE);
    let backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));
    let consumer = Consumer::new(Idempotency::new(effects.store()).with_policy(policy))
        .with_max_deliveries(MAX_DELIVERIES)
        .with_backoff(backoff);
    let source = broker.consumer().await?;
    let deliveries = source.stream().max_messages_per_batch(AT_ONCE);
    let handle = async |delivery| match is_sabotaged {
        true => without_a_claim(effects, &delivery?).await,
        false => handle(&consumer, effects, &delivery?).await,
    };
    // If the broker gets no answer, it delivers the message again.
    let handled = async |delivery| drop(handle(delivery).await);
    deliveries
        .messages()
        .await?
        .for_each_concurrent(AT_ONCE, handled)
        .await;
    Ok(())
}

async fn handle(
    consumer: &Consumer,
    effects: &Effects,
    delivery: &Delivery,
) -> Result<(), BoxError> {
    let order: Order = serde_json::from_slice(&delivery.payload)?;
    let deliveries = u64::try_from(delivery.info()?.delivered)?;
    let message = Message::new(order.key()?, &delivery.payload).with_deliveries(deliveries);
    let ship = async |work: Work| {
        sleep(Duration::from_millis(order.millis)).await;
        match order.kind {
            Kind::Nonsense => return Err(WorkError::permanent("there is no such article")),
            Kind::Flaky if deliveries < 3 => {
                return Err(WorkError::temporary("no carrier is there"));
            }
            Kind::Killer => std::process::abort(),
            Kind::Plain | Kind::Flaky => {}
        }
        // The effect and the result commit together.
        let parcel = format!("parcel of {}", order.id);
        let committed = effects
            .commit(&work, &order.id, Response::json(&parcel)?)
            .await;
        committed.map_err(WorkError::Temporary)?;
        Ok(parcel)
    };
    let handled = consumer.handle(&message, ship).await;
    broker::answer(delivery, handled.disposition()).await
}

/// A common mistake: acknowledges first, and claims nothing.
async fn without_a_claim(effects: &Effects, delivery: &Delivery) -> Result<(), BoxError> {
    let order: Order = serde_json::from_slice(&delivery.payload)?;
    if order.kind.is_poison() {
        return broker::answer(delivery, Disposition::Reject).await;
    }
    sleep(Duration::from_millis(order.millis)).await;
    effects.append(&order.id).await?;
    broker::answer(delivery, Disposition::Ack).await
}

/// The parent: publishes, kills, waits, checks.
async fn conduct(args: &Args, url: &str) -> Result<bool, BoxError> {
    let seed = args.seed.unwrap_or_else(|| rand::random::<u32>().into());
    let start = Instant::now();
    let effects = args.store.open("queue").await?;
    let broker = Broker::open(url, effects.namespace()).await?;
    let orders = orders(args.orders, seed);
    let messages = broker.publish(&orders).await?;
    let mut consumer = effects.process()?;
    consumer.args(["--broker", url, "--consume"]);
    consumer.args(args.sabotage.then_some("--sabotage"));
    consumer.stderr(Stdio::null());
    let mut crew = Crew::start(CONSUMERS, consumer)?;
    loop {
        sleep(Duration::from_millis(150)).await;
        crew.replace_the_dead()?;
        if crew.killed < args.kills {
            crew.kill_one().await?;
        } else if broker.open_messages().await? == 0 {
            if args.sabotage || are_over(&effects, &orders).await? {
                break;
            }
        } else if start.elapsed() > LIMIT {
            return Err("the orders do not come to an end".into());
        }
    }
    let (killed, died) = (crew.killed, crew.died);
    crew.dismiss().await;
    let mut report = Report::new(format!(
        "{}, NATS JetStream, {CONSUMERS} consumers, seed {seed}",
        effects.product().await?
    ));
    report.count("orders", orders.len() as u64, "");
    report.count("messages", messages, "an order is published once or twice");
    report.count("killed", killed, "consumers, in the middle of their work");
    report.count("died", died, "consumers, of the message that kills");
    let expected = |order: &Order| Ok((order.key()?, order.kind.is_poison()));
    let expected: Result<_, BoxError> = orders.iter().map(expected).collect();
    effects.audit(&mut report, "shipped", expected?).await?;
    report.time("elapsed", start.elapsed(), "");
    broker.remove().await?;
    effects.remove().await?;
    Ok(report.print(
        "Every order was shipped exactly once, or ended in failed because it is poison.",
        "Not every order came to its end exactly once.",
    ))
}

/// Returns whether all orders have ended: completed, or failed for good.
async fn are_over(effects: &Effects, orders: &[Order]) -> Result<bool, BoxError> {
    let store = effects.store();
    for order in orders {
        let record = store.get(&order.key()?).await?;
        if matches!(record, None | Some(Record::InFlight(_))) {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn run(args: Args) -> Result<bool, BoxError> {
    let Some(url) = args.broker.as_deref() else {
        // The broker ends with this program.
        let broker = tokio::task::block_in_place(private_broker)?;
        return conduct(&args, broker.url()).await;
    };
    if !args.consume {
        return conduct(&args, url).await;
    }
    let effects = args.store.open("queue").await?;
    let broker = Broker::open(url, effects.namespace()).await?;
    // The pipe ends with the parent, however the parent ends.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    consume(&effects, &broker, args.sabotage).await?;
    Ok(true)
}

/// Starts a private broker, from the programs on this machine or from Debian's package.
fn private_broker() -> Result<idem_servers::Instance, BoxError> {
    idem_servers::start_private("nats", &idem_servers::Options::new()).map_err(|error| {
        format!("no broker could be started: {error}; give one, --broker nats://127.0.0.1:4222")
            .into()
    })
}

#[tokio::main]
async fn main() -> ExitCode {
    exit("queue", run(Args::parse()).await)
}
