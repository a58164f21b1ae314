//! Lists, and records that are forced to go.

use std::collections::BTreeMap;
use std::time::Duration;

use idem_conformance::{Case, CaseResult, Context};
use idem_core::admin::{
    Cursor, Forced, ForcedAction, ForcedStep, RecordFilter, RecordSummary, SummaryState,
};
use idem_core::backend::ChangeNotifier;
use idem_core::{
    AttemptId, Checkpoint, CheckpointStore, ErrorKind, Failure, IdempotencyStore,
    IdempotencyStoreExt, Key, Nonce, RecordAdmin, Response, WatermarkStore,
};
use idem_redis::{Config, Enforce, NonceWindow, RedisStore, redis};

use super::{HOUR, case, on_the_wire, record_key};
use crate::support::{self, Tap};

pub(super) const A_LIST_HAS_EVERY_RECORD_AND_NOTHING_ELSE: Case =
    case(10, "a_list_has_every_record_and_nothing_else", |cx| {
        Box::pin(a_list_has_every_record_and_nothing_else(cx))
    });
pub(super) const GARBAGE_UNDER_A_RECORDS_KEY_IS_LISTED_AS_UNREADABLE: Case = case(
    14,
    "garbage_under_a_records_key_is_listed_as_unreadable",
    |cx| Box::pin(garbage_under_a_records_key_is_listed_as_unreadable(cx)),
);
pub(super) const A_LIST_READS_THE_FIRST_BYTES_OF_RESULTS: Case =
    on_the_wire(16, "a_list_reads_the_first_bytes_of_results", |cx| {
        Box::pin(a_list_reads_the_first_bytes_of_results(cx))
    });
pub(super) const A_LIST_BEGINS_ANEW_ON_ANOTHER_SERVER: Case =
    case(16, "a_list_begins_anew_on_another_server", |cx| {
        Box::pin(a_list_begins_anew_on_another_server(cx))
    });
pub(super) const A_TOKEN_GROWS_THOUGH_THE_RECORD_WAS_FORCED_TO_GO: Case = case(
    5,
    "a_token_grows_though_the_record_was_forced_to_go",
    |cx| Box::pin(a_token_grows_though_the_record_was_forced_to_go(cx)),
);
pub(super) const A_FORCED_DELETION_WAKES_LISTENERS: Case =
    case(14, "a_forced_deletion_wakes_listeners", |cx| {
        Box::pin(a_forced_deletion_wakes_listeners(cx))
    });

/// Returns the records of all pages, by their ids.
async fn list_all(store: &RedisStore, limit: u32) -> CaseResult<BTreeMap<String, RecordSummary>> {
    let filter = RecordFilter::new();
    let (mut records, mut cursor) = (BTreeMap::new(), None);
    loop {
        let page = store.list(&filter, cursor.as_ref(), limit).await?;
        assert!(page.records.len() <= page.looked_at as usize);
        for record in page.records {
            records.insert(record.key.id().to_owned(), record);
        }
        cursor = page.next;
        if cursor.is_none() {
            return Ok(records);
        }
    }
}

fn forced(key: &Key, record: &RecordSummary, action: ForcedAction) -> CaseResult<ForcedStep> {
    Ok(ForcedStep::new(
        key.clone(),
        record.token,
        action,
        "ada",
        "a test",
    )?)
}

