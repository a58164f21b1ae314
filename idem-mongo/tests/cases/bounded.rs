//! Law 16, and the server's own deletions.

use std::time::Duration;

use idem_conformance::{Case, CaseError, CaseResult, Context};
use idem_core::{
    BatchStore, Checkpoint, CheckpointStore, Effect, ErrorKind, IdempotencyStore, Response,
    WatermarkStore,
};
use idem_mongo::mongodb::bson::{Bson, Document, doc};

use super::case;
use super::reads::duplicates;
use crate::support::{self, Watch, documents};

pub(super) const A_CLOCK_THAT_WAS_SET_BACK_TAKES_NO_TOKEN_BACK: Case =
    case(5, "a_clock_that_was_set_back_takes_no_token_back", |cx| {
        Box::pin(a_clock_that_was_set_back_takes_no_token_back(cx))
    });
pub(super) const A_TOKEN_THAT_CANNOT_GROW_IS_TOLD: Case =
    case(5, "a_token_that_cannot_grow_is_told", |cx| {
        Box::pin(a_token_that_cannot_grow_is_told(cx))
    });
pub(super) const NO_OPERATION_SCANS_THE_COLLECTION: Case =
    case(16, "no_operation_scans_the_collection", |cx| {
        Box::pin(no_operation_scans_the_collection(cx))
    });
pub(super) const PURGE_COUNTS_WHAT_IT_DELETES: Case =
    case(16, "purge_counts_what_it_deletes", |cx| {
        Box::pin(purge_counts_what_it_deletes(cx))
    });
pub(super) const PURGES_BESIDE_EACH_OTHER_COUNT_EACH_RECORD_ONCE: Case = case(
    16,
    "purges_beside_each_other_count_each_record_once",
    |cx| Box::pin(purges_beside_each_other_count_each_record_once(cx)),
);
pub(super) const THE_SERVER_DELETES_NOTHING_THAT_MAY_BE_NEEDED: Case =
    case(8, "the_server_deletes_nothing_that_may_be_needed", |cx| {
        Box::pin(the_server_deletes_nothing_that_may_be_needed(cx))
    });

const HOUR: Duration = Duration::from_secs(3600);

/// Also for a process that writes before it reads.
async fn a_token_that_cannot_grow_is_told(cx: &Context) -> CaseResult {
    let store = support::harness()?.store(cx.namespace()).await?;
    let claim = cx.claim(&cx.request(&cx.key("spent"))).await?;
    cx.store().release(&claim).await?;
    let database = support::harness()?.database(cx.namespace()).await?;
    let records = database.collection::<Document>("idem_records");
    let key = doc! { "_id": claim.key().path() };
    let spent = doc! { "$set": { "token": i64::MAX } };
    records.update_one(key.clone(), spent).await?;
    let before = records.find_one(key.clone()).await?;
    for round in 0..2 {
        let error = store.claim(&cx.request(claim.key())).await.unwrap_err();
        let (kind, effect) = (error.kind(), error.effect());
        assert_eq!(
            (kind, effect),
            (ErrorKind::Corrupt, Effect::None),
            "{error}"
        );
        assert!(error.to_string().contains("deleted"), "{error}");
        for number in 0..20 {
            let fresh = cx.request(&cx.key(format!("{round} {number}")));
            assert!(store.claim(&fresh).await?.acquired().is_some());
        }
    }
    assert_eq!(before, records.find_one(key).await?, "the record");
    Ok(())
}

/// A clock that was set back leaves behind a token from the future.
async fn a_clock_that_was_set_back_takes_no_token_back(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("ahead"))).await?;
    cx.store().release(&claim).await?;
    let hour = 3_600_000_000_i64;
    let database = support::harness()?.database(cx.namespace()).await?;
    let records = database.collection::<Document>("idem_records");
    records
        .update_one(
            doc! { "_id": claim.key().path() },
            doc! { "$inc": { "token": hour } },
        )
        .await?;
    assert_eq!(
        cx.store().delete_expired(10).await?,
        0,
        "the next token needs it"
    );
    let next = cx.claim(&cx.request(claim.key())).await?;
    assert!(next.token().as_i64() > claim.token().as_i64() + hour);
    let found = documents(cx).await?;
    let purge_at = found[0].get_datetime("purge_at")?.timestamp_millis();
    assert!(purge_at * 1000 > next.token().as_i64(), "too early");
    Ok(())
}

/// The server deletes a minute after the end of the retention and after the token, so that the
/// clocks of members may differ.
async fn the_server_deletes_nothing_that_may_be_needed(cx: &Context) -> CaseResult {
    let minute = 60_000_000;
    duplicates(cx).await?;
    let claim = cx.claim(&cx.request(&cx.key("renewed"))).await?;
    let _renewed = cx.store().renew(&claim, HOUR).await?;
    let claim = cx.claim(&cx.request(&cx.key("released"))).await?;
    cx.store().release(&claim).await?;
    let found = documents(cx).await?;
    assert_eq!(found.len(), 5);
    for document in found {
        let purge_at = document.get_datetime("purge_at")?.timestamp_millis() * 1000;
        for field in ["token", "expires_at"] {
            let instant = document.get_i64(field)?;
            assert!(purge_at >= instant + minute - 1000, "{field} in {document}");
        }
    }
    Ok(())
}

