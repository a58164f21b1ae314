//! Runs the program, as an operator does.

#![allow(dead_code, reason = "each test program uses a part")]

use std::process::{Command, Stdio};
use std::time::Duration;

use idem_core::{
    Claim, ClaimRequest, Error, Fingerprint, IdempotencyStore, Key, Metadata, Response,
};
use idem_sqlite::{Config, SqliteStore};
use serde_json::Value;
use tempfile::TempDir;

pub(crate) const HOUR: Duration = Duration::from_secs(3_600);

/// What the program printed, and how it ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// Checks how it ended.
    #[track_caller]
    pub(crate) fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}\n{}", self.out, self.err);
        self
    }

    /// Checks that it ended well, and returns the lines of JSON.
    #[track_caller]
    pub(crate) fn lines(self) -> Vec<Value> {
        let Self { out, .. } = self;
        out.lines()
            .map(|line| {
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
            })
            .collect()
    }

    /// Returns the only line of JSON.
    #[track_caller]
    pub(crate) fn value(self) -> Value {
        let mut lines = self.lines();
        assert_eq!(lines.len(), 1, "{lines:?}");
        lines.remove(0)
    }

    /// Checks that the complaint is one line and has this text.
    #[track_caller]
    pub(crate) fn complains(self, text: &str) -> Self {
        let line = self.err.trim_end();
        assert!(line.contains(text) && !line.contains('\n'), "{line}");
        self
    }
}

/// Runs the program on the store at this URL, without the variables of the tests' own environment.
pub(crate) fn idem_at(url: &str, variables: &[(&str, &str)], args: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_idem"));
    for name in [
        "TABLE",
        "SCHEMA",
        "UNPREPARED",
        "TIMEOUT",
        "WHO",
        "KEYS",
        "KEYS_FILE",
    ] {
        command.env_remove(format!("IDEM_{name}"));
    }
    command.env("IDEM_STORE", url);
    command.envs(variables.iter().copied());
    let done = command.args(args).stdin(Stdio::null()).output().unwrap();
    Ran {
        code: done.status.code().unwrap_or(-1),
        out: String::from_utf8(done.stdout).unwrap(),
        err: String::from_utf8(done.stderr).unwrap(),
    }
}

/// A SQLite file of its own, migrated.
pub(crate) struct File {
    folder: TempDir,
    pub(crate) store: SqliteStore,
}

impl File {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = url(&folder);
        let store = SqliteStore::connect(&url, Config::new()).await.unwrap();
        store.migrate().await.unwrap();
        Self { folder, store }
    }

    pub(crate) fn url(&self) -> String {
        url(&self.folder)
    }

    /// Returns the folder that the file is in.
    pub(crate) fn path(&self) -> &std::path::Path {
        self.folder.path()
    }

    pub(crate) fn idem(&self, args: &[&str]) -> Ran {
        idem_at(&self.url(), &[("IDEM_WHO", "ada")], args)
    }

    /// Runs it for a machine.
    pub(crate) fn json(&self, args: &[&str]) -> Ran {
        let args: Vec<_> = ["--json"].into_iter().chain(args.iter().copied()).collect();
        self.idem(&args)
    }
}

pub(crate) fn url(folder: &TempDir) -> String {
    format!("sqlite:{}", folder.path().join("idem.db").display())
}

pub(crate) fn key(id: &str) -> Key {
    Key::new("tenant", "pay", id).unwrap()
}

pub(crate) fn request(key: &Key) -> ClaimRequest {
    let metadata = Metadata::new().with("trace", "s3cret-trace");
    ClaimRequest::new(key.clone(), Fingerprint::raw("1"))
        .with_lease(HOUR)
        .with_retention(HOUR)
        .with_metadata(metadata)
}

pub(crate) async fn claimed(store: &dyn IdempotencyStore, key: &Key) -> Claim {
    let outcome = store.claim(&request(key)).await.unwrap();
    outcome.acquired().expect("the key is free")
}

pub(crate) async fn completed(store: &dyn IdempotencyStore, key: &Key) {
    let claim = claimed(store, key).await;
    let response = Response::new(201, r#"{"receipt":"s3cret-body"}"#)
        .with_header("set-cookie", "s3cret-header");
    store.complete(&claim, &response, HOUR).await.unwrap();
}

pub(crate) async fn failed(store: &dyn IdempotencyStore, key: &Key) {
    let claim = claimed(store, key).await;
    let failure =
        idem_core::Failure::new("declined", "s3cret-message").with_details("s3cret-details");
    store.fail(&claim, &failure, HOUR).await.unwrap();
}

#[track_caller]
pub(crate) fn is_lost<T: std::fmt::Debug>(result: Result<T, Error>) {
    let error = result.unwrap_err();
    assert!(error.is_claim_lost(), "{error}");
}
