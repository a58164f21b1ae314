//! The settings that the store sends with each command.

use std::time::Duration;

use idem_conformance::{Case, CaseResult, Context};
use idem_core::{
    BatchStore, Checkpoint, CheckpointStore, Claim, ErrorKind, Failure, Finish, IdempotencyStore,
    Limits, Record, Response, StalePolicy,
};
use idem_mongo::mongodb::bson::{Bson, Document};
use idem_mongo::{Config, Durability, MongoStore};

use super::case;
use crate::support::{self, Watch};

pub(super) const WRITES_ARE_JOURNALED_BY_A_MAJORITY: Case =
    case(12, "writes_are_journaled_by_a_majority", |cx| {
        Box::pin(writes_are_journaled_by_a_majority(cx))
    });
pub(super) const A_WEAKER_CONCERN_IS_SENT_WHEN_IT_IS_CHOSEN: Case =
    case(12, "a_weaker_concern_is_sent_when_it_is_chosen", |cx| {
        Box::pin(a_weaker_concern_is_sent_when_it_is_chosen(cx))
    });
pub(super) const WRITES_CAN_BE_RETRIED_BY_THE_DRIVER: Case =
    case(14, "writes_can_be_retried_by_the_driver", |cx| {
        Box::pin(writes_can_be_retried_by_the_driver(cx))
    });
pub(super) const NOTHING_IS_SENT_OF_WHAT_IS_TOO_LARGE: Case =
    case(11, "nothing_is_sent_of_what_is_too_large", |cx| {
        Box::pin(nothing_is_sent_of_what_is_too_large(cx))
    });
pub(super) const FIFTEEN_MEBIBYTES_ARE_REPLAYED: Case =
    case(3, "fifteen_mebibytes_are_replayed", |cx| {
        Box::pin(fifteen_mebibytes_are_replayed(cx))
    });

const HOUR: Duration = Duration::from_secs(3600);
const WRITES: &[&str] = &["findAndModify", "update", "delete", "insert"];
const READS: &[&str] = &["aggregate", "find"];

/// Calls every operation that writes.
async fn every_write(cx: &Context, store: &MongoStore) -> CaseResult {
    let claim = async |id: &str| -> CaseResult<Claim> {
        let outcome = store.claim(&cx.request(&cx.key(id))).await?;
        Ok(outcome.acquired().expect("the key is fresh"))
    };
    let renewed = store.renew(&claim("done").await?, HOUR).await?;
    let response = Response::new(200, "done");
    store.complete(&renewed, &response, cx.short()).await?;
    let failure = Failure::new("no", "no");
    store.fail(&claim("failed").await?, &failure, HOUR).await?;
    store.release(&claim("released").await?).await?;
    let completion = Finish::Complete {
        claim: claim("batch").await?,
        response,
        retention: HOUR,
    };
    store.finish_many(&[completion]).await.remove(0)?;
    let stale = cx.request(&cx.key("stale")).with_lease(cx.short());
    cx.leave_stale(&stale.with_on_stale(StalePolicy::Fail))
        .await?;
    assert_eq!(store.fail_abandoned(10).await?, 1, "abandoned");
    cx.until_free(&cx.key("done")).await?;
    assert_eq!(store.delete_expired(10).await?, 2, "done and released");
    Ok(())
}

async fn writes_are_journaled_by_a_majority(cx: &Context) -> CaseResult {
    let (harness, watch) = (support::harness()?, Watch::default());
    let config = harness.config(cx.namespace())?;
    let store = watch.store(&harness, config).await?;
    every_write(cx, &store).await?;
    let commands = watch.take(&[WRITES, READS].concat());
    let mut writes = 0;
    for command in commands {
        let name = command.keys().next().cloned().unwrap_or_default();
        if !WRITES.contains(&name.as_str()) {
            assert_eq!(level(&command), Some("majority"), "read concern of {name}");
            continue;
        }
        writes += 1;
        let concern = command.get_document("writeConcern").expect("a concern");
        assert_eq!(concern.get_str("w").ok(), Some("majority"), "{name}");
        assert_eq!(concern.get_bool("j").ok(), Some(true), "{name}");
    }
    assert!(writes >= 11, "{writes} writes");
    Ok(())
}

fn level(command: &Document) -> Option<&str> {
    let concern = command.get_document("readConcern").ok()?;
    concern.get_str("level").ok()
}

