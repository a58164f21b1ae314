//! Where one request makes one row and nothing else, the row itself can carry the key: a unique
//! constraint decides, and a read before the work answers most repetitions. There is no separate
//! record, no claim and no lease.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use futures_util::future::try_join_all;
use idem_core::{BoxError, Fingerprint, Key};
#[cfg(feature = "postgres")]
use idem_postgres::sqlx::PgPool;
use idem_sqlite::sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use idem_sqlite::sqlx::{AssertSqlSafe, SqlitePool, query, query_as};
use idem_storm::report::{Report, exit};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

enum Pool {
    Sqlite(SqlitePool),
    #[cfg(feature = "postgres")]
    Postgres(PgPool),
}

/// Writes a statement once for both drivers.
macro_rules! on {
    ($orders:expr, |$pool:ident| $statement:expr) => {
        match &$orders.pool {
            Pool::Sqlite($pool) => $statement,
            #[cfg(feature = "postgres")]
            Pool::Postgres($pool) => $statement,
        }
    };
}

/// The outcome of a request, with the number of the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Placed {
    /// The order is new.
    New(i64),
    /// It was placed before.
    Before(i64),
    /// Another order was placed under this key: refused.
    Conflict,
}

/// The table of orders, in SQLite or PostgreSQL.
struct Orders {
    pool: Pool,
    table: String,
}

impl Orders {
    /// Places an order once per key.
    ///
    /// It reads first, because most repetitions come when the order exists. The work before an
    /// insert (a check of the stock, a call to another service) must not be repeated for them. The
    /// read decides nothing: the insert does, by the unique constraint, and a refused insert reads
    /// again. `ON CONFLICT` waits for a transaction that is about to commit the same key, so that
    /// the second read finds it. After an error, repeating the call shows whether the order was
    /// placed.
    async fn place(&self, key: &Key, what: &str) -> Result<Placed, BoxError> {
        let fingerprint = Fingerprint::of(what)?.to_bytes();
        let placed = |(number, stored): (i64, Vec<u8>)| match stored == fingerprint {
            true => Placed::Before(number),
            false => Placed::Conflict,
        };
        if let Some(found) = self.find(key).await? {
            return Ok(placed(found));
        }
        if let Some(number) = self.insert(key, &fingerprint, what).await? {
            return Ok(Placed::New(number));
        }
        let found = self.find(key).await?;
        let found = found.ok_or("the order was deleted between an insert and a lookup")?;
        Ok(placed(found))
    }

    /// Returns the number and the fingerprint of the order with this key.
    async fn find(&self, key: &Key) -> Result<Option<(i64, Vec<u8>)>, BoxError> {
        let sql = AssertSqlSafe(format!(
            "SELECT number, fingerprint FROM {} WHERE tenant = $1 AND idempotency_key = $2",
            self.table
        ));
        Ok(on!(self, |pool| query_as(sql)
            .bind(key.scope())
            .bind(key.id())
            .fetch_optional(pool)
            .await?))
    }

    /// Returns the number, if this call inserted the order.
    async fn insert(
        &self,
        key: &Key,
        fingerprint: &[u8],
        what: &str,
    ) -> Result<Option<i64>, BoxError> {
        let sql = AssertSqlSafe(format!(
            "INSERT INTO {} (tenant, idempotency_key, fingerprint, what) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (tenant, idempotency_key) DO NOTHING RETURNING number",
            self.table
        ));
        let inserted: Option<(i64,)> = on!(self, |pool| query_as(sql)
            .bind(key.scope())
            .bind(key.id())
            .bind(fingerprint)
            .bind(what)
            .fetch_optional(pool)
            .await?);
        Ok(inserted.map(|(number,)| number))
    }

    /// Creates a table of this name at `sqlite:PATH` or `postgres://…`.
    async fn create(url: &str, table: &str) -> Result<Self, BoxError> {
        let (pool, number, bytes) = match url.split(':').next() {
            Some("sqlite") => {
                let options = url.parse::<SqliteConnectOptions>()?.create_if_missing(true);
                let options = options.busy_timeout(Duration::from_secs(30));
                let pool = SqlitePoolOptions::new().max_connections(4);
                let pool = pool.connect_with(options).await?;
                (Pool::Sqlite(pool), "INTEGER", "BLOB")
            }
            #[cfg(feature = "postgres")]
            Some("postgres" | "postgresql") => {
                let number = "BIGINT GENERATED ALWAYS AS IDENTITY";
                (Pool::Postgres(PgPool::connect(url).await?), number, "BYTEA")
            }
            _ => {
                let needed = "--store: sqlite:PATH is needed, or postgres://… with the feature \
                              `postgres`: the key stands in the order's own table";
                return Err(needed.into());
            }
        };
        let create = format!(
            "CREATE TABLE {table} (number {number} PRIMARY KEY, tenant TEXT NOT NULL, \
             idempotency_key TEXT NOT NULL, fingerprint {bytes} NOT NULL, what TEXT NOT NULL, \
             UNIQUE (tenant, idempotency_key))"
        );
        let table = table.to_owned();
        let orders = Self { pool, table };
        orders.execute(create).await?;
        Ok(orders)
    }

    /// Returns the number of orders.
    async fn count(&self) -> Result<u64, BoxError> {
        let sql = AssertSqlSafe(format!("SELECT count(*) FROM {}", self.table));
        let (count,): (i64,) = on!(self, |pool| query_as(sql).fetch_one(pool).await?);
        Ok(count.try_into()?)
    }

    /// Drops the table.
    async fn remove(self) -> Result<(), BoxError> {
        self.execute(format!("DROP TABLE {}", self.table)).await
    }

    async fn execute(&self, sql: String) -> Result<(), BoxError> {
        let sql = AssertSqlSafe(sql);
        on!(self, |pool| query(sql).execute(pool).await.map(drop)?);
        Ok(())
    }
}

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

    /// The same seed: the same order of requests
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

/// How often each order is sent, once of these with other contents.
const SENDINGS: u32 = 8;

async fn run(args: Args) -> Result<bool, BoxError> {
    let folder = tempfile::Builder::new().prefix("idem-").tempdir()?;
    let embedded = format!("sqlite:{}", folder.path().join("orders.db").display());
    let url = args.store.as_deref().unwrap_or(&embedded);
    let orders = Orders::create(url, &format!("idem_orders_{:08x}", rand::random::<u32>())).await?;

    let seed = args.seed.unwrap_or_else(|| rand::random::<u32>().into());
    let sending = |number| (0..SENDINGS).map(move |sending| (number, sending == 0));
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
