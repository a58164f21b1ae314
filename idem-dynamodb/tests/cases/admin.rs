//! Lists and deletions, which read the whole table.

use std::collections::BTreeSet;
use std::time::Duration;

use idem_conformance::{CaseResult, Context};
use idem_core::admin::{Cursor, RecordFilter};
use idem_core::{IdempotencyStore, Key, RecordAdmin, Response, WatermarkStore};
use idem_dynamodb::aws_sdk_dynamodb::types::AttributeValue;

use super::HOUR;
use crate::support::{self, item, set};

/// Of other items in the table (marks, and somebody else's) a list shows none.
pub(super) async fn a_list_has_every_record_and_nothing_else(cx: &Context) -> CaseResult {
    let harness = support::harness()?;
    let store = harness.store(cx.namespace()).await?;
    let mut expected = BTreeSet::new();
    for at in 0..40 {
        let key = cx.key(format!("record {at} of % and :"));
        cx.hold(&cx.request(&key)).await?;
        expected.insert(key);
        store
            .advance(&cx.key(format!("source {at}")), 1, HOUR)
            .await?;
    }
    let theirs = AttributeValue::S("theirs".to_owned());
    let put = harness.client().put_item().table_name(cx.namespace());
    put.item("pk", theirs).send().await?;
    for limit in [1, 7, 1000] {
        let (mut found, mut after) = (BTreeSet::<Key>::new(), None);
        loop {
            let page = store
                .list(&RecordFilter::new(), after.as_ref(), limit)
                .await?;
            assert!(page.records.len() <= limit as usize);
            found.extend(page.records.into_iter().map(|record| record.key));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(found, expected, "pages of {limit}");
    }
    for cursor in ["", "theirs", "r:a:b:c", "pk>"] {
        let cursor = Cursor::new(cursor);
        let list = store.list(&RecordFilter::new(), Some(&cursor), 10).await;
        assert!(list.is_err(), "{}", cursor.as_str());
    }
    Ok(())
}

/// A token that a clock an hour behind has not passed keeps its item.
pub(super) async fn expired_records_with_an_old_token_are_deleted(cx: &Context) -> CaseResult {
    let store = cx.store();
    let [old, young, live] = ["old", "young", "live"].map(|id| cx.request(&cx.key(id)));
    for request in [&old, &young] {
        let claim = cx.claim(request).await?;
        let soon = Duration::from_millis(1);
        store
            .complete(&claim, &Response::new(200, "x"), soon)
            .await?;
    }
    let claim = cx.claim(&live).await?;
    for request in [&old, &young] {
        cx.until_free(request.key()).await?;
    }
    let token = claim.token().as_i64() - 2 * 3_600_000_000;
    for request in [&old, &live] {
        set(cx, request.key(), "token", token).await?;
    }
    // The store may know the clock only to some seconds.
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while store.delete_expired(10).await? == 0 {
        assert!(tokio::time::Instant::now() < deadline, "not deleted");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(item(cx, old.key()).await?, None);
    assert!(
        item(cx, young.key()).await?.is_some(),
        "its token is needed"
    );
    assert!(item(cx, live.key()).await?.is_some(), "it is live");
    assert_eq!(store.delete_expired(10).await?, 0);
    let next = cx.claim(&cx.request(old.key())).await?;
    assert!(next.token().as_i64() > token);
    Ok(())
}
