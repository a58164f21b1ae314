//! Where one request makes one row and nothing else, the row itself can carry the key: a unique
//! constraint decides, and a read before the work answers most repetitions. See `orders.rs`.
//!
//! ```console
//! $ cargo run -p idem-examples --bin single_table
//! ```

mod orders;

use std::collections::BTreeSet;
use std::process::ExitCode;

use clap::Parser;
use futures_util::future::try_join_all;
use idem_core::{BoxError, Key};
use idem_examples::report::{Report, exit};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use orders::{Orders, Placed};

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

async fn run(args: Args) -> Result<bool, BoxError> {
    let folder = tempfile::Builder::new().prefix("idem-").tempdir()?;
    let embedded = format!("sqlite:{}", folder.path().join("orders.db").display());
    let url = args.store.as_deref().unwrap_or(&embedded);
    let orders = Orders::create(url, &format!("idem_orders_{:08x}", rand::random::<u32>())).await?;

    let seed = args.seed.unwrap_or_else(|| rand::random::<u32>().into());
    let sending = |number| (0..args.sendings).map(move |sending| (number, sending == 0));
    let mut sendings: Vec<(u32, bool)> = (0..args.orders).flat_map(sending).collect();
    sendings.shuffle(&mut StdRng::seed_from_u64(seed));
    let placing = sendings.iter().map(async |&(number, is_other)| {
        let key = Key::new("tenant-7", "orders.create", format!("order-{number}"))?;
        let what = if is_other { "a car" } else { "a bicycle" };
        Ok::<_, BoxError>((number, orders.place(&key, what).await?))
    });

    // Each order has one number in all of its answers, and is new in one of them.
    let (mut new, mut numbers) = (Vec::new(), BTreeSet::new());
    let (mut repetitions, mut conflicts) = (0, 0);
    for (order, placed) in try_join_all(placing).await? {
        match placed {
            Placed::New(number) => {
                numbers.insert((order, number));
                new.push(order);
            }
            Placed::Before(number) => {
                numbers.insert((order, number));
                repetitions += 1;
            }
            Placed::Conflict => conflicts += 1,
        }
    }
    new.sort_unstable();
    let rows = orders.count().await?;
    orders.remove().await?;

    let mut report = Report::new(format!("{} sendings, seed {seed}", sendings.len()));
    report.count("orders", rows, "");
    report.count("repetitions", repetitions, "got the order that was there");
    let refused = "something else under the same key: refused";
    report.count("conflicts", conflicts, refused);
    let is_once = new.into_iter().eq(0..args.orders) && numbers.len() == args.orders as usize;
    report.check(is_once, "an order was new twice, or got two numbers");
    report.check(rows == u64::from(args.orders), "an order has two rows");
    Ok(report.print(
        "Every order was placed exactly once.",
        "Some orders were not placed exactly once.",
    ))
}

#[tokio::main]
async fn main() -> ExitCode {
    exit("single_table", run(Args::parse()).await)
}
