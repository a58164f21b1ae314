//! Lists, forced steps and audit entries.

use idem_core::admin::{Forced, ForcedAction, ForcedStep, RecordFilter, SummaryState};
use idem_core::{ErrorKind, Failure, IdempotencyStore, IdempotencyStoreExt, MemoryStore, Record};

use super::support::{HOUR, SECRET, claimed, failure, key, request, response, under};

#[tokio::test]
async fn a_list_shows_what_was_given() {
    let bare = MemoryStore::new();
    let store = under(&bare, &["k1"]);
    let claim = claimed(&store, &request("a")).await;
    store.complete(&claim, &response(), HOUR).await.unwrap();
    let claim = claimed(&store, &request("b")).await;
    store.fail(&claim, &failure(), HOUR).await.unwrap();
    let filter = RecordFilter::new().with_failure_code("declined");
    let page = store
        .admin()
        .unwrap()
        .list(&filter, None, 100)
        .await
        .unwrap();
    assert_eq!(page.records.len(), 1);
    assert_eq!(page.records[0].metadata.get("host"), Some(SECRET));
    assert_eq!(page.records[0].failure_code.as_deref(), Some("declined"));

    // Without the key the record is still listed, with a note in place of its metadata.
    let other = under(&bare, &["k2"]);
    let summary = other
        .admin()
        .unwrap()
        .summary(&key("a"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(summary.state, SummaryState::Completed);
    let notes: Vec<_> = summary.metadata.iter().collect();
    assert_eq!(notes.len(), 1);
    assert!(notes[0].1.contains("`k1`"), "{notes:?}");
}

#[tokio::test]
async fn a_forced_failure_is_encrypted_and_its_history_is_read() {
    let bare = MemoryStore::new();
    let store = under(&bare, &["k1"]);
    let claim = claimed(&store, &request("a")).await;
    let action = ForcedAction::Fail {
        failure: failure(),
        retention: HOUR,
    };
    let step = ForcedStep::new(key("a"), claim.token(), action, "ada", "worker gone").unwrap();
    let forced = store.admin().unwrap().force(&step).await.unwrap();
    let Forced::Done { before } = forced else {
        panic!("{forced:?}");
    };
    assert_eq!(before.metadata.get("host"), Some(SECRET));
    let Some(Record::Failed(record)) = bare.get(&key("a")).await.unwrap() else {
        panic!("not failed");
    };
    assert_eq!(record.failure.message(), "(encrypted)");
    let Some(Record::Failed(record)) = store.get(&key("a")).await.unwrap() else {
        panic!("not failed");
    };
    assert_eq!(record.failure, failure());
    let history = store.history(&key("a")).await.unwrap();
    assert_eq!((history.len(), history[0].who.as_str()), (1, "ada"));
    let before = history[0].before.as_ref().unwrap();
    assert_eq!(before.metadata.get("host"), Some(SECRET));
    assert!(matches!(
        store.admin().unwrap().force(&step).await.unwrap(),
        Forced::Refused { .. }
    ));

    let too_large = Failure::new("code", "x".repeat(9 << 20));
    let action = ForcedAction::Fail {
        failure: too_large,
        retention: HOUR,
    };
    let step = ForcedStep::new(key("a"), claim.token(), action, "ada", "worker gone").unwrap();
    let error = store.admin().unwrap().force(&step).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}
