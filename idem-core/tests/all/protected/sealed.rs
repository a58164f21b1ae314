//! Ciphertexts: what they hide, and where they can be read.

use idem_core::wrappers::Protected;
use idem_core::wrappers::protected::PlainRecords;
use idem_core::{
    BatchStore, Bytes, Checkpoint, ClaimOutcome, ClaimRequest, ErrorKind, Failure, FencingToken,
    Fingerprint, Finish, IdempotencyStore, MemoryStore, Metadata, Record, Response,
};

use super::support::{
    HOUR, SECRET, claimed, failure, hold, key, request, response, ring, stored, under,
};

#[tokio::test]
async fn nothing_stored_shows_what_was_given() {
    let bare = MemoryStore::new();
    let store = under(&bare, &["k1"]);
    let claim = claimed(&store, &request("a")).await;
    let points = store.checkpoints().unwrap();
    let point = Checkpoint::new("charged", SECRET).unwrap();
    points.checkpoint(&claim, &point).await.unwrap();
    let raw = bare.checkpoints().unwrap();
    let raw = raw.last_checkpoint(&claim).await.unwrap().unwrap();
    assert_eq!(raw.name(), "charged");
    assert!(!String::from_utf8_lossy(raw.data()).contains(SECRET));
    assert_eq!(points.last_checkpoint(&claim).await.unwrap(), Some(point));
    store.complete(&claim, &response(), HOUR).await.unwrap();
    assert!(!stored(&bare, "a").await.contains(SECRET));

    let claim = claimed(&store, &request("b")).await;
    store.fail(&claim, &failure(), HOUR).await.unwrap();
    let text = stored(&bare, "b").await;
    assert!(!text.contains(SECRET) && text.contains("declined"));

    let answers = [request("a"), request("b")];
    let answers = store.claim_many(&answers).await;
    let Ok(ClaimOutcome::Completed(completed)) = &answers[0] else {
        panic!("{answers:?}");
    };
    assert_eq!(completed.response, response());
    assert_eq!(completed.info.metadata.get("host"), Some(SECRET));
    let Ok(ClaimOutcome::Failed(failed)) = &answers[1] else {
        panic!("{answers:?}");
    };
    assert_eq!(failed.failure, failure());
}

/// Seals the record "to" of the bare store with this response, and reads it through the store.
async fn read(
    bare: &MemoryStore,
    store: &Protected<MemoryStore>,
    to: &str,
    sealed: &Response,
) -> idem_core::Result<ClaimOutcome> {
    let claim = claimed(store, &request(to)).await;
    bare.complete(&claim, sealed, HOUR).await.unwrap();
    store.claim(&request(to)).await
}

#[tokio::test]
async fn a_flipped_bit_is_found_wherever_it_is() {
    let mut bit = 0;
    loop {
        let bare = MemoryStore::new();
        let store = under(&bare, &["k1"]);
        let claim = claimed(&store, &request("a")).await;
        let sealed = store.protect_response(&claim, &response()).unwrap();
        let mut body = sealed.body().to_vec();
        let Some(byte) = body.get_mut(bit / 8) else {
            break;
        };
        *byte ^= 1 << (bit % 8);
        let damaged = Response::new(sealed.status(), body);
        bare.complete(&claim, &damaged, HOUR).await.unwrap();
        let error = store.claim(&request("a")).await.unwrap_err();
        // A damaged head is no envelope, or one under another key.
        let kinds = [ErrorKind::Corrupt, ErrorKind::Misconfigured];
        assert!(kinds.contains(&error.kind()), "bit {bit}: {error}");
        assert!(store.get(&key("a")).await.is_err(), "bit {bit}");
        bit += 1;
    }
    assert!(bit > 8 * 65, "only {bit} bits");
}

#[tokio::test]
async fn a_ciphertext_that_was_cut_short_is_found_out() {
    let bare = MemoryStore::new();
    let store = under(&bare, &["k1"]);
    let mut length = 0;
    loop {
        let id = length.to_string();
        let claim = claimed(&store, &request(&id)).await;
        let sealed = store.protect_response(&claim, &response()).unwrap();
        if length == sealed.body().len() {
            break;
        }
        let cut = Response::new(sealed.status(), sealed.body().slice(..length));
        bare.complete(&claim, &cut, HOUR).await.unwrap();
        assert!(store.claim(&request(&id)).await.is_err(), "cut at {length}");
        length += 1;
    }
}

#[tokio::test]
async fn a_ciphertext_is_read_in_its_own_record_only() {
    let bare = MemoryStore::new();
    let store = under(&bare, &["k1"]);
    let first = claimed(&store, &request("a")).await;
    let sealed = store.protect_response(&first, &response()).unwrap();

    let error = read(&bare, &store, "another", &sealed).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("moved here"), "{error}");

    // Another attempt at the same key.
    store.release(&first).await.unwrap();
    let error = read(&bare, &store, "a", &sealed).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
}