async fn a_list_has_every_record_and_nothing_else(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let store = harness.store(cx.namespace()).await?;
    let claim = cx.claim(&cx.request(&cx.key("done"))).await?;
    store
        .complete(&claim, &Response::new(200, "done"), HOUR)
        .await?;
    let claim = cx.claim(&cx.request(&cx.key("failed:{a}"))).await?;
    let failure = Failure::new("declined", "no funds");
    store.fail(&claim, &failure, HOUR).await?;
    let claim = cx.claim(&cx.request(&cx.key("held"))).await?;
    let point = Checkpoint::new("charged", vec![7; 9_000])?;
    store.checkpoint(&claim, &point).await?;
    cx.leave_stale(&cx.request(&cx.key("stale"))).await?;
    let claim = cx.claim(&cx.request(&cx.key("expired"))).await?;
    let response = Response::new(200, "expired");
    store
        .complete(&claim, &response, Duration::from_millis(1))
        .await?;
    cx.until_free(claim.key()).await?;
    let claim = cx.claim(&cx.request(&cx.key("released"))).await?;
    store.release(&claim).await?;
    store.advance(&cx.key("mark"), 7, HOUR).await?;
    let nonces = NonceWindow::new(store.clone());
    let (nonce, post) = (Nonce::new("nonce")?, async || {
        Ok::<_, std::io::Error>("1".to_owned())
    });
    nonces
        .post("author", Some(&nonce), Enforce::Yes, post)
        .await?;
    let cache = harness.cache(cx.namespace())?;
    let ticket = cache.read(&cx.key("cached")).await?.ticket;
    assert!(
        cache
            .store(&cx.key("cached"), &ticket, b"entry", HOUR)
            .await?
    );
    for rest in [
        "x:r:a:b:c",
        ":r:a:b",
        ":r:a:b:{c}",
        ":r:a:b:%3a",
        ":r:a:b:c\n",
    ] {
        let mut set = redis::cmd("SET");
        set.arg(format!("{}{rest}", cx.namespace())).arg("theirs");
        harness.query::<()>(set.arg("EX").arg(600)).await?;
    }
    let mut push = redis::cmd("RPUSH");
    push.arg(record_key(&store, &cx.key("a list")))
        .arg("theirs");
    harness.query::<()>(&push).await?;
    for limit in [1, 3, 10_000] {
        let records = list_all(&store, limit).await?;
        let states: Vec<_> = records
            .iter()
            .map(|(id, record)| (id.as_str(), record.state))
            .collect();
        let expected = [
            ("done", SummaryState::Completed),
            ("expired", SummaryState::Expired),
            ("failed:{a}", SummaryState::Failed),
            ("held", SummaryState::InFlight),
            ("stale", SummaryState::Stale),
        ];
        assert_eq!(states, expected, "pages of {limit}");
        assert_eq!(
            records["failed:{a}"].failure_code.as_deref(),
            Some("declined")
        );
        assert_eq!(records["held"].checkpoint.as_deref(), Some("charged"));
        let bytes = point.encode(&store.limits())?.len() as u64;
        assert_eq!(records["held"].result_bytes, bytes);
        for (id, record) in records {
            let mut one = store.summary(&cx.key(&id)).await?.expect("there");
            one.observed_at = record.observed_at;
            assert_eq!(one, record, "{id}");
        }
    }
    assert_eq!(store.summary(&cx.key("released")).await?, None);
    assert_eq!(store.summary(&cx.key("never")).await?, None);
    let error = store.summary(&cx.key("a list")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    for text in ["", "0", "0 0", "0 9 0 0", "0 0 a:b:c", "zz 0 0"] {
        let cursor = Cursor::new(text);
        let listed = store.list(&RecordFilter::new(), Some(&cursor), 1).await;
        let error = listed.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{text}: {error}");
    }
    Ok(())
}

async fn garbage_under_a_records_key_is_listed_as_unreadable(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let store = harness.store(cx.namespace()).await?;
    let key = cx.key("one");
    cx.hold(&cx.request(&key)).await?;
    let name = record_key(&store, &key);
    let record: Vec<u8> = harness.query(redis::cmd("GET").arg(&name)).await?;
    let mut later = record.clone();
    later[0] = 2;
    let mut long = record.clone();
    // The length of the metadata.
    long[96] = 255;
    for value in [
        Vec::new(),
        b"{}".to_vec(),
        record[..99].to_vec(),
        later,
        long,
    ] {
        let mut set = redis::cmd("SET");
        set.arg(&name).arg(&value[..]).arg("EX").arg(600);
        harness.query::<()>(&set).await?;
        let records = list_all(&store, 100).await?;
        assert_eq!(records["one"].state, SummaryState::Unreadable);
        let one = store.summary(&key).await?.expect("there");
        assert_eq!(one.state, SummaryState::Unreadable);
        let delete = forced(&key, &one, ForcedAction::Delete)?;
        let answer = store.force(&delete).await?;
        assert!(matches!(answer, Forced::Refused { .. }), "{answer:?}");
        let kept: Vec<u8> = harness.query(redis::cmd("GET").arg(&name)).await?;
        assert_eq!(kept, value, "it was overwritten");
    }
    Ok(())
}

/// Returns this many bytes, which no compression makes fewer.
fn random(count: usize) -> Vec<u8> {
    let some = || *AttemptId::random().as_bytes();
    std::iter::repeat_with(some).flatten().take(count).collect()
}

/// Neither the server's answers nor its own work grow with the results.
async fn a_list_reads_the_first_bytes_of_results(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let store = harness.store(cx.namespace()).await?;
    for number in 0..3 {
        let claim = cx
            .claim(&cx.request(&cx.key(format!("done {number}"))))
            .await?;
        let response = Response::new(200, random(1 << 20));
        store.complete(&claim, &response, HOUR).await?;
        let claim = cx
            .claim(&cx.request(&cx.key(format!("failed {number}"))))
            .await?;
        let failure = Failure::new("declined", "no").with_details(random(1 << 20));
        store.fail(&claim, &failure, HOUR).await?;
    }
    let tap = Tap::start(harness.server_address().expect("one server")).await?;
    let config = Config::new().with_namespace(cx.namespace())?;
    let store = RedisStore::connect(&format!("redis://{}", tap.address()), config).await?;
    let before = tap.returned().len();
    let records = list_all(&store, 10_000).await?;
    assert_eq!(records.len(), 6);
    for (id, record) in &records {
        assert!(record.result_bytes > 1 << 20, "{id}");
        let code = id.starts_with("failed").then_some("declined");
        assert_eq!(record.failure_code.as_deref(), code, "{id}");
    }
    let returned = tap.returned().len() - before;
    assert!(returned < 6 * 5_000 + 20_000, "{returned} bytes");
    Ok(())
}

/// The cursor of another server, or of this one before it was restarted.
async fn a_list_begins_anew_on_another_server(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    for number in 0..20 {
        cx.hold(&cx.request(&cx.key(format!("{number}")))).await?;
    }
    let mut found = BTreeMap::new();
    let mut cursor = Some(Cursor::new("0 2 17"));
    while let Some(after) = cursor {
        let page = store
            .list(&RecordFilter::new(), Some(&after), 10_000)
            .await?;
        for record in page.records {
            found.insert(record.key.id().to_owned(), record.state);
        }
        cursor = page.next;
    }
    assert_eq!(found.len(), 20);
    Ok(())
}

async fn a_token_grows_though_the_record_was_forced_to_go(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let store = harness.store(cx.namespace()).await?;
    let key = cx.key("ahead");
    let name = record_key(&store, &key);
    let claim = cx.claim(&cx.request(&key)).await?;
    let wrong = Response::new(200, "wrong");
    store.complete(&claim, &wrong, HOUR).await?;
    // As a clock that was ahead by a day would have written it.
    let mut record: Vec<u8> = harness.query(redis::cmd("GET").arg(&name)).await?;
    let ahead = claim.token().as_i64() + 24 * 3_600_000_000;
    record[7..15].copy_from_slice(&ahead.to_be_bytes());
    let mut set = redis::cmd("SET");
    harness
        .query::<()>(set.arg(&name).arg(record).arg("KEEPTTL"))
        .await?;
    let stale = ForcedStep::new(
        key.clone(),
        claim.token(),
        ForcedAction::Delete,
        "ada",
        "wrong",
    )?;
    let answer = store.force(&stale).await?;
    assert!(
        matches!(answer, Forced::Refused { current: Some(_) }),
        "{answer:?}"
    );
    let before = store.summary(&key).await?.expect("there");
    let delete = forced(&key, &before, ForcedAction::Delete)?;
    let answer = store.force(&delete).await?;
    assert!(matches!(answer, Forced::Done { .. }), "{answer:?}");
    assert_eq!(store.summary(&key).await?, None);
    let kept: Vec<u8> = harness.query(redis::cmd("GET").arg(&name)).await?;
    assert_eq!(kept.len(), 100, "nothing of the result is left");
    let left: i64 = harness.query(redis::cmd("PTTL").arg(&name)).await?;
    assert!(
        left > 23 * 3_600_000,
        "its token is forgotten after {left} ms"
    );
    for error in [
        store.complete(&claim, &wrong, HOUR).await.unwrap_err(),
        store.renew(&claim, HOUR).await.unwrap_err(),
    ] {
        assert!(error.is_claim_lost(), "{error}");
    }
    let answer = store.force(&delete).await?;
    assert_eq!(
        answer,
        Forced::Refused { current: None },
        "there is no more to delete"
    );
    let next = cx.claim(&cx.other_request(&key)).await?;
    assert_eq!(next.token().as_i64(), ahead + 1);
    assert!(!next.is_takeover(), "a fresh key");
    assert_eq!(store.history(&key).await?.len(), 1);
    Ok(())
}

async fn a_forced_deletion_wakes_listeners(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    let key = cx.key("one");
    let claim = cx.claim(&cx.request(&key)).await?;
    store
        .complete(&claim, &Response::new(200, "wrong"), HOUR)
        .await?;
    let mut listening = store.listen(&key).await?;
    let moment = Duration::from_millis(100);
    while tokio::time::timeout(moment, listening.changed())
        .await
        .is_ok()
    {}
    let before = store.summary(&key).await?.expect("there");
    store
        .force(&forced(&key, &before, ForcedAction::Delete)?)
        .await?;
    let heard = tokio::time::timeout(Duration::from_secs(10), listening.changed());
    assert!(heard.await.is_ok(), "nothing was published");
    Ok(())
}
