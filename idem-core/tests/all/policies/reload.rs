//! Other policies while runs are under way.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use idem_core::{
    ErrorKind, Idempotency, IdempotencyStore, Key, MemoryStore, Outcome, Policies, Policy,
    RunError, Work,
};
use tokio::sync::oneshot;

use super::support::{Folder, lease, lease_of};

fn key(id: &str) -> Key {
    Key::new("tenant", "operation", id).unwrap()
}

fn retention(hours: u32) -> String {
    format!("[default]\nretention = \"{hours}h\"\n")
}

async fn hours_kept(store: &MemoryStore, id: &str) -> u64 {
    let record = store.get(&key(id)).await.unwrap().unwrap();
    // The rest of it, rounded up.
    record.info().remaining().as_secs().div_ceil(3600)
}

#[tokio::test]
async fn runs_that_start_later_follow_the_new_policies_and_one_under_way_keeps_its_own() {
    let folder = Folder::new();
    let file = folder.load("p.toml", &retention(2));
    let store = MemoryStore::new();
    let idem = Idempotency::new(store.clone()).with_policy_file(&file);
    let (begun, has_begun) = oneshot::channel();
    let (go, may_go) = oneshot::channel::<()>();
    let under_way = tokio::spawn({
        let idem = idem.clone();
        async move {
            let work = async |_: Work| {
                begun.send(()).unwrap();
                may_go.await.unwrap();
                Ok::<_, io::Error>(1)
            };
            idem.run(&key("early"), &1, work).await.unwrap()
        }
    });
    has_begun.await.unwrap();
    folder.write("p.toml", &retention(5));
    assert!(file.reload().unwrap());
    assert!(!file.reload().unwrap());
    let work = async |_: Work| Ok::<_, io::Error>(2);
    idem.run(&key("late"), &1, work).await.unwrap();
    go.send(()).unwrap();
    assert_eq!(under_way.await.unwrap(), Outcome::Fresh(1));
    assert_eq!(hours_kept(&store, "early").await, 2);
    assert_eq!(hours_kept(&store, "late").await, 5);
}

#[tokio::test]
async fn policies_set_by_a_call_hold_for_every_clone() {
    let idem = Idempotency::new(MemoryStore::new());
    let clone = idem.clone();
    idem.set_policies(Policies::new(Policy::fix())).unwrap();
    assert_eq!(*clone.policy_for(&key("x")), Policy::fix());
    let bad = Policies::default().with_operation("x*", Policy::fix().with_lease(Duration::ZERO));
    let error = idem.set_policies(bad).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(*clone.policies(), Policies::new(Policy::fix()));
}

#[test]
fn a_policy_set_in_code_after_a_file_is_a_copy() {
    let folder = Folder::new();
    let file = folder.load("p.toml", &lease(7));
    let follows = Idempotency::new(MemoryStore::new()).with_policy_file(&file);
    let copy = follows.clone().with_operation_policy("x", Policy::fix());
    folder.write("p.toml", &lease(8));
    file.reload().unwrap();
    let lease_of = |idem: &Idempotency| idem.policies().default_policy().lease().as_secs();
    assert_eq!((lease_of(&follows), lease_of(&copy)), (8, 7));
}

#[tokio::test]
async fn a_request_over_its_limit_is_refused_before_anything_is_sent() {
    let store = MemoryStore::new();
    let policy = Policy::default().with_max_request_bytes(9);
    let idem = Idempotency::new(store.clone()).with_policy(policy);
    let work = async |_: Work| Ok::<_, io::Error>(1);
    // 9 and 10 bytes of canonical JSON.
    assert!(idem.run(&key("a"), "1234567", work).await.is_ok());
    let error = idem.run(&key("b"), "12345678", work).await.unwrap_err();
    let RunError::Store(error) = error else {
        panic!("{error:?}");
    };
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(
        error.to_string(),
        "the request has 10 bytes, at most 9 are allowed for its operation"
    );
    assert!(store.get(&key("b")).await.unwrap().is_none());
}

/// Two operations whose leases are always equal: a run must never see one of the old and one of the
/// new.
fn pair(seconds: u32) -> String {
    format!("[operations.a]\nlease = \"{seconds}s\"\n[operations.b]\nlease = \"{seconds}s\"\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reloads_and_runs_at_once_never_mix_policies_or_lose_a_run() {
    let folder = Folder::new();
    let file = folder.load("p.toml", &pair(30));
    let idem = Idempotency::new(MemoryStore::new()).with_policy_file(&file);
    let done = Arc::new(AtomicBool::new(false));
    let refused = Arc::new(AtomicU32::new(0));
    let reloading = std::thread::spawn({
        let (file, done, refused) = (file.clone(), Arc::clone(&done), Arc::clone(&refused));
        move || {
            let mut round = 0;
            while !done.load(Ordering::SeqCst) || round < 300 {
                round += 1;
                let text = if round % 3 == 0 {
                    "[default"
                } else {
                    &pair(30 + round % 50)
                };
                folder.write("p.toml", text);
                refused.fetch_add(u32::from(file.reload().is_err()), Ordering::SeqCst);
            }
        }
    });
    let run = |worker: u32| {
        let (idem, file) = (idem.clone(), file.clone());
        tokio::spawn(async move {
            for id in 0..500 {
                let policies = file.policies();
                assert_eq!(policies.policy_for("a"), policies.policy_for("b"));
                let key = Key::new("s", "a", format!("{worker}-{id}")).unwrap();
                let work = async |_: Work| Ok::<_, io::Error>(id);
                for _ in 0..2 {
                    assert_eq!(idem.run(&key, &id, work).await.unwrap().into_inner(), id);
                }
            }
        })
    };
    let runs: Vec<_> = (0..4).map(run).collect();
    for run in runs {
        run.await.unwrap();
    }
    done.store(true, Ordering::SeqCst);
    reloading.join().unwrap();
    assert!(refused.load(Ordering::SeqCst) >= 100);
    assert_eq!(lease_of(&file), 10);
}
