//! One instance of DuckDB for each file of the process.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use idem_conformance::{Case, CaseResult, Context};
use idem_core::{ErrorKind, IdempotencyStore, Response};
use idem_duckdb::{Config, DuckDbPool, DuckDbStore, duckdb};

use super::case;
use crate::support::{self, file};

pub(super) const HANDLES_OF_A_FILE_SHARE_ONE_INSTANCE: Case =
    case(12, "handles_of_a_file_share_one_instance", |cx| {
        Box::pin(handles_of_a_file_share_one_instance(cx))
    });
pub(super) const A_FILE_IS_CLOSED_BEFORE_IT_IS_OPENED_AGAIN: Case =
    case(12, "a_file_is_closed_before_it_is_opened_again", |cx| {
        Box::pin(a_file_is_closed_before_it_is_opened_again(cx))
    });
pub(super) const A_REPLACED_FILE_IS_NOT_TAKEN_FOR_THE_OPEN_ONE: Case =
    case(12, "a_replaced_file_is_not_taken_for_the_open_one", |cx| {
        Box::pin(a_replaced_file_is_not_taken_for_the_open_one(cx))
    });
pub(super) const A_CALLERS_INSTANCE_IS_ADOPTED_ONCE: Case =
    case(12, "a_callers_instance_is_adopted_once", |cx| {
        Box::pin(a_callers_instance_is_adopted_once(cx))
    });
pub(super) const A_CLOSED_POOL_SAYS_SO: Case = case(14, "a_closed_pool_says_so", |cx| {
    Box::pin(a_closed_pool_says_so(cx))
});

const HOUR: Duration = Duration::from_secs(3600);

/// Returns the databases that the pool's instance has.
async fn databases(pool: &DuckDbPool) -> CaseResult<Vec<String>> {
    let names = pool.run(|connection| {
        let query = "SELECT database_name FROM duckdb_databases() WHERE NOT internal";
        let mut statement = connection.prepare(query)?;
        let names = statement.query_map([], |row| row.get(0))?;
        names.collect::<Result<Vec<String>, duckdb::Error>>()
    });
    Ok(names.await?)
}

async fn open(path: &Path) -> CaseResult<DuckDbPool> {
    Ok(DuckDbPool::open(path, &Config::new()).await?)
}

/// Under any name: a path with detours, a symbolic link, a hard link.
async fn handles_of_a_file_share_one_instance(cx: &Context) -> CaseResult {
    let first = open(&file(cx.namespace())).await?;
    first
        .run(|connection| connection.execute_batch("ATTACH ':memory:' AS beside"))
        .await?;
    let folder = Path::new(cx.namespace());
    let detour = folder
        .join("../")
        .join(folder.file_name().unwrap_or_default());
    let mut names = vec![file(folder), file(detour)];
    #[cfg(unix)]
    {
        let links: [PathBuf; 2] = ["symbolic.duckdb", "hard.duckdb"].map(|name| folder.join(name));
        std::os::unix::fs::symlink(file(folder), &links[0])?;
        fs::hard_link(file(folder), &links[1])?;
        names.extend(links);
    }
    for name in names {
        let other = open(&name).await?;
        let found = databases(&other).await?;
        assert!(
            found.iter().any(|name| name == "beside"),
            "{name:?}: {found:?}"
        );
    }
    let other = folder.join("other.duckdb");
    assert_eq!(databases(&open(&other).await?).await?, ["other"]);
    Ok(())
}

/// Tasks that open, write and close at once: two instances would lose each other's records.
async fn a_file_is_closed_before_it_is_opened_again(cx: &Context) -> CaseResult {
    const TASKS: usize = 8;
    const ROUNDS: usize = 5;
    let folder = Path::new(cx.namespace()).join("new");
    fs::create_dir(&folder)?;
    let path = file(&folder);
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..TASKS {
        let path = path.clone();
        let keys: Vec<_> = (0..ROUNDS)
            .map(|round| cx.key(format!("{task}-{round}")))
            .collect();
        let requests: Vec<_> = keys.iter().map(|key| cx.request(key)).collect();
        tasks.spawn(async move {
            for (round, request) in requests.iter().enumerate() {
                let store = DuckDbStore::connect(&path, Config::new()).await?;
                store.migrate().await?;
                let claim = store.claim(request).await?.acquired().ok_or("fresh")?;
                let response = Response::new(200, "done");
                store.complete(&claim, &response, HOUR).await?;
                match round % 2 {
                    0 => store.close().await,
                    _ => drop(store),
                }
            }
            CaseResult::Ok(keys)
        });
    }
    let mut keys = Vec::new();
    while let Some(done) = tasks.join_next().await {
        keys.extend(done??);
    }
    assert_eq!(keys.len(), TASKS * ROUNDS);
    let store = DuckDbStore::connect(&path, Config::new()).await?;
    for key in keys {
        let record = store.get(&key).await?;
        assert!(record.is_some(), "a record is lost");
    }
    Ok(())
}

async fn a_replaced_file_is_not_taken_for_the_open_one(cx: &Context) -> CaseResult {
    let path = Path::new(cx.namespace()).join("replaced.duckdb");
    let first = open(&path).await?;
    fs::rename(&path, path.with_extension("old"))?;
    for is_there in [false, true] {
        if is_there {
            fs::write(&path, "")?;
        }
        let error = DuckDbPool::open(&path, &Config::new()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    }
    first.close().await;
    fs::remove_file(&path)?;
    open(&path).await?;
    Ok(())
}

async fn a_callers_instance_is_adopted_once(cx: &Context) -> CaseResult {
    let path = Path::new(cx.namespace()).join("callers.duckdb");
    let connection = duckdb::Connection::open(&path)?;
    connection.execute_batch("ATTACH ':memory:' AS beside")?;
    let pool = DuckDbPool::of(connection.try_clone()?, &Config::new()).await?;
    let store = DuckDbStore::new(pool.clone());
    store.migrate().await?;
    assert!(
        databases(&open(&path).await?)
            .await?
            .contains(&"beside".to_owned())
    );
    let again = DuckDbPool::of(connection, &Config::new()).await;
    assert_eq!(again.unwrap_err().kind(), ErrorKind::Misconfigured);
    Ok(())
}

/// So does one whose connections are all in open transactions.
async fn a_closed_pool_says_so(cx: &Context) -> CaseResult {
    let config = Config::new().with_max_connections(1);
    let config = config.with_timeout(Duration::from_millis(50));
    let full = DuckDbPool::open(&file(cx.namespace()), &config).await?;
    let transaction = full.begin().await?;
    let error = full.begin().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    transaction.rollback().await?;
    full.begin().await?.rollback().await?;
    let store = support::store(cx.namespace()).await?;
    store.close().await;
    store.close().await;
    let request = cx.request(&cx.key("one"));
    let error = store.claim(&request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(store.pool().begin().await.is_err());
    // Other pools of the file go on.
    cx.hold(&request).await
}
