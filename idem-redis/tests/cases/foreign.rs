//! Data that other programs have put on the server.

use idem_conformance::{Case, CaseResult, Context};
use idem_core::{Effect, ErrorKind, IdempotencyStore, Response, StalePolicy};
use idem_redis::redis;

use super::{HOUR, case, record_key};
use crate::support;

pub(super) const A_KEY_THAT_HOLDS_SOMETHING_ELSE_IS_REFUSED: Case =
    case(14, "a_key_that_holds_something_else_is_refused", |cx| {
        Box::pin(a_key_that_holds_something_else_is_refused(cx))
    });
pub(super) const GARBAGE_UNDER_A_RECORDS_KEY_IS_CORRUPT_AND_STAYS: Case = case(
    14,
    "garbage_under_a_records_key_is_corrupt_and_stays",
    |cx| Box::pin(garbage_under_a_records_key_is_corrupt_and_stays(cx)),
);
pub(super) const OTHERS_KEYS_ARE_LEFT_ALONE: Case = case(10, "others_keys_are_left_alone", |cx| {
    Box::pin(others_keys_are_left_alone(cx))
});

async fn a_key_that_holds_something_else_is_refused(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let store = harness.store(cx.namespace()).await?;
    let request = cx.request(&cx.key("one"));
    let claim = cx.claim(&request).await?;
    let name = record_key(&store, request.key());
    harness.query::<()>(redis::cmd("DEL").arg(&name)).await?;
    let mut push = redis::cmd("RPUSH");
    harness.query::<()>(push.arg(&name).arg("a list")).await?;
    for error in [
        store.claim(&request).await.unwrap_err(),
        store.get(request.key()).await.unwrap_err(),
        store.release(&claim).await.unwrap_err(),
        store.renew(&claim, HOUR).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        assert_eq!(error.effect(), Effect::None, "{error}");
        assert!(error.to_string().contains("WRONGTYPE"), "{error}");
        assert!(!error.to_string().contains(&name), "{error}");
    }
    assert_eq!(store.fail_abandoned(10).await?, 0);
    let length: u32 = harness.query(redis::cmd("LLEN").arg(&name)).await?;
    assert_eq!(length, 1, "the list is as it was");
    Ok(())
}

/// Cut short, of a later version, or nothing that this crate has ever written; of a record that is
/// held.
fn garbage(record: &[u8]) -> Vec<Vec<u8>> {
    let changed = |place: usize, byte: u8| {
        let mut record = record.to_vec();
        record[place] = byte;
        record
    };
    vec![
        Vec::new(),
        b"{\"state\":\"done\"}".to_vec(),
        record[..99].to_vec(),
        changed(0, 2),
        // Metadata that is longer than all the rest, and a state that does not exist.
        changed(96, 255),
        changed(1, 9),
        vec![0; 200],
        vec![255; 200],
    ]
}

async fn garbage_under_a_records_key_is_corrupt_and_stays(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let store = harness.store(cx.namespace()).await?;
    let request = cx.request(&cx.key("one"));
    let claim = cx.claim(&request).await?;
    let name = record_key(&store, request.key());
    let record: Vec<u8> = harness.query(redis::cmd("GET").arg(&name)).await?;
    for (number, value) in garbage(&record).into_iter().enumerate() {
        let mut set = redis::cmd("SET");
        set.arg(&name).arg(&value[..]).arg("EX").arg(600);
        harness.query::<()>(&set).await?;
        let error = store.get(request.key()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{number}: {error}");
        let duplicate = cx.request(request.key());
        match store.claim(&duplicate).await {
            Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "{number}: {error}"),
            Ok(outcome) => assert_eq!(outcome.name(), "conflict", "{number}"),
        }
        assert_eq!(store.fail_abandoned(10).await?, 0, "{number}");
        if value.first() != Some(&1) {
            let response = Response::new(200, "done");
            store.complete(&claim, &response, HOUR).await.unwrap_err();
            store.release(&claim).await.unwrap_err();
            store.renew(&claim, HOUR).await.unwrap_err();
        }
        let kept: Vec<u8> = harness.query(redis::cmd("GET").arg(&name)).await?;
        assert_eq!(kept, value, "{number}: it was overwritten");
    }
    Ok(())
}

async fn others_keys_are_left_alone(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let store = harness.store(cx.namespace()).await?;
    let namespace = cx.namespace();
    let mut theirs: Vec<Vec<u8>> = ["x:r:a:b:c", "-2:r:a:b:c", ":r", ":R:a:b:c", ":x:r:a"]
        .map(|rest| format!("{namespace}{rest}").into_bytes())
        .into();
    // Not a text, and yet among the records.
    theirs.push([format!("{namespace}:r:").as_bytes(), b"\xff\xfe"].concat());
    theirs.push([format!("{namespace}:r:a:b:").as_bytes(), b"c\nd"].concat());
    for name in &theirs {
        let mut set = redis::cmd("SET");
        set.arg(&name[..]).arg("theirs").arg("EX").arg(600);
        harness.query::<()>(&set).await?;
    }
    let stale = cx.request(&cx.key("one")).with_on_stale(StalePolicy::Fail);
    cx.leave_stale(&stale).await?;
    assert_eq!(store.fail_abandoned(100).await?, 1);
    assert_eq!(store.delete_expired(100).await?, 0);
    for name in &theirs {
        let kept: String = harness.query(redis::cmd("GET").arg(&name[..])).await?;
        assert_eq!(kept, "theirs");
    }
    Ok(())
}