/// Completes `count` claims, and waits until their retention has ended.
async fn expired(cx: &Context, count: usize) -> CaseResult {
    let mut claims = Vec::new();
    for at in 0..count {
        let request = cx.request(&cx.key(format!("expired {at}")));
        claims.push(cx.claim(&request).await?);
    }
    let response = Response::new(200, "x");
    for claim in &claims {
        cx.store().complete(claim, &response, cx.short()).await?;
    }
    for claim in &claims {
        cx.until_free(claim.key()).await?;
    }
    Ok(())
}

/// For a minute after the end of the retention the server leaves the record to `delete_expired`.
async fn purge_counts_what_it_deletes(cx: &Context) -> CaseResult {
    let live = cx.claim(&cx.request(&cx.key("live"))).await?;
    expired(cx, 10).await?;
    for deleted in [4, 4, 2, 0] {
        assert_eq!(cx.store().delete_expired(4).await?, deleted, "deleted");
    }
    assert!(cx.store().get(live.key()).await?.is_some());
    assert_eq!(documents(cx).await?.len(), 1);
    Ok(())
}

async fn purges_beside_each_other_count_each_record_once(cx: &Context) -> CaseResult {
    expired(cx, 40).await?;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let store = cx.store().clone();
        tasks.spawn(async move {
            let mut total = 0;
            while let deleted @ 1.. = store.delete_expired(7).await? {
                total += deleted;
            }
            Ok::<_, idem_core::Error>(total)
        });
    }
    let mut total = 0;
    while let Some(deleted) = tasks.join_next().await {
        total += deleted??;
    }
    assert_eq!(total, 40, "deleted by all together");
    Ok(())
}

/// Checks the server's own plan for each command of each operation, among thousands of records.
async fn no_operation_scans_the_collection(cx: &Context) -> CaseResult {
    let (harness, watch) = (support::harness()?, Watch::default());
    fill(cx, 3000).await?;
    let requests = duplicates(cx).await?;
    let store = watch.store(&harness, harness.config(cx.namespace())?);
    let store = store.await?;
    store.get(&cx.key("none")).await?;
    watch.take(&[]);
    for outcome in store.claim_many(&requests).await {
        drop(outcome?);
    }
    let claim = store.claim(&cx.request(&cx.key("fresh"))).await?;
    let claim = store.renew(&claim.acquired().expect("fresh"), HOUR).await?;
    store
        .checkpoint(&claim, &Checkpoint::new("a", "b")?)
        .await?;
    assert!(store.last_checkpoint(&claim).await?.is_some());
    store
        .complete(&claim, &Response::new(200, "x"), HOUR)
        .await?;
    store.advance(claim.key(), 1, cx.short()).await?;
    while store.watermark(claim.key()).await?.is_some() {}
    assert_eq!(store.delete_expired_watermarks(10).await?, 1);
    assert_eq!(store.delete_expired(700).await?, 300);
    assert_eq!(store.fail_abandoned(700).await?, 0);
    let database = harness.database(cx.namespace()).await?;
    let mut explained = 0;
    for mut command in watch.take(&["aggregate", "findAndModify", "update", "delete"]) {
        for field in [
            "lsid",
            "$db",
            "$clusterTime",
            "txnNumber",
            "startTransaction",
            "autocommit",
            "writeConcern",
            "readConcern",
        ] {
            command.remove(field);
        }
        let name = command.keys().next().cloned().unwrap_or_default();
        let explain = doc! { "explain": command, "verbosity": "queryPlanner" };
        let plan = database.run_command(explain).await?;
        let stages = stages(&Bson::Document(plan));
        assert!(!stages.is_empty(), "no plan for {name}");
        assert!(
            !stages.contains(&"COLLSCAN".to_owned()),
            "{name}: {stages:?}"
        );
        explained += 1;
    }
    match explained {
        16.. => Ok(()),
        few => Err(CaseError::new(format!("{few} commands"))),
    }
}

/// Returns the stages of the winning plan; those of rejected plans do not count.
fn stages(plan: &Bson) -> Vec<String> {
    match plan {
        Bson::Array(parts) => parts.iter().flat_map(stages).collect(),
        Bson::Document(parts) => parts
            .iter()
            .filter(|(name, _)| *name != "rejectedPlans" && *name != "command")
            .flat_map(|(name, part)| match part {
                Bson::String(stage) if name == "stage" => vec![stage.clone()],
                part => stages(part),
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// Inserts records of which one in ten has expired.
async fn fill(cx: &Context, count: i64) -> CaseResult {
    let database = support::harness()?.database(cx.namespace()).await?;
    let record = |number: i64| {
        let expires_at = if number % 10 == 0 {
            1_i64
        } else {
            4_000_000_000_000_000
        };
        // The purge finds what the TTL monitor deletes within a minute from now.
        let soon = idem_mongo::mongodb::bson::DateTime::now().timestamp_millis() + 50_000;
        let purge_at = idem_mongo::mongodb::bson::DateTime::from_millis(soon);
        let live = idem_mongo::mongodb::bson::DateTime::from_millis(4_000_000_000_000);
        doc! {
            "_id": format!("other:payments.create:filler-{number}"), "token": 1_i64, "state": 0_i64,
            "expires_at": expires_at, "lease_ends_at": 0_i64,
            "purge_at": if number % 10 == 0 { purge_at } else { live },
        }
    };
    let records = database.collection::<Document>("idem_records");
    records.insert_many((0..count).map(record)).await?;
    Ok(())
}
