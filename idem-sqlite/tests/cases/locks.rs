//! An open transaction that holds the write lock, on every kind of pool.

use std::path::Path;
use std::time::{Duration, Instant};

use idem_conformance::{Case, CaseResult, Context, in_time};
use idem_core::{Effect, ErrorKind, IdempotencyStore, Response};
use idem_sqlite::SqliteStore;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use tokio::task::JoinSet;

use super::case;
use crate::support;

pub(super) const WRITES_BESIDE_AN_OPEN_TRANSACTION_END_SOON: Case =
    case(16, "writes_beside_an_open_transaction_end_soon", |cx| {
        Box::pin(writes_beside_an_open_transaction_end_soon(cx))
    });
pub(super) const A_CONNECTION_WITHOUT_THE_LOCK_KEEPS_NOBODY_FROM_WRITING: Case = case(
    16,
    "a_connection_without_the_lock_keeps_nobody_from_writing",
    |cx| Box::pin(a_connection_without_the_lock_keeps_nobody_from_writing(cx)),
);
pub(super) const A_CALLERS_BUSY_TIMEOUT_STAYS: Case =
    case(11, "a_callers_busy_timeout_stays", |cx| {
        Box::pin(a_callers_busy_timeout_stays(cx))
    });

const HOUR: Duration = Duration::from_secs(3600);

/// Far less than SQLite's own time-out of 5 s, and more than the bound.
const SOON: Duration = Duration::from_secs(2);

/// Opens a store on its own connections, and one on a caller's pool whose connections wait for the
/// lock for a minute.
async fn stores(cx: &Context) -> CaseResult<[SqliteStore; 2]> {
    let file = Path::new(cx.namespace()).join("idem.db");
    let options = SqliteConnectOptions::new()
        .filename(file)
        .busy_timeout(Duration::from_secs(60));
    let pool = SqlitePoolOptions::new().max_connections(3);
    let pool = pool.connect_with(options).await?;
    Ok([
        support::store(cx.namespace()).await?,
        SqliteStore::new(pool),
    ])
}

async fn writes_beside_an_open_transaction_end_soon(cx: &Context) -> CaseResult {
    let response = Response::new(200, "done");
    for (number, store) in stores(cx).await?.into_iter().enumerate() {
        let done = cx.request(&cx.key(format!("done {number}")));
        let claim = cx.claim(&done).await?;
        cx.store().complete(&claim, &response, HOUR).await?;
        let other = support::store(cx.namespace()).await?;
        // A transaction of another pool, then one of the store's own.
        for (holder, pool) in [("another", other.pool()), ("its own", store.pool())] {
            let transaction = pool.begin_with("BEGIN IMMEDIATE").await?;
            let begun = Instant::now();
            let mut claims = JoinSet::new();
            for caller in 0..64 {
                let key = cx.key(format!("{caller} of {number} beside {holder}"));
                let (store, request) = (store.clone(), cx.request(&key));
                claims.spawn(async move { store.claim(&request).await });
            }
            for _ in 0..20 {
                let replay = store.claim(&cx.request(done.key())).await?;
                assert_eq!(replay.name(), "completed");
            }
            while let Some(returned) = claims.join_next().await {
                let error = returned?.expect_err("no other caller can write");
                assert_eq!(error.kind(), ErrorKind::Contention, "{error}");
                assert_eq!(error.effect(), Effect::None);
            }
            in_time(begun.elapsed(), SOON)?;
            transaction.rollback().await?;
        }
        let fresh = cx.request(&cx.key(format!("after {number}")));
        assert_eq!(store.claim(&fresh).await?.name(), "acquired");
    }
    Ok(())
}

/// A caller that reads on the one connection of `pool()` blocks no other caller.
async fn a_connection_without_the_lock_keeps_nobody_from_writing(cx: &Context) -> CaseResult {
    let store = support::store(cx.namespace()).await?;
    let held = store.pool().acquire().await?;
    for number in 0..3 {
        let request = cx.request(&cx.key(format!("fresh {number}")));
        assert_eq!(store.claim(&request).await?.name(), "acquired");
    }
    drop(held);
    Ok(())
}

async fn a_callers_busy_timeout_stays(cx: &Context) -> CaseResult {
    let [_, store] = stores(cx).await?;
    let mut transaction = support::store(cx.namespace()).await?;
    for is_locked in [false, true] {
        let lock = match is_locked {
            true => Some(transaction.pool().begin_with("BEGIN IMMEDIATE").await?),
            false => None,
        };
        let request = cx.request(&cx.key(format!("locked {is_locked}")));
        assert_eq!(store.claim(&request).await.is_err(), is_locked);
        let mut connections = Vec::new();
        for _ in 0..3 {
            let mut connection = store.pool().acquire().await?;
            let millis: i64 = sqlx::query_scalar("PRAGMA busy_timeout")
                .fetch_one(&mut *connection)
                .await?;
            assert_eq!(millis, 60_000);
            connections.push(connection);
        }
        drop(lock);
        transaction = support::store(cx.namespace()).await?;
    }
    Ok(())
}
