//! Encrypted records, as an operator meets them.

mod support;

use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use idem_core::wrappers::Protected;
use idem_core::wrappers::protected::KeyRing;
use idem_core::{IdempotencyStore, Record};
use idem_sqlite::SqliteStore;
use support::{File, claimed, completed, failed, idem_at, key};

fn line(id: &str) -> String {
    format!("{id} {}\n", STANDARD.encode([id.len() as u8; 32]))
}

fn behind(store: &SqliteStore, keys: &str) -> Protected<SqliteStore> {
    Protected::new(store.clone()).with_keys(Arc::new(KeyRing::parse(keys).unwrap()))
}

/// Writes the lines to a file of keys.
fn keys(file: &File, name: &str, lines: &str) -> PathBuf {
    let path = file.path().join(name);
    std::fs::write(&path, lines).unwrap();
    path
}

#[tokio::test]
async fn old_records_are_encrypted_anew_and_then_need_no_other_key() {
    let file = File::new().await;
    let old = behind(&file.store, &line("old"));
    completed(&old, &key("1")).await;
    failed(&old, &key("2")).await;
    drop(claimed(&old, &key("3")).await);
    completed(&file.store, &key("plain")).await;
    let both = line("newer") + &line("old");
    let path = keys(&file, "keys", &both);
    let path = path.to_str().unwrap();
    let rewrap = |more: &[&str]| {
        let args: Vec<_> = ["rewrap", "--keys", path, "--yes", "--page", "2"]
            .iter()
            .chain(more)
            .copied()
            .collect();
        file.json(&args)
    };
    let first = rewrap(&[]).ends(1).value();
    assert_eq!(first["key"], "newer");
    assert_eq!(
        (&first["rewritten"], &first["in_flight"]),
        (&2.into(), &1.into())
    );
    assert_eq!(
        (&first["unreadable"], &first["is_done"]),
        (&1.into(), &false.into())
    );
    assert!(
        first["first_error"]
            .as_str()
            .unwrap()
            .contains("not encrypted")
    );
    let second = rewrap(&["--plain"]).ends(0).value();
    assert_eq!(
        (&second["rewritten"], &second["current"]),
        (&1.into(), &2.into())
    );

    let newer = behind(&file.store, &line("newer"));
    for id in ["1", "2", "plain"] {
        let record = newer.get(&key(id)).await.unwrap().unwrap();
        assert!(!matches!(record, Record::InFlight(_)), "{id}");
    }
    // The variable does what the file does.
    let variables = [("IDEM_KEYS", both.as_str())];
    let ran = idem_at(&file.url(), &variables, &["rewrap", "--yes"]).ends(0);
    assert!(ran.out.contains("Re-encrypted 0 of 4"), "{}", ran.out);
}

#[tokio::test]
async fn encrypted_records_are_shown_with_their_keys_only() {
    let file = File::new().await;
    let store = behind(&file.store, &line("old"));
    completed(&store, &key("1")).await;
    let show = ["show", "tenant:pay:1", "--reveal"];
    let shown = file.idem(&show).ends(0).out;
    assert!(
        shown.contains("is encrypted") && !shown.contains("s3cret"),
        "{shown}"
    );
    let path = keys(&file, "keys", &line("old"));
    let with = [
        "show",
        "tenant:pay:1",
        "--reveal",
        "--keys",
        path.to_str().unwrap(),
    ];
    let shown = file.idem(&with).ends(0).out;
    assert!(
        shown.contains("s3cret-body") && shown.contains("s3cret-trace"),
        "{shown}"
    );
    let other = keys(&file, "others", &line("other"));
    let with = [
        "show",
        "tenant:pay:1",
        "--reveal",
        "--keys",
        other.to_str().unwrap(),
    ];
    let shown = file.idem(&with).ends(0).out;
    assert!(shown.contains("`old`"), "{shown}");
    assert!(!shown.contains("s3cret"), "{shown}");
}

#[tokio::test]
async fn keys_are_never_printed() {
    let file = File::new().await;
    let secret = STANDARD.encode([7; 32]);
    for lines in [
        format!("k1 {secret}\nk1 {secret}"),
        format!("k/1 {secret}"),
        format!("k1 {secret} {secret}"),
        secret.clone(),
        String::new(),
    ] {
        let path = keys(&file, "keys", &lines);
        let ran = file.idem(&["rewrap", "--yes", "--keys", path.to_str().unwrap()]);
        assert!(
            !format!("{}{}", ran.out, ran.err).contains(&secret),
            "{}",
            ran.err
        );
        ran.ends(2).complains("list of keys");
    }
    file.idem(&["rewrap", "--yes"]).ends(2).complains("--keys");
    let ran = file.idem(&["rewrap", "--yes", "--keys", "/nowhere/keys"]);
    ran.ends(2).complains("cannot be read");
    let path = keys(&file, "keys", &line("old"));
    let variables = [("IDEM_KEYS", line("old"))];
    let variables = variables
        .each_ref()
        .map(|(name, keys)| (*name, keys.as_str()));
    let args = ["rewrap", "--yes", "--keys", path.to_str().unwrap()];
    idem_at(&file.url(), &variables, &args)
        .ends(2)
        .complains("leave out one");
}