#[tokio::test]
async fn a_ciphertext_passes_for_no_other_kind() {
    let bare = MemoryStore::new();
    let store = under(&bare, &["k1"]);
    let claim = claimed(&store, &request("a")).await;
    let sealed = store.protect_response(&claim, &response()).unwrap();
    let points = store.checkpoints().unwrap();
    let raw = bare.checkpoints().unwrap();
    let as_point = Checkpoint::new("x", sealed.body().clone()).unwrap();
    raw.checkpoint(&claim, &as_point).await.unwrap();
    let error = points.last_checkpoint(&claim).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);

    // A checkpoint under another name.
    let point = Checkpoint::new("charged", "x").unwrap();
    points.checkpoint(&claim, &point).await.unwrap();
    let stored = raw.last_checkpoint(&claim).await.unwrap().unwrap();
    let renamed = Checkpoint::new("refunded", stored.data().clone()).unwrap();
    raw.checkpoint(&claim, &renamed).await.unwrap();
    assert!(points.last_checkpoint(&claim).await.is_err());

    // A response as a failure, and a failure under another code.
    let failed = store.protect_failure(&claim, &failure()).unwrap();
    let as_failure = Failure::new("declined", failed.message()).with_details(sealed.body().clone());
    let renamed = Failure::new("accepted", failed.message()).with_details(failed.details().clone());
    let as_response = Response::new(sealed.status(), failed.details().clone());
    for wrong in [as_failure, renamed] {
        let bare = MemoryStore::new();
        let store = under(&bare, &["k1"]);
        let again = claimed(&store, &request("a")).await;
        assert_ne!(again.token(), FencingToken::from_i64(0));
        bare.fail(&again, &wrong, HOUR).await.unwrap();
        let error = store.claim(&request("a")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }
    bare.complete(&claim, &as_response, HOUR).await.unwrap();
    assert!(store.claim(&request("a")).await.is_err());
}

#[tokio::test]
async fn a_record_answers_the_request_that_claimed_it_whatever_fingerprint_it_shows() {
    let bare = MemoryStore::new();
    let store = under(&bare, &["k1"]);
    let own = request("a").with_metadata(Metadata::new());
    let claim = claimed(&store, &own).await;
    store.complete(&claim, &response(), HOUR).await.unwrap();
    // Somebody who writes to the table has an account, too.
    let theirs = ClaimRequest::new(key("a"), Fingerprint::raw("theirs"));
    let Some(Record::Completed(mut record)) = bare.get(&key("a")).await.unwrap() else {
        panic!("not completed");
    };
    let own_metadata = record.info.metadata.clone();
    for shown in [*theirs.fingerprint(), Fingerprint::UNKNOWN] {
        record.info.fingerprint = shown;
        for (metadata, kind) in [
            (own_metadata.clone(), ErrorKind::Corrupt),
            (Metadata::new(), ErrorKind::Misconfigured),
        ] {
            record.info.metadata = metadata;
            let met = ClaimOutcome::Completed(record.clone());
            let error = store.reveal(&theirs, met).await.unwrap_err();
            assert_eq!(error.kind(), kind, "{shown}");
        }
    }
    let answer = store.claim(&own).await.unwrap();
    assert_eq!(answer.name(), "completed");
}

