//! What the memory store promises beyond the laws: it does not grow for ever.

use std::time::Duration;

use idem_core::{
    ClaimRequest, Fingerprint, IdempotencyStore, IdempotencyStoreExt, Key, MemoryStore, Response,
};

const MILLISECOND: Duration = Duration::from_millis(1);

fn request(number: usize) -> ClaimRequest {
    let key = Key::new("scope", "operation", format!("id-{number}")).unwrap();
    ClaimRequest::new(key, Fingerprint::raw("request"))
}

#[tokio::test]
async fn claims_clear_expired_records_away_in_passing() {
    let store = MemoryStore::new();
    let response = Response::new(200, "done");
    for number in 0..20_000 {
        let claim = store
            .claim(&request(number))
            .await
            .unwrap()
            .acquired()
            .unwrap();
        store
            .complete(&claim, &response, MILLISECOND)
            .await
            .unwrap();
    }
    tokio::time::sleep(2 * MILLISECOND).await;
    for number in 20_000..40_000 {
        let _lost = store.claim(&request(number)).await.unwrap();
    }
    assert!(store.len() < 21_000, "{} records are held", store.len());
}

#[tokio::test]
async fn renewals_and_releases_do_not_grow_the_queues() {
    let store = MemoryStore::new();
    for _ in 0..1000 {
        let claim = store.claim(&request(1)).await.unwrap().acquired().unwrap();
        let claim = store.renew(&claim, Duration::from_secs(600)).await.unwrap();
        store.release(&claim).await.unwrap();
    }
    assert_eq!(store.len(), 1);
    assert_eq!(store.purge_all().await.unwrap(), 1);
    assert!(store.is_empty());
}

#[tokio::test]
async fn purge_reaches_records_whose_retention_grew_and_shrank() {
    let store = MemoryStore::new();
    let long = store
        .claim(&request(1).with_retention(MILLISECOND))
        .await
        .unwrap();
    let short = store.claim(&request(2)).await.unwrap();
    let (long, short) = (long.acquired().unwrap(), short.acquired().unwrap());
    let hour = Duration::from_secs(3600);
    store
        .complete(&long, &Response::new(200, ""), hour)
        .await
        .unwrap();
    store
        .complete(&short, &Response::new(200, ""), MILLISECOND)
        .await
        .unwrap();
    tokio::time::sleep(2 * MILLISECOND).await;
    assert_eq!(store.purge_all().await.unwrap(), 1);
    assert!(store.get(long.key()).await.unwrap().is_some());
}
