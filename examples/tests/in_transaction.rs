//! Kills a service in transaction mode again and again (SIGKILL), while clients send each order
//! until it is answered. In the end each order has one row and one answer.

#[path = "../storm/tests/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::io::Read;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::State;
use axum::http::{Request, StatusCode};
use axum::routing::{MethodRouter, post};
use axum::{Json, Router};
use futures_util::future::try_join_all;
use idem_core::{BoxError, Idempotency, Policy};
use idem_examples::crew::Crew;
use idem_examples::http::Client;
use idem_http::{HandlerError, HttpPolicy, IdempotencyLayer, Tx};
use idem_postgres::Transaction;
use idem_postgres::sqlx::{AssertSqlSafe, query, query_as};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::time::{sleep, timeout};

/// Each round sends each of its orders several times at once, and kills the server once.
const ROUNDS: u64 = 10;
const ORDERS: u64 = 12;
const SENDINGS: u64 = 3;

/// The order and the receipt of each answer, or of each row.
type Receipts = Vec<(i64, i64)>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [serve, address, url, table, exclusion] = &arguments[..]
        && serve == "serve"
    {
        block_on(serves(address, url, table, exclusion));
        return ExitCode::SUCCESS;
    }
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}/shop.db", folder.path().display());
    let on_sqlite = move || {
        block_on(sqlite::storm(&url, "exclusive"));
        Ok(())
    };
    let mut all = vec![libtest_mimic::Trial::test("sqlite", on_sqlite)];
    for exclusion in ["exclusive", "optimistic"] {
        let on_postgres = move |urls: &[String]| block_on(postgres::storm(&urls[0], exclusion));
        let name = format!("postgres_{exclusion}");
        all.push(support::on_servers(name, &["postgres"], on_postgres));
    }
    support::main(all)
}

fn block_on(future: impl Future<Output = Result<(), BoxError>>) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let in_time = async { timeout(Duration::from_secs(600), future).await };
    runtime.block_on(in_time).unwrap().unwrap();
}

/// The service on one database, and the rows that it has left there.
macro_rules! on_database {
    ($name:ident, $backend:ident::$Store:ident, $Transaction:ty) => {
        mod $name {
            use $backend::{Config, Transactions, $Store};

            use super::*;

            async fn open(url: &str, table: &str) -> Result<$Store, BoxError> {
                let config = Config::new().with_table(format!("{table}_keys"))?;
                Ok($Store::connect(url, config).await?)
            }

            /// Each call makes another receipt.
            async fn place(
                State(insert): State<String>,
                mut tx: Tx<$Transaction>,
                Json(order): Json<i64>,
            ) -> Result<(StatusCode, Json<i64>), HandlerError> {
                let receipt = rand::random_range(0..i64::MAX);
                let insert = query(AssertSqlSafe(insert)).bind(order).bind(receipt);
                insert.execute(&mut **tx).await?;
                // So that kills meet open transactions.
                sleep(Duration::from_millis(2)).await;
                Ok((StatusCode::CREATED, Json(receipt)))
            }

            pub(super) async fn route(
                url: &str,
                table: &str,
                policy: Policy,
            ) -> Result<MethodRouter<String>, BoxError> {
                let store = open(url, table).await?;
                let idempotency = Idempotency::new(store.clone()).with_policy(policy);
                let layer = IdempotencyLayer::new(idempotency, |_: &_| Some("shop".to_owned()))
                    .with_policy(HttpPolicy::ietf().with_operation("orders.place"))
                    .in_transactions(Transactions::new(&store));
                Ok(post(place).layer(layer))
            }

            pub(super) async fn storm(url: &str, exclusion: &str) -> Result<(), BoxError> {
                let table = format!("storm_{:08x}", rand::random::<u32>());
                let store = open(url, &table).await?;
                store.migrate().await?;
                let pool = store.pool();
                // No unique key: an order that is placed twice has two rows.
                let create = format!("CREATE TABLE {table} (id BIGINT, receipt BIGINT)");
                query(AssertSqlSafe(create)).execute(pool).await?;
                let receipts = answers(url, &table, exclusion).await?;
                let rows = format!("SELECT id, receipt FROM {table} ORDER BY id");
                let rows: Receipts = query_as(AssertSqlSafe(rows)).fetch_all(pool).await?;
                assert_eq!(rows, receipts, "one row for each answer");
                for more in ["", "_keys", "_keys_watermarks"] {
                    let drop = AssertSqlSafe(format!("DROP TABLE {table}{more}"));
                    query(drop).execute(pool).await?;
                }
                Ok(())
            }
        }
    };
}
on_database!(sqlite, idem_sqlite::SqliteStore, idem_sqlite::Transaction);
on_database!(postgres, idem_postgres::PostgresStore, Transaction);

