//! Where one request makes one row and nothing else, the row itself can carry the key: a unique
//! constraint decides, and a read before the work answers most repetitions.
//!
//! ```console
//! $ cargo run -p idem-examples --bin single_table
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use idem_core::{BoxError, Key};
use idem_examples::single_table::{Orders, Placed};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use tokio::task::JoinSet;

/// Places orders repeatedly and concurrently, and checks that each was placed once.
///
/// Exit status 0: all were; 1: some were not; 2: the run could not be made.
#[derive(Debug, Parser)]
#[command(name = "single_table", version, max_term_width = 100)]
struct Args {
    /// `sqlite:PATH` or `postgres://…`. Default: a SQLite file in a temporary folder
    #[arg(long, value_name = "URL")]
    store: Option<String>,

    /// Number of orders
    #[arg(long, value_name = "N", default_value_t = 100)]
    orders: u32,

    /// How often each order is sent, once of these with other contents
    #[arg(long, value_name = "N", default_value_t = 8)]
    sendings: u32,

    /// The same seed: the same order of requests
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

async fn run(args: Args) -> Result<ExitCode, BoxError> {
    let folder = tempfile::Builder::new().prefix("idem-").tempdir()?;
    let embedded = format!("sqlite:{}", folder.path().join("orders.db").display());
    let url = args.store.as_deref().unwrap_or(&embedded);
    let table = format!("idem_orders_{:08x}", rand::random::<u32>());
    let orders = Arc::new(Orders::create(url, &table).await?);

    let seed = args.seed.unwrap_or_else(|| rand::random::<u32>().into());
    let sending = |number| (0..args.sendings).map(move |sending| (number, sending == 0));
    let mut sendings: Vec<(u32, bool)> = (0..args.orders).flat_map(sending).collect();
    sendings.shuffle(&mut StdRng::seed_from_u64(seed));
    let mut placing = JoinSet::new();
    for (number, is_other) in sendings {
        let orders = Arc::clone(&orders);
        placing.spawn(async move {
            let key = Key::new("tenant-7", "orders.create", format!("order-{number}"))?;
            let what = if is_other { "a car" } else { "a bicycle" };
            let placed = orders.place(&key, what).await?;
            Ok::<_, BoxError>((number, placed))
        });
    }

    // By key: the numbers in the answers, and how often an answer said that the order is new.
    let mut returned: BTreeMap<u32, (BTreeSet<i64>, u32)> = BTreeMap::new();
    let (mut repetitions, mut conflicts) = (0, 0);
    while let Some(placed) = placing.join_next().await {
        let (number, placed) = placed??;
        let (numbers, new) = returned.entry(number).or_default();
        match placed {
            Placed::New(order) => {
                numbers.insert(order.number);
                *new += 1;
            }
            Placed::Before(order) => {
                numbers.insert(order.number);
                repetitions += 1;
            }
            Placed::Conflict => conflicts += 1,
        }
    }
    let rows = orders.count().await?;
    let once = returned
        .values()
        .all(|(numbers, new)| numbers.len() == 1 && *new == 1);
    let as_expected = once && rows == i64::from(args.orders);
    println!(
        "sendings     {:>6}  seed {seed}",
        args.orders * args.sendings
    );
    println!("orders       {rows:>6}");
    println!("repetitions  {repetitions:>6}  got the order that was there");
    println!("conflicts    {conflicts:>6}  something else under the same key: refused");
    println!(
        "\n{}",
        if as_expected {
            "Every order was placed exactly once."
        } else {
            "Some orders were not placed exactly once."
        }
    );
    if let Some(orders) = Arc::into_inner(orders) {
        orders.remove().await?;
    }
    Ok(ExitCode::from(u8::from(!as_expected)))
}

#[tokio::main]
async fn main() -> ExitCode {
    run(Args::parse()).await.unwrap_or_else(|reason| {
        eprintln!("single_table: {reason}");
        ExitCode::from(2)
    })
}
