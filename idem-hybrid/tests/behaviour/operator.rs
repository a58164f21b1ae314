//! An operator deletes a row in SQLite; and two services that must not mix.

use std::path::Path;

use idem_core::{IdempotencyStore, MemoryStore, Response};
use idem_hybrid::{HybridStore, LocalCache};
use idem_sqlite::{Config, SqliteStore, sqlx};

use super::fixture::{HOUR, request};

async fn sqlite(folder: &Path) -> SqliteStore {
    let url = format!("sqlite:{}", folder.join("idem.db").display());
    let store = SqliteStore::connect(&url, Config::new()).await.unwrap();
    store.migrate().await.unwrap();
    store
}

#[tokio::test]
async fn a_row_that_an_operator_deleted_is_fresh_once_the_cache_is_notified() {
    let folder = tempfile::tempdir().unwrap();
    let database = sqlite(folder.path()).await;
    let store = HybridStore::new(LocalCache::new(1 << 20), database.clone());
    let claim = store
        .claim(&request("done"))
        .await
        .unwrap()
        .acquired()
        .unwrap();
    let response = Response::new(200, "wrong");
    store.complete(&claim, &response, HOUR).await.unwrap();
    for _ in 0..2 {
        assert_eq!(
            store.claim(&request("done")).await.unwrap().name(),
            "completed"
        );
        store.settled().await;
    }
    sqlx::query("DELETE FROM idem_records")
        .execute(database.pool())
        .await
        .unwrap();
    let still = store.claim(&request("done")).await.unwrap();
    assert_eq!(still.name(), "completed", "the cache was not notified");
    store.invalidate(claim.key()).await.unwrap();
    let again = store
        .claim(&request("done"))
        .await
        .unwrap()
        .acquired()
        .unwrap();
    assert!(again.token() > claim.token());
    let response = Response::new(200, "right");
    store.complete(&again, &response, HOUR).await.unwrap();
    let record = store.get(claim.key()).await.unwrap().unwrap();
    assert_eq!(record.response(), Some(&response));
}

#[tokio::test]
async fn stores_of_one_database_share_a_cache_and_stores_of_two_do_not() {
    let (orders, cache) = (MemoryStore::new(), LocalCache::new(1 << 20));
    let one = HybridStore::new(cache.clone(), orders.clone());
    let two = HybridStore::new(cache, orders);
    let other = HybridStore::new(LocalCache::new(1 << 20), MemoryStore::new());
    let claim = one
        .claim(&request("done"))
        .await
        .unwrap()
        .acquired()
        .unwrap();
    one.complete(&claim, &Response::new(200, "x"), HOUR)
        .await
        .unwrap();
    assert_eq!(
        one.claim(&request("done")).await.unwrap().name(),
        "completed"
    );
    one.settled().await;
    assert_eq!(
        two.claim(&request("done")).await.unwrap().name(),
        "completed"
    );
    assert_eq!(two.metrics().hits, 1);
    assert_eq!(
        other.claim(&request("done")).await.unwrap().name(),
        "acquired"
    );
}