/// Serves until the test ends.
async fn serves(address: &str, url: &str, table: &str, exclusion: &str) -> Result<(), BoxError> {
    let exclusion = serde_json::from_value(exclusion.into())?;
    let policy = Policy::default().with_exclusion(exclusion);
    let route = match url.starts_with("sqlite:") {
        true => sqlite::route(url, table, policy).await?,
        false => postgres::route(url, table, policy).await?,
    };
    let router = Router::new().route("/", route);
    let router = router.with_state(format!("INSERT INTO {table} VALUES ($1, $2)"));
    let listener = TcpListener::bind(address).await?;
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    Ok(axum::serve(listener, router).await?)
}

/// Sends an order until it is answered, and returns its receipt.
async fn receipt(client: &Client, url: &str, order: u64) -> Result<i64, BoxError> {
    loop {
        let request = Request::post(url)
            .header("content-type", "application/json")
            .header("idempotency-key", format!("\"order-{order}\""))
            .body(order.to_string())?;
        // Without an answer, the server was killed or is not up again.
        if let Ok(Ok(answer)) = timeout(Duration::from_secs(60), client.send(request)).await {
            let status = answer.status();
            if status == StatusCode::CREATED {
                return Ok(serde_json::from_slice(answer.body())?);
            }
            if status != StatusCode::CONFLICT && !status.is_server_error() {
                return Err(format!("{order}: {status} {:?}", answer.body()).into());
            }
        }
        sleep(Duration::from_millis(5)).await;
    }
}

/// Kills the server again and again, and returns the one receipt of each order.
async fn answers(url: &str, table: &str, exclusion: &str) -> Result<Receipts, BoxError> {
    // The listener is gone by the time the server needs its port.
    let address = TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
    let address = address.to_string();
    let mut server = Command::new(std::env::current_exe()?);
    server.args(["serve", &address, url, table, exclusion]);
    server.kill_on_drop(true);
    let mut crew = Crew::start(1, server)?;
    let (client, to) = (&Client::default(), &format!("http://{address}/"));
    let (mut receipts, answered) = (BTreeMap::new(), &AtomicU64::new(0));
    let send = |order| async move {
        let receipt = receipt(client, to, order).await?;
        answered.fetch_add(1, Ordering::Relaxed);
        Ok::<_, BoxError>((i64::try_from(order)?, receipt))
    };
    for round in 0..=ROUNDS {
        // The last round sends all orders once more.
        let orders: Vec<u64> = match round {
            ROUNDS => (0..ROUNDS * ORDERS).collect(),
            _ => (round * ORDERS..(round + 1) * ORDERS).collect(),
        };
        let orders = orders.repeat(usize::try_from(SENDINGS)?);
        let dies_after =
            answered.load(Ordering::Relaxed) + rand::random_range(0..ORDERS * SENDINGS);
        let kill = async {
            while answered.load(Ordering::Relaxed) < dies_after {
                crew.replace_the_dead()?;
                sleep(Duration::from_millis(1)).await;
            }
            crew.kill_one().await
        };
        let (all, ()) = tokio::try_join!(try_join_all(orders.into_iter().map(send)), kill)?;
        for (order, receipt) in all {
            let first = *receipts.entry(order).or_insert(receipt);
            assert_eq!(receipt, first, "order {order} has two answers");
        }
    }
    crew.dismiss().await;
    Ok(receipts.into_iter().collect())
}