#[tokio::test]
async fn metadata_belong_to_their_key() {
    let bare = MemoryStore::new();
    let store = under(&bare, &["k1"]);
    let moved = store.protect_claim(&request("a")).unwrap();
    let elsewhere = request("b").with_metadata(moved.metadata().clone());
    hold(&bare, &elsewhere).await;
    let error = store.get(&key("b")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert_eq!(
        store.claim(&request("b")).await.unwrap_err().kind(),
        ErrorKind::Corrupt
    );
}

#[tokio::test]
async fn a_missing_key_is_named_and_no_work_runs() {
    let bare = MemoryStore::new();
    let store = under(&bare, &["2026-01"]);
    let claim = claimed(&store, &request("a")).await;
    store.complete(&claim, &response(), HOUR).await.unwrap();
    let other = under(&bare, &["2026-02"]);
    for error in [
        other.claim(&request("a")).await.unwrap_err(),
        other.get(&key("a")).await.unwrap_err(),
        other
            .claim_many(&[request("a")])
            .await
            .remove(0)
            .unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        let text = error.to_string();
        assert!(
            text.contains("`2026-01`") && text.contains("add that key"),
            "{text}"
        );
        assert_eq!(error.backend(), "memory");
        assert!(!error.is_retryable());
    }
    // Nor without any key.
    let without = Protected::new(bare.clone());
    let error = without.claim(&request("a")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
}

#[tokio::test]
async fn plain_records_are_refused_or_read() {
    let bare = MemoryStore::new();
    for (id, request) in [
        ("metadata", request("metadata")),
        ("none", request("none").with_metadata(Metadata::new())),
    ] {
        let claim = claimed(&bare, &request).await;
        bare.complete(&claim, &response(), HOUR).await.unwrap();
        let strict = under(&bare, &["k1"]);
        let error = strict.claim(&request).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        assert!(
            error.to_string().contains("PlainRecords::Accept"),
            "{error}"
        );
        let lenient = under(&bare, &["k1"]).with_plain_records(PlainRecords::Accept);
        let record = lenient.get(&key(id)).await.unwrap().unwrap();
        assert_eq!(record.response(), Some(&response()));
        // The answer of this completion was lost before encryption was switched on.
        lenient.complete(&claim, &response(), HOUR).await.unwrap();
        let other = lenient
            .complete(&claim, &Response::new(200, ""), HOUR)
            .await;
        assert_eq!(other.unwrap_err().kind(), ErrorKind::AlreadySealed);
    }
}

#[tokio::test]
async fn a_record_that_the_store_has_abandoned_is_read() {
    let bare = MemoryStore::new();
    let store = under(&bare, &["k1"]);
    let request = request("a")
        .with_lease(std::time::Duration::from_millis(1))
        .with_on_stale(idem_core::StalePolicy::Fail);
    hold(&store, &request).await;
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while store.fail_abandoned(10).await.unwrap() == 0 {
        assert!(
            std::time::Instant::now() < deadline,
            "the lease does not end"
        );
        tokio::task::yield_now().await;
    }
    let Some(Record::Failed(record)) = store.get(&key("a")).await.unwrap() else {
        panic!("not failed");
    };
    assert_eq!(record.failure, Failure::abandoned());
    assert_eq!(record.info.metadata.get("host"), Some(SECRET));
}

#[tokio::test]
async fn limits_leave_room_for_encryption() {
    let inner = idem_core::Limits::DEFAULT
        .with_max_result_bytes(1_000)
        .with_max_metadata_bytes(400);
    let bare = MemoryStore::with_limits(inner);
    let longest = "k".repeat(32);
    let store = under(&bare, &[&longest]);
    let limits = store.limits();
    let value = "x".repeat(limits.max_metadata_bytes - r#"{"a":""}"#.len());
    let largest = request("a").with_metadata(Metadata::new().with("a", &*value));
    let claim = claimed(&store, &largest).await;
    let body = vec![7; limits.max_result_bytes - 7];
    let too_large = Response::new(200, [&body[..], b"x"].concat());
    let error = store.complete(&claim, &too_large, HOUR).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let finish = Finish::Complete {
        claim: claim.clone(),
        response: too_large,
        retention: HOUR,
    };
    let error = store.finish_many(&[finish]).await.remove(0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let point = Checkpoint::new("p", vec![0; limits.max_result_bytes - 3]).unwrap();
    let points = store.checkpoints().unwrap();
    points.checkpoint(&claim, &point).await.unwrap();
    store
        .complete(&claim, &Response::new(200, body), HOUR)
        .await
        .unwrap();

    let claim = claimed(&store, &request("b")).await;
    let details = vec![0; limits.max_result_bytes - 7 - "code".len()];
    let largest = Failure::new("code", "").with_details(Bytes::from(details));
    store.fail(&claim, &largest, HOUR).await.unwrap();
    let too_large = request("c").with_metadata(Metadata::new().with("a", format!("{value}x")));
    let error = store.claim(&too_large).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[tokio::test]
async fn a_batch_answers_in_the_order_of_its_items() {
    let bare = MemoryStore::new();
    let store = under(&bare, &["k1"]);
    let oversized = Metadata::new().with("a", "x".repeat(5_000));
    let requests = [
        request("a"),
        request("b").with_metadata(oversized),
        request("c"),
    ];
    let answers = store.claim_many(&requests).await;
    let names: Vec<_> = answers
        .iter()
        .map(|answer| answer.as_ref().map(ClaimOutcome::name))
        .collect();
    assert!(matches!(
        names[..],
        [Ok("acquired"), Err(_), Ok("acquired")]
    ));
    assert!(bare.get(&key("b")).await.unwrap().is_none());
}

#[test]
fn debug_shows_no_key() {
    let store = under(&MemoryStore::new(), &["k1"]);
    let shown = format!("{store:?} {:?}", ring(&["k1", "k2"]));
    assert!(shown.contains("k1"));
    // The bytes of the key "k1" are all the same.
    let byte = "k1".bytes().fold(1, u8::wrapping_add);
    assert!(!shown.contains(&format!("{byte}, {byte}")), "{shown}");
}
