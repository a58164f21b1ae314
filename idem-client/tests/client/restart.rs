//! Processes that are killed, and started again.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use idem_client::{
    Error, ErrorKind, FileKeys, IdempotencyClient, Intent, IntentKeys, IssuedKey, KeyForm,
    Protocol, StoreKeys,
};
use idem_core::Fingerprint;
use idem_sqlite::{Config, SqliteStore};
use rand::RngExt;

use crate::support::{Act, Server, all_same, client, ok, post, seeded, settings, until};

const VARIABLES: [&str; 3] = [
    "IDEM_CLIENT_CHILD_KEYS",
    "IDEM_CLIENT_CHILD_PATH",
    "IDEM_CLIENT_CHILD_URL",
];

/// Starts this program again as a process that sends one request with the intent `a`.
fn start(keys: &str, path: &Path, url: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "restart::child", "--ignored", "--nocapture"]);
    let path = path.to_str().unwrap();
    command.envs(VARIABLES.into_iter().zip([keys, path, url]));
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.spawn().unwrap()
}

async fn keyed(keys: &str, path: &str) -> IdempotencyClient {
    match keys {
        "file" => settings(FileKeys::open(path).await.unwrap(), Protocol::ietf()),
        "ends before" | "ends after" => {
            let ending = Ending {
                keys: FileKeys::open(path).await.unwrap(),
                is_after: keys == "ends after",
            };
            settings(ending, Protocol::ietf())
        }
        _ => {
            let url = format!("sqlite:{path}");
            let store = SqliteStore::connect(&url, Config::new()).await.unwrap();
            store.migrate().await.unwrap();
            settings(StoreKeys::new(store, "bank").unwrap(), Protocol::ietf())
        }
    }
}

/// The process that the other tests start.
#[tokio::test]
#[ignore = "the other tests start it"]
async fn child() {
    let Ok(keys) = std::env::var(VARIABLES[0]) else {
        return;
    };
    let [path, url] = [VARIABLES[1], VARIABLES[2]].map(|name| std::env::var(name).unwrap());
    let client = client(keyed(&keys, &path).await);
    let response = post(&client, &url, "a").send().await.unwrap();
    assert_eq!(response.status(), 200);
}

/// Ends the process before or after the key is kept.
#[derive(Debug)]
struct Ending {
    keys: FileKeys,
    is_after: bool,
}

#[async_trait::async_trait]
impl IntentKeys for Ending {
    async fn key_for(
        &self,
        intent: &Intent,
        fingerprint: &Fingerprint,
        form: KeyForm,
    ) -> Result<IssuedKey, Error> {
        if self.is_after {
            self.keys.key_for(intent, fingerprint, form).await?;
        }
        std::process::abort();
    }

    fn retention(&self) -> Duration {
        Duration::MAX
    }
}

#[tokio::test]
async fn nothing_is_sent_before_the_key_is_kept_and_a_kept_key_is_the_one_that_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    let server = Server::start([]).await;
    for (keys, kept) in [("ends before", 0), ("ends after", 1)] {
        assert!(!end(start(keys, &path, &server.url())).await);
        let keys = FileKeys::open(&path).await.unwrap();
        assert_eq!(keys.count().await.unwrap(), kept);
        assert!(server.seen().is_empty());
    }
    assert!(end(start("file", &path, &server.url())).await);
    let text = std::fs::read_to_string(&path).unwrap();
    let line: serde_json::Value = serde_json::from_str(&text).unwrap();
    let key = line["key"].as_str().unwrap();
    assert_eq!(server.seen()[0].key(), format!("\"{key}\""));
}

async fn end(mut child: Child) -> bool {
    let mut status = None;
    until(|| {
        status = child.try_wait().unwrap();
        status.is_some()
    })
    .await;
    status.unwrap().success()
}

async fn a_killed_process_is_repeated_under_its_key(keys: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    let server = Server::start([Act::Hang, Act::Hang, Act::Hang, ok()]).await;
    for killed in 1..=3 {
        let mut child = start(keys, &path, &server.url());
        server.has_seen(killed).await;
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(end(start(keys, &path, &server.url())).await);
    assert_eq!(all_same(&server.seen()), 4);
}

#[tokio::test]
async fn a_killed_process_is_repeated_under_its_key_from_a_file() {
    a_killed_process_is_repeated_under_its_key("file").await;
}

#[tokio::test]
async fn a_killed_process_is_repeated_under_its_key_from_a_store() {
    a_killed_process_is_repeated_under_its_key("store").await;
}

#[tokio::test]
async fn processes_that_send_one_intent_at_once_have_one_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    keyed("store", path.to_str().unwrap()).await;
    let server = Server::start([]).await;
    let children: Vec<_> = (0..4)
        .map(|_| start("store", &path, &server.url()))
        .collect();
    for child in children {
        assert!(end(child).await);
    }
    assert_eq!(all_same(&server.seen()), 4);
}

#[tokio::test]
async fn a_file_is_locked_while_its_process_lives_and_free_when_it_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    let server = Server::start([Act::Hang]).await;
    let mut child = start("file", &path, &server.url());
    server.has_seen(1).await;
    let error = FileKeys::open(&path).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    child.kill().unwrap();
    child.wait().unwrap();
    let keys = FileKeys::open(&path).await.unwrap();
    assert_eq!(keys.count().await.unwrap(), 1);
}

/// Kills a process at any point of its life: no key is lost, and none is sent that is not kept.
#[tokio::test]
async fn a_process_killed_at_any_point_leaves_one_key() {
    let mut random = seeded();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    let server = Server::start([]).await;
    for _ in 0..12 {
        let mut child = start("file", &path, &server.url());
        tokio::time::sleep(Duration::from_micros(random.random_range(0..60_000))).await;
        let _ = child.kill();
        child.wait().unwrap();
    }
    assert!(end(start("file", &path, &server.url())).await);
    assert!(all_same(&server.seen()) >= 1);
    let keys = FileKeys::open(&path).await.unwrap();
    assert_eq!(keys.count().await.unwrap(), 1);
}
