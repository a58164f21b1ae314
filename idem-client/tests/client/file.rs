//! The file of keys: torn, damaged, locked, shared by tasks.

use std::collections::BTreeSet;
use std::time::SystemTime;

use idem_client::{ErrorKind, FileKeys, Intent, IntentKeys, KeyForm};
use idem_core::Fingerprint;

use crate::support::until;

fn intent(name: &str) -> Intent {
    Intent::new(name).unwrap()
}

async fn key(keys: &FileKeys, name: &str) -> String {
    let fingerprint = Fingerprint::raw("request");
    let issued = keys
        .key_for(&intent(name), &fingerprint, KeyForm::UuidV4)
        .await;
    issued.unwrap().as_str().to_owned()
}

/// Opens a file whose last owner is being dropped.
async fn opened(path: &std::path::Path) -> FileKeys {
    FileKeys::open(path).await.unwrap()
}

#[tokio::test]
async fn keys_survive_a_restart_and_a_cut_at_any_byte_of_the_last_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    let keys = opened(&path).await;
    let names = ["a/1", "b \"quoted\" é", "c"];
    let mut made = Vec::new();
    for name in names {
        made.push(key(&keys, name).await);
    }
    drop(keys);
    let whole = std::fs::read(&path).unwrap();
    let ends: Vec<usize> = (1..=whole.len())
        .filter(|end| whole[end - 1] == b'\n')
        .collect();
    assert_eq!(ends.len(), names.len());
    for cut in 0..=whole.len() {
        let path = folder.path().join(format!("cut-{cut}"));
        std::fs::write(&path, &whole[..cut]).unwrap();
        let keys = opened(&path).await;
        let complete = ends.iter().filter(|end| **end <= cut).count();
        assert_eq!(keys.count().await.unwrap(), complete, "cut at {cut}");
        for (at, name) in names.iter().enumerate() {
            let is_same = key(&keys, name).await == made[at];
            assert_eq!(is_same, at < complete, "{name}, cut at {cut}");
        }
        drop(keys);
        // What was appended after the cut can be read again.
        assert_eq!(opened(&path).await.count().await.unwrap(), names.len());
    }
}

#[tokio::test]
async fn a_damaged_line_is_an_error_and_the_file_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    let keys = opened(&path).await;
    for name in ["a", "b", "c"] {
        key(&keys, name).await;
    }
    drop(keys);
    let whole = std::fs::read_to_string(&path).unwrap();
    for (line, damaged) in [
        (2, whole.replacen("\n{", "\nx", 1)),
        (4, format!("{whole}x\n")),
    ] {
        std::fs::write(&path, &damaged).unwrap();
        let error = FileKeys::open(&path).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(
            error.to_string().contains(&format!("line {line} ")),
            "{error}"
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), damaged);
    }
}

#[tokio::test]
async fn a_file_belongs_to_one_owner_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    let keys = opened(&path).await;
    let error = FileKeys::open(&path).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert!(error.to_string().contains("another process"), "{error}");
    let clone = keys.clone();
    drop(keys);
    assert!(FileKeys::open(&path).await.is_err(), "a clone holds it");
    drop(clone);
    opened(&path).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_with_one_intent_get_one_key() {
    let folder = tempfile::tempdir().unwrap();
    let keys = opened(&folder.path().join("keys")).await;
    let tasks = (0..64).map(|number| {
        let keys = keys.clone();
        tokio::spawn(async move { (number % 4, key(&keys, &format!("{}", number % 4)).await) })
    });
    let mut made = BTreeSet::new();
    for task in tasks.collect::<Vec<_>>() {
        made.insert(task.await.unwrap());
    }
    assert_eq!(made.len(), 4, "{made:?}");
    assert_eq!(keys.count().await.unwrap(), 4);
}

#[tokio::test]
async fn another_request_and_another_form_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let keys = opened(&folder.path().join("keys")).await;
    let made = key(&keys, "a").await;
    let other = Fingerprint::raw("another");
    let changed = keys.key_for(&intent("a"), &other, KeyForm::UuidV4).await;
    assert_eq!(changed.unwrap_err().kind(), ErrorKind::IntentChanged);
    let fingerprint = Fingerprint::raw("request");
    let again = keys
        .key_for(&intent("a"), &fingerprint, KeyForm::UuidV7)
        .await;
    assert_eq!(again.unwrap().as_str(), made);
}

#[tokio::test]
async fn what_is_forgotten_is_gone_for_ever_and_the_rest_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    let keys = opened(&path).await;
    let old = key(&keys, "old").await;
    let between = SystemTime::now() + std::time::Duration::from_millis(20);
    until(|| SystemTime::now() > between).await;
    let new = key(&keys, "new").await;
    assert_eq!(keys.forget_before(SystemTime::UNIX_EPOCH).await.unwrap(), 0);
    assert_eq!(keys.forget_before(between).await.unwrap(), 1);
    assert_eq!(key(&keys, "new").await, new);
    let third = key(&keys, "third").await;
    assert!(FileKeys::open(&path).await.is_err(), "the lock holds");
    drop(keys);
    let keys = opened(&path).await;
    assert_eq!(keys.count().await.unwrap(), 2);
    assert_eq!(key(&keys, "new").await, new);
    assert_eq!(key(&keys, "third").await, third);
    assert_ne!(key(&keys, "old").await, old);
}

#[tokio::test]
async fn a_folder_that_does_not_exist_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let error = FileKeys::open(folder.path().join("none/keys"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    let error = FileKeys::open(folder.path()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_others_could_read_is_its_owners_alone_once_it_is_open() {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    let mode = || path.metadata().unwrap().permissions().mode() & 0o777;
    std::fs::write(&path, "").unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o664)).unwrap();
    let keys = opened(&path).await;
    assert_eq!(mode(), 0o600);
    key(&keys, "a").await;
    let new = folder.path().join("keys.new");
    std::fs::write(&new, "").unwrap();
    std::fs::set_permissions(&new, Permissions::from_mode(0o664)).unwrap();
    let later = SystemTime::now() + std::time::Duration::from_secs(60);
    assert_eq!(keys.forget_before(later).await.unwrap(), 1);
    assert_eq!(mode(), 0o600);
}