async fn a_weaker_concern_is_sent_when_it_is_chosen(cx: &Context) -> CaseResult {
    let harness = support::harness()?;
    for (durability, journal) in [
        (Durability::PrimaryJournaled, true),
        (Durability::PrimaryMemory, false),
    ] {
        let watch = Watch::default();
        let config = harness.config(cx.namespace())?;
        let store = watch.store(&harness, config.with_durability(durability));
        let request = cx.request(&cx.key(format!("{durability:?}")));
        store.await?.claim(&request).await?.acquired();
        let commands = watch.take(&[WRITES, READS].concat());
        let write = commands.last().expect("a write");
        let concern = write.get_document("writeConcern").expect("a concern");
        let nodes = concern.get("w").and_then(|nodes| match nodes {
            Bson::Int32(nodes) => Some(i64::from(*nodes)),
            nodes => nodes.as_i64(),
        });
        assert_eq!(
            (nodes, concern.get_bool("j").ok()),
            (Some(1), Some(journal))
        );
        let levels: Vec<_> = commands.iter().filter_map(level).collect();
        assert!(levels.iter().all(|level| *level == "local"), "{levels:?}");
    }
    Ok(())
}

/// A claim and a renewal return the document, and have a transaction number, by which the server
/// recognizes a repeated command; standalone servers have none. It keeps an image of the document
/// then. A step without a document keeps none, and the store repeats it.
async fn writes_can_be_retried_by_the_driver(cx: &Context) -> CaseResult {
    let (harness, watch) = (support::harness()?, Watch::default());
    let config = harness.config(cx.namespace())?;
    let store = watch.store(&harness, config).await?;
    let hello = harness
        .database(cx.namespace())
        .await?
        .run_command(idem_mongo::mongodb::bson::doc! { "hello": 1 })
        .await?;
    if !hello.contains_key("setName") && hello.get_str("msg").ok() != Some("isdbgrid") {
        return Ok(());
    }
    let claim = store.claim(&cx.request(&cx.key("one"))).await?;
    let claim = store.renew(&claim.acquired().expect("fresh"), HOUR).await?;
    let response = Response::new(200, "done");
    let checkpoint = Checkpoint::new("a", "b")?;
    store.checkpoint(&claim, &checkpoint).await?;
    store.complete(&claim, &response, HOUR).await?;
    let mut commands = watch.take(WRITES).into_iter().map(|write| {
        let name = write.keys().next().cloned().unwrap_or_default();
        (name, write.contains_key("txnNumber"))
    });
    for expected in [true, true, false, false] {
        let name = if expected { "findAndModify" } else { "update" };
        assert_eq!(commands.next(), Some((name.to_owned(), expected)));
    }
    assert_eq!(commands.next(), None);
    Ok(())
}

async fn nothing_is_sent_of_what_is_too_large(cx: &Context) -> CaseResult {
    let (harness, watch) = (support::harness()?, Watch::default());
    let limits = Limits::DEFAULT.with_max_result_bytes(15 << 20);
    let config = harness.config(cx.namespace())?.with_limits(limits)?;
    let store = watch.store(&harness, config).await?;
    let claim = cx.claim(&cx.request(&cx.key("one"))).await?;
    let response = Response::new(200, vec![7; 16 << 20]);
    let error = store.complete(&claim, &response, HOUR).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    // The stored form has seven bytes beside the body.
    assert!(error.to_string().contains("16777223"), "{error}");
    assert!(watch.take(&[]).is_empty(), "something was sent");
    let above = Limits::DEFAULT.with_max_result_bytes(16 << 20);
    assert!(Config::new().with_limits(above).is_err());
    Ok(())
}

/// The largest recommended result, under the longest key, with as much metadata as fits.
async fn fifteen_mebibytes_are_replayed(cx: &Context) -> CaseResult {
    let harness = support::harness()?;
    let limits = Limits::DEFAULT.with_max_result_bytes(15 << 20);
    let config = harness.config(cx.namespace())?.with_limits(limits)?;
    let store = Watch::default().store(&harness, config).await?;
    let key = idem_core::Key::new(":".repeat(255), "%".repeat(128), "{".repeat(255))?;
    let metadata = idem_core::Metadata::new().with("m", "x".repeat(4000));
    let request = cx.request(&key).with_metadata(metadata);
    let claim = store.claim(&request).await?.acquired().expect("fresh");
    let body: Vec<u8> = (0..(15 << 20) - 7)
        .map(|at: u32| at.to_le_bytes()[0])
        .collect();
    let response = Response::new(200, body);
    store.complete(&claim, &response, HOUR).await?;
    store.complete(&claim, &response, HOUR).await?;
    let Some(Record::Completed(record)) = store.get(&key).await? else {
        return Err(idem_conformance::CaseError::new("it is not there"));
    };
    assert!(record.response == response, "another response");
    Ok(())
}
