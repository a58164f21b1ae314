//! What it costs that replays wait for other servers, in criterion's pages:
//! `Replays::Replicated` on PostgreSQL with a synchronous standby, `with_replicas` on Redis and Valkey
//! with a replica, each beside replays that do not wait. The servers are private ones.
//!
//! ```sh
//! cargo bench -p idem-benches --features postgres,redis --bench replicated
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, SamplingMode, Throughput};
use idem_core::{BoxError, ClaimRequest, Fingerprint, IdempotencyStore, Key, Response};
use idem_postgres::sqlx::{self, AssertSqlSafe, Connection, PgConnection};
use idem_postgres::{PostgresStore, Replays};
use idem_redis::redis::{self, Client};
use idem_redis::{RedisStore, Replicas};
use idem_servers::{Instance, Options, PostgresStandby, start_private};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

const HOUR: Duration = Duration::from_secs(3_600);
const WITHIN: Duration = Duration::from_secs(1);
const KEYS: u64 = 64;
const CALLERS: [u64; 2] = [1, 16];

type Store = Arc<dyn IdempotencyStore>;

/// A server and what follows it, with a store whose replays wait and one whose do not.
struct Contest {
    name: &'static str,
    plain: Store,
    waiting: Store,
    // Dropped last, the follower first.
    _follower: Instance,
    _leader: Instance,
}

fn request(number: u64) -> Result<ClaimRequest, BoxError> {
    let key = Key::new("benches", "replicated", format!("{number}"))?;
    Ok(ClaimRequest::new(key, Fingerprint::raw("1")))
}

async fn postgres() -> Result<Contest, BoxError> {
    let options = Options::new().with_setting("synchronous_commit", "remote_apply");
    let leader = start_private("postgres", &options)?;
    let follower = Options::new().with_upstream(leader.url());
    let follower = start_private("postgres-standby", &follower)?;
    // Not before it is there: the server's first writes would wait for it.
    let standby = PostgresStandby::NAME;
    let set = format!("ALTER SYSTEM SET synchronous_standby_names = '{standby}'");
    let mut connection = PgConnection::connect(leader.url()).await?;
    for statement in [&set, "SELECT pg_reload_conf()"] {
        let statement = AssertSqlSafe(statement.to_owned());
        sqlx::raw_sql(statement).execute(&mut connection).await?;
    }
    connection.close().await?;
    let config = idem_postgres::Config::new();
    let plain = PostgresStore::connect(leader.url(), config.clone()).await?;
    plain.migrate().await?;
    let config = config.with_replays(Replays::Replicated);
    Ok(Contest {
        name: "postgres",
        plain: Arc::new(plain),
        waiting: Arc::new(PostgresStore::connect(leader.url(), config).await?),
        _follower: follower,
        _leader: leader,
    })
}

async fn redis(name: &'static str) -> Result<Contest, BoxError> {
    let leader = start_private(name, &Options::new())?;
    let follower = start_private(name, &Options::new())?;
    let place = leader.url().trim_start_matches("redis://").split_once(':');
    let (host, port) = place.ok_or("a URL without a port")?;
    let client = Client::open(follower.url())?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    let mut follow = redis::cmd("REPLICAOF");
    let () = follow
        .arg(host)
        .arg(port)
        .query_async(&mut connection)
        .await?;
    let config = idem_redis::Config::new();
    let plain = RedisStore::connect(leader.url(), config.clone()).await?;
    let config = config.with_replicas(Replicas::new(1, WITHIN));
    Ok(Contest {
        name,
        plain: Arc::new(plain),
        waiting: Arc::new(RedisStore::connect(leader.url(), config).await?),
        _follower: follower,
        _leader: leader,
    })
}

/// Completes the keys. The first claim waits until the follower is there.
async fn complete(store: &dyn IdempotencyStore) -> Result<(), BoxError> {
    for number in 0..KEYS {
        let request = request(number)?;
        let deadline = Instant::now() + Duration::from_secs(60);
        let outcome = loop {
            match store.claim(&request).await {
                Err(error) if error.is_retryable() && Instant::now() < deadline => {}
                outcome => break outcome?,
            }
        };
        let claim = outcome.acquired().ok_or("the key is fresh")?;
        let response = Response::new(200, "result");
        store.complete(&claim, &response, HOUR).await?;
    }
    Ok(())
}

/// Replays so many results, shared among the callers. Returns how long it took.
async fn replay(store: &Store, callers: u64, count: u64) -> Result<Duration, BoxError> {
    let (mut tasks, began) = (JoinSet::new(), Instant::now());
    for caller in 0..callers {
        let store = Arc::clone(store);
        let own = count / callers + u64::from(caller < count % callers);
        tasks.spawn(async move {
            for number in 0..own {
                let outcome = store.claim(&request((caller * 7 + number) % KEYS)?).await?;
                assert_eq!(outcome.name(), "completed");
            }
            Ok::<_, BoxError>(())
        });
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    Ok(began.elapsed())
}

fn main() -> Result<(), BoxError> {
    let runtime = Runtime::new()?;
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    for contest in [
        runtime.block_on(postgres())?,
        runtime.block_on(redis("redis"))?,
        runtime.block_on(redis("valkey"))?,
    ] {
        runtime.block_on(complete(&*contest.waiting))?;
        for callers in CALLERS {
            let mut group = criterion.benchmark_group(format!("replay/{}/{callers}", contest.name));
            group.sampling_mode(SamplingMode::Flat);
            group.throughput(Throughput::Elements(1));
            for (name, store) in [
                ("at once", &contest.plain),
                ("replicated", &contest.waiting),
            ] {
                group.bench_function(name, |bencher| {
                    bencher.iter_custom(|count| {
                        let replayed = runtime.block_on(replay(store, callers, count));
                        replayed.expect("a round without errors")
                    });
                });
            }
            group.finish();
        }
    }
    criterion.final_summary();
    Ok(())
}
