//! Every command, on SQLite.

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use idem_core::{
    BoxError, BusyPolicy, ClaimRequest, Fingerprint, Idempotency, IdempotencyStore,
    IdempotencyStoreExt, Policy, Response, StalePolicy, Work,
};
use idem_sqlite::sqlx::sqlite::SqliteConnectOptions;
use idem_sqlite::sqlx::{self, SqlitePool, query, query_as, query_scalar};
use serde_json::{Value, json};
use support::{File, HOUR, claimed, completed, failed, idem_at, is_lost, key, request, url};

#[tokio::test]
async fn a_new_file_is_migrated_and_then_in_place() {
    let folder = tempfile::tempdir().unwrap();
    let url = url(&folder);
    let run = |args: &[&str]| idem_at(&url, &[], args);
    run(&["ls"]).ends(2).complains("idem migrate");
    run(&["migrate"]).ends(2).complains("--yes");
    let dry = run(&["migrate", "--dry-run", "--json"]).ends(0).value();
    assert_eq!(dry["is_in_place"], false);
    assert!(dry["schema"].as_str().unwrap().contains("CREATE TABLE"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    run(&["migrate", "--yes"]).ends(0);
    run(&["verify"]).ends(0);
    let dry = run(&["migrate", "--dry-run", "--json"]).ends(0).value();
    assert_eq!(
        dry,
        json!({ "migrated": false, "is_in_place": true, "schema": null })
    );
    let missing = run(&["verify", "--table", "others", "--json"]).ends(1);
    let missing = missing.complains("idem migrate").value();
    assert_eq!(missing["ok"], false);
    run(&["ls", "--table", "others"])
        .ends(2)
        .complains("idem migrate");
    run(&["ls", "--table", "no;name"])
        .ends(2)
        .complains("table");
    run(&["ls", "--schema", "other"])
        .ends(2)
        .complains("--schema");
}

#[tokio::test]
async fn the_schema_needs_no_store() {
    let ran = idem_at(
        "postgres://nobody@127.0.0.1:1/x",
        &[],
        &["schema", "--table", "mine"],
    );
    if cfg!(feature = "postgres") {
        assert!(ran.ends(0).out.contains("\"mine\""));
    } else {
        ran.ends(2).complains("--features postgres");
    }
    let schema = idem_at("sqlite:nowhere/x.db", &[], &["schema", "--json"])
        .ends(0)
        .value();
    assert!(schema["schema"].as_str().unwrap().contains("CREATE TABLE"));
}

#[tokio::test]
async fn records_are_listed_filtered_and_paged() {
    let file = File::new().await;
    for id in ["1", "2", "3"] {
        completed(&file.store, &key(id)).await;
    }
    drop(claimed(&file.store, &key("4")).await);
    failed(&file.store, &key("5")).await;
    let count = |args: &[&str]| {
        let args: Vec<_> = ["ls"].iter().chain(args).copied().collect();
        file.json(&args).ends(0).lines().len()
    };
    assert_eq!(count(&[]), 5);
    assert_eq!(count(&["--state", "completed"]), 3);
    assert_eq!(count(&["--state", "in_flight,failed"]), 2);
    assert_eq!(count(&["--failure-code", "declined"]), 1);
    assert_eq!(count(&["--scope", "tenan"]), 0);
    assert_eq!(count(&["--operation", "pay", "--all"]), 5);
    assert_eq!(count(&["--min-age", "10m"]), 0);
    let mut seen = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let mut args = vec!["ls", "--limit", "2"];
        if let Some(cursor) = &cursor {
            args.extend(["--after", cursor]);
        }
        let mut lines = file.json(&args).ends(0).lines();
        let next = lines
            .last()
            .and_then(|line| line["next"].as_str())
            .map(str::to_owned);
        if next.is_some() {
            lines.pop();
        }
        assert!(lines.len() <= 2);
        seen.extend(
            lines
                .iter()
                .map(|line| line["id"].as_str().unwrap().to_owned()),
        );
        match next {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    seen.sort();
    assert_eq!(seen, ["1", "2", "3", "4", "5"]);
    let table = file.idem(&["ls", "--limit", "2"]).ends(0);
    assert_eq!(table.out.lines().count(), 3);
    assert!(table.err.contains("--after"));
    file.idem(&["ls", "--after", "nonsense"])
        .ends(2)
        .complains("cursor");
    file.idem(&["ls", "--state", "sleeping"]).ends(2);
}

#[tokio::test]
async fn a_key_is_three_arguments_or_a_path() {
    let file = File::new().await;
    completed(&file.store, &key("1")).await;
    let by_path = file.json(&["show", "tenant:pay:1"]).ends(0).value();
    let by_parts = file.json(&["show", "tenant", "pay", "1"]).ends(0).value();
    assert_eq!(by_path["record"]["token"], by_parts["record"]["token"]);
    assert_eq!(by_path["result"]["status"], 201);
    assert_eq!(by_path["history"], json!([]));
    file.idem(&["show", "tenant", "pay"])
        .ends(2)
        .complains("three arguments");
    file.idem(&["show", "tenant:pay:2"])
        .ends(1)
        .complains("free");
}

#[tokio::test]
async fn a_dead_workers_key_is_released_and_its_late_answer_refused() {
    let file = File::new().await;
    let old = claimed(&file.store, &key("1")).await;
    let shown = file.json(&["show", "tenant:pay:1"]).ends(0).value();
    let token = shown["record"]["token"].to_string();
    let step = |token: &str, more: &[&str]| {
        let args = [
            "release",
            "tenant:pay:1",
            "--reason",
            "worker gone",
            "--yes",
            "--token",
        ];
        let args: Vec<_> = args
            .into_iter()
            .chain([token])
            .chain(more.iter().copied())
            .collect();
        file.json(&args)
    };
    let dry = step(&token, &["--dry-run"]).ends(0).value();
    assert_eq!(dry["answer"], "would_be_done");
    let refused = step("7", &[]).ends(1).complains("another holder").value();
    assert_eq!(refused["answer"], "refused");
    assert_eq!(refused["current"]["token"].to_string(), token);
    // Neither has changed anything.
    assert_eq!(file.json(&["ls"]).lines()[0]["state"], "in_flight");
    let released = step(&token, &[]).ends(0).value();
    assert_eq!(released["answer"], "done");
    assert_eq!(released["before"]["state"], "in_flight");
    let new = claimed(&file.store, &key("1")).await;
    assert!(new.token() > old.token());
    is_lost(
        file.store
            .complete(&old, &Response::new(200, "late"), HOUR)
            .await,
    );
    file.store
        .complete(&new, &Response::new(200, "right"), HOUR)
        .await
        .unwrap();
    let history = file.json(&["show", "tenant:pay:1"]).ends(0).value()["history"].clone();
    assert_eq!(history[0]["who"], "ada");
    assert_eq!(history[0]["reason"], "worker gone");
    assert_eq!(history[0]["outcome"], "done");
    step(&token, &[]).ends(1);
}

#[tokio::test]
async fn forced_steps_need_a_token_or_a_person() {
    let file = File::new().await;
    drop(claimed(&file.store, &key("1")).await);
    let args = ["release", "tenant:pay:1", "--reason", "worker gone"];
    file.idem(&args).ends(2).complains("--yes");
    let yes: Vec<_> = args.into_iter().chain(["--yes"]).collect();
    assert!(file.idem(&yes).ends(2).err.contains("--token"));
    let without: Vec<_> = yes
        .iter()
        .copied()
        .filter(|word| !word.contains("reason"))
        .collect();
    file.idem(&without).ends(2);
    assert_eq!(file.json(&["ls"]).lines()[0]["state"], "in_flight");
    let current: Vec<_> = yes.into_iter().chain(["--token", "current"]).collect();
    assert!(file.idem(&current).ends(0).out.contains("Released"));
}

#[tokio::test]
async fn a_key_is_failed_and_then_deleted() {
    let file = File::new().await;
    let old = claimed(&file.store, &key("1")).await;
    let common = [
        "tenant:pay:1",
        "--reason",
        "known bug",
        "--yes",
        "--token",
        "current",
    ];
    let fail: Vec<_> = ["fail"].into_iter().chain(common).collect();
    let fail: Vec<_> = fail
        .into_iter()
        .chain(["--code", "gone", "--message", "ask us", "--retention", "1h"])
        .collect();
    let delete: Vec<_> = ["delete"].into_iter().chain(common).collect();
    file.idem(&delete).ends(1).complains("does not apply");
    let dry: Vec<_> = fail.iter().copied().chain(["--dry-run"]).collect();
    file.idem(&dry).ends(0);
    assert_eq!(file.json(&["ls"]).lines()[0]["state"], "in_flight");
    assert_eq!(file.json(&fail).ends(0).value()["action"], "fail");
    let shown = file
        .json(&["show", "tenant:pay:1", "--reveal"])
        .ends(0)
        .value();
    assert_eq!(shown["result"]["code"], "gone");
    assert_eq!(shown["result"]["message"]["text"], "ask us");
    assert!(
        file.store
            .complete(&old, &Response::new(200, ""), HOUR)
            .await
            .is_err()
    );
    file.idem(&fail).ends(1);
    assert_eq!(file.json(&delete).ends(0).value()["answer"], "done");
    let shown = file.json(&["show", "tenant:pay:1"]).ends(0).value();
    assert!(shown["record"].is_null());
    assert_eq!(shown["history"].as_array().unwrap().len(), 2);
    drop(claimed(&file.store, &key("1")).await);
}

#[tokio::test]
async fn expired_records_are_counted_and_purged() {
    let file = File::new().await;
    completed(&file.store, &key("1")).await;
    let claim = claimed(&file.store, &key("2")).await;
    let soon = Duration::from_millis(1);
    file.store
        .complete(&claim, &Response::new(200, ""), soon)
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    let dry = file.json(&["purge", "--dry-run"]).ends(0).value();
    assert_eq!(dry["would_delete"]["records"], 1);
    assert_eq!(file.json(&["stats"]).value()["purge_backlog"], 1);
    file.idem(&["purge"]).ends(2).complains("--yes");
    let done = file
        .json(&["purge", "--yes", "--beside-traffic"])
        .ends(0)
        .value();
    assert_eq!(done["deleted"], json!({ "records": 1, "watermarks": 0 }));
    assert_eq!(
        file.json(&["purge", "--yes"]).ends(0).value()["deleted"]["records"],
        0
    );
    assert_eq!(file.json(&["ls"]).ends(0).lines().len(), 1);
}

#[tokio::test]
async fn abandoned_claims_are_counted_and_failed() {
    let file = File::new().await;
    let lease = Duration::from_millis(1);
    for (id, policy) in [("1", StalePolicy::Fail), ("2", StalePolicy::TakeOver)] {
        let request = request(&key(id)).with_lease(lease).with_on_stale(policy);
        drop(file.store.claim(&request).await.unwrap());
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
    let dry = file
        .json(&["expire-abandoned", "--dry-run"])
        .ends(0)
        .value();
    assert_eq!(dry["would_fail"], 1);
    assert_eq!(file.json(&["ls", "--state", "stale"]).lines().len(), 2);
    assert_eq!(
        file.json(&["expire-abandoned", "--yes"]).ends(0).value()["failed"],
        1
    );
    assert_eq!(file.json(&["ls", "--state", "failed"]).lines().len(), 1);
}

#[tokio::test]
async fn stats_count_by_state_operation_and_age() {
    let file = File::new().await;
    completed(&file.store, &key("1")).await;
    drop(claimed(&file.store, &key("2")).await);
    let stats = file.json(&["stats"]).ends(0).value();
    assert_eq!(stats["states"]["completed"], 1);
    assert_eq!(stats["operations"]["pay"]["in_flight"], 1);
    assert_eq!(stats["ages"][0]["records"], 2);
    assert_eq!(stats["oldest_in_flight"]["id"], "2");
    assert!(stats["result_bytes"].as_u64().unwrap() > 0);
    assert_eq!(stats["is_complete"], true);
    let bounded = file.json(&["stats", "--most", "1"]).ends(0).value();
    assert_eq!(
        (&bounded["looked_at"], &bounded["is_complete"]),
        (&json!(1), &json!(false))
    );
    assert!(file.idem(&["stats"]).ends(0).out.contains("purge backlog"));
}

#[tokio::test]
async fn watch_prints_rates_from_the_second_sample_on() {
    let file = File::new().await;
    drop(claimed(&file.store, &key("1")).await);
    let mut watch = Command::new(env!("CARGO_BIN_EXE_idem"));
    watch.env("IDEM_STORE", file.url());
    watch.args(["watch", "--every", "100ms", "--count", "300", "--json"]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut samples = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let first = samples.next().unwrap();
    assert!(first["all"]["claims_per_second"].is_null());
    for id in ["2", "3", "4"] {
        completed(&file.store, &key(id)).await;
    }
    let rate = |sample: Value| sample["operations"]["pay"]["results_per_second"].as_f64();
    let has_rate = samples.filter_map(rate).any(|rate| rate > 0.0);
    // It may have ended by itself.
    let _ = watch.kill();
    watch.wait().unwrap();
    assert!(has_rate, "no sample has a rate");
    let screen = file.idem(&["top", "--count", "1"]).ends(0);
    assert!(screen.out.contains("RESULTS/S") && !screen.out.contains('\u{1b}'));
}

#[tokio::test]
async fn doctor_reports_each_check() {
    let file = File::new().await;
    let findings = file.json(&["doctor"]).ends(0).lines();
    let level = |check: &str| {
        let finding = findings.iter().find(|finding| finding["check"] == check);
        finding.map(|finding| finding["level"].clone())
    };
    for check in [
        "connection",
        "schema",
        "version",
        "journal_mode",
        "synchronous",
        "clock",
        "tls",
    ] {
        assert_eq!(level(check), Some(json!("ok")), "{check}");
    }
    let missing = file.json(&["doctor", "--table", "others"]).ends(1).lines();
    let schema = missing
        .iter()
        .find(|finding| finding["check"] == "schema")
        .unwrap();
    assert!(schema["advice"].as_str().unwrap().contains("idem migrate"));
}

#[cfg(feature = "console")]
#[tokio::test]
async fn doctor_says_which_answers_of_a_service_were_not_stored() {
    let file = File::new().await;
    let of = |page: &str| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/metrics", listener.local_addr().unwrap());
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{page}",
            page.len()
        );
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let findings = file.json(&["doctor", "--metrics", &url]).ends(0).lines();
        server.join().unwrap();
        let answers = findings.iter().find(|it| it["check"] == "answers");
        (
            answers.unwrap()["level"].clone(),
            answers.unwrap()["found"].clone(),
        )
    };
    let none = ("ok".into(), "none is counted as not stored".into());
    assert_eq!(of("idem_waiters 0\n"), none);
    assert_eq!(of("<html>"), ("warning".into(), "not visible".into()));
    for (reason, level) in [("status", "ok"), ("stream", "warning")] {
        let page = format!("idem_unstored_total{{reason=\"{reason}\"}} 3\n");
        let found = format!("not stored: 3 {reason}");
        assert_eq!(of(&page), (level.into(), found.into()));
    }
    let nobody = ["doctor", "--metrics", "http://127.0.0.1:1/metrics"];
    let unseen = file.json(&nobody).ends(0);
    assert!(unseen.out.contains("no metrics of idem"), "{}", unseen.out);
    let refused = file
        .idem(&["doctor", "--metrics", "https://a/metrics"])
        .ends(2);
    refused.complains("begins with http://");
}

#[test]
fn completions_and_manuals_are_printed() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = idem_at("", &[], &["completions", shell]).ends(0);
        assert!(ran.out.contains("expire-abandoned"), "{shell}");
    }
    assert!(idem_at("", &[], &["man"]).ends(0).out.starts_with(".ie"));
    let folder = tempfile::tempdir().unwrap();
    idem_at("", &[], &["man", "--dir", folder.path().to_str().unwrap()]).ends(0);
    for page in ["idem.1", "idem-release.1", "idem-doctor.1"] {
        assert!(folder.path().join(page).is_file(), "{page}");
    }
}

#[test]
fn help_and_usage_have_their_exit_codes() {
    let help = idem_at("", &[], &["--help"]).ends(0);
    assert!(help.out.contains("Exit codes: 0"), "{}", help.out);
    idem_at("", &[], &["sleep"]).ends(2);
    idem_at("", &[], &[]).ends(2);
    idem_at("", &[], &["ls"]).ends(2).complains("no URL");
    idem_at("sqlite:/nowhere/at/all.db", &[], &["migrate", "--yes"]).ends(2);
}

#[cfg(feature = "certify")]
#[test]
fn the_suite_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let url = url(&folder);
    let ran = idem_at(&url, &[], &["certify", "law07", "--yes", "--json"]).ends(0);
    let lines = ran.lines();
    let total = lines.last().unwrap();
    assert!(total["passed"].as_u64().unwrap() > 5, "{total}");
    assert_eq!(total["failed"], 0);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn records_of_an_older_table_are_imported_once_and_match_every_request() {
    let file = File::new().await;
    completed(&file.store, &key("mine")).await;
    let old = file.path().join("old.ndjson");
    let import = |lines: &[String], more: &[&str]| {
        std::fs::write(&old, lines.join("\n")).unwrap();
        file.json(&[&["import", old.to_str().unwrap(), "--yes"][..], more].concat())
    };
    let lines = [
        ("a", r#""status":201,"headers":[["x-a","1"]],"body":"paid""#),
        ("b", r#""json":{"receipt": 7}"#),
        ("c", r#""failure":{"code":"declined","message":"no funds"}"#),
        (
            "d",
            r#""base64":"/wA=","expires_at":"2999-01-01T00:00:00Z""#,
        ),
        ("e", r#""status":204,"expires_at":"2001-01-01T00:00:00Z""#),
        ("mine", r#""body":"theirs""#),
        // No record; nothing of it is quoted.
        ("x", r#""body":"s3cret","bode":"s3cret""#),
    ];
    let lines = lines
        .map(|(id, rest)| format!(r#"{{"scope":"tenant","operation":"pay","id":"{id}",{rest}}}"#));
    let counts = |ran: support::Ran| {
        let counts = ran.ends(0).value();
        ["stored", "existing", "expired"].map(|name| counts[name].as_u64().unwrap())
    };
    assert_eq!(counts(import(&lines[..6], &["--dry-run"])), [4, 1, 1]);
    assert_eq!(file.store.get(&key("a")).await.unwrap(), None);
    let stopped = import(&[&lines[..2], &lines[6..]].concat(), &[]).ends(2);
    let stopped = stopped.complains("line 3");
    assert!(!stopped.err.contains("s3cret"), "{}", stopped.err);
    assert_eq!(counts(import(&lines[..6], &[])), [2, 3, 1]);
    for (id, outcome) in [
        ("a", "completed"),
        ("b", "completed"),
        ("c", "failed"),
        ("d", "completed"),
        ("e", "acquired"),
        ("mine", "conflict"),
    ] {
        let request = ClaimRequest::new(key(id), Fingerprint::raw("another"));
        let got = file.store.claim_matching(&request).await.unwrap();
        assert_eq!(got.name(), outcome, "{id}");
    }
    let stored = async |id| file.store.response(&key(id)).await.unwrap().unwrap();
    let paid = Response::new(201, "paid").with_header("x-a", "1");
    assert_eq!(stored("a").await, paid);
    assert_eq!(stored("b").await, Response::new(200, r#"{"receipt": 7}"#));
    assert_eq!(stored("d").await, Response::new(200, &b"\xff\x00"[..]));
    let shown = file.json(&["show", "tenant:pay:a"]).ends(0).value();
    assert_eq!(shown["matches_every_request"], true);
}

/// A service's own code from before: the primary key of its table decides, and losers wait for the
/// answer.
async fn by_hand(pool: SqlitePool, effects: Arc<AtomicU64>, id: &str) -> sqlx::Result<String> {
    let insert = "INSERT INTO answers (id) VALUES (?) ON CONFLICT DO NOTHING";
    if query(insert).bind(id).execute(&pool).await?.rows_affected() == 1 {
        let answer = format!("effect {}", effects.fetch_add(1, Ordering::SeqCst));
        let update = "UPDATE answers SET answer = ? WHERE id = ?";
        query(update).bind(&answer).bind(id).execute(&pool).await?;
        return Ok(answer);
    }
    loop {
        let answer = query_scalar("SELECT answer FROM answers WHERE id = ?");
        if let Some(answer) = answer.bind(id).fetch_one(&pool).await? {
            return Ok(answer);
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Deployment 1 of the guide: the old code is the work of a run.
async fn by_run(
    idempotency: Idempotency,
    pool: SqlitePool,
    effects: Arc<AtomicU64>,
    id: &str,
) -> Result<String, BoxError> {
    let work = async |_: Work| by_hand(pool, effects, id).await;
    Ok(idempotency.run(&key(id), &id, work).await?.into_inner())
}

#[tokio::test(flavor = "multi_thread")]
async fn old_code_and_new_code_share_one_effect_and_the_import_ends_the_old_table() {
    let file = File::new().await;
    let options = SqliteConnectOptions::new().filename(file.path().join("idem.db"));
    let pool = SqlitePool::connect_with(options).await.unwrap();
    let table = "CREATE TABLE answers (id TEXT PRIMARY KEY, answer TEXT)";
    query(table).execute(&pool).await.unwrap();
    let waits = Policy::default().with_on_busy(BusyPolicy::wait(HOUR));
    let idempotency = Idempotency::new(file.store.clone()).with_policy(waits);
    let effects = Arc::new(AtomicU64::new(0));
    let old = |id: &'static str| by_hand(pool.clone(), Arc::clone(&effects), id);
    let new =
        |id: &'static str| by_run(idempotency.clone(), pool.clone(), Arc::clone(&effects), id);
    let first = old("old first").await.unwrap();
    assert_eq!(new("old first").await.unwrap(), first);
    let first = new("new first").await.unwrap();
    assert_eq!(old("new first").await.unwrap(), first);
    let (a, b, c, d) = tokio::join!(old("both"), new("both"), old("both"), new("both"));
    let answers = [a.unwrap(), b.unwrap(), c.unwrap(), d.unwrap()];
    assert!(
        answers.iter().all(|answer| *answer == answers[0]),
        "{answers:?}"
    );
    old("old only").await.unwrap();
    let rows = query_as("SELECT id, answer FROM answers ORDER BY id");
    let rows: Vec<(String, String)> = rows.fetch_all(&pool).await.unwrap();
    let line = |(id, answer): &(String, String)| {
        json!({ "scope": "tenant", "operation": "pay", "id": id, "json": answer }).to_string()
    };
    let lines: Vec<_> = rows.iter().map(line).collect();
    std::fs::write(file.path().join("old.ndjson"), lines.join("\n")).unwrap();
    let from = file.path().join("old.ndjson");
    let imported = file
        .json(&["import", from.to_str().unwrap(), "--yes"])
        .ends(0)
        .value();
    assert_eq!([&imported["stored"], &imported["existing"]], [1, 3]);
    query("DROP TABLE answers").execute(&pool).await.unwrap();
    for (id, answer) in rows {
        let again = by_run(idempotency.clone(), pool.clone(), Arc::clone(&effects), &id);
        assert_eq!(again.await.unwrap(), answer, "deployment 2");
    }
    assert_eq!(effects.load(Ordering::SeqCst), 4);
}
