//! Drives the real command with small sizes.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use idem_core::IdempotencyStore;
use idem_core::admin::{Forced, ForcedAction, ForcedStep, RecordFilter, SummaryState};
use support::{Ran, on_stores, trials};

fn main() -> ExitCode {
    let mut all = trials![
        every_effect_happens_once,
        crashes_change_nothing,
        other_payloads_are_refused,
        too_short_leases_only_cost_time,
        sabotage_is_noticed,
        at_most_twenty_keys_are_listed,
        wrong_arguments_are_explained,
        nothing_is_left_behind,
        closed_output_is_no_panic,
        workers_end_with_their_parent,
        keys_of_killed_workers_are_freed_by_force,
    ];
    #[cfg(unix)]
    all.extend(trials![interrupt_stops_it,]);
    all.extend(on_stores("every_effect_happens_once", once_there));
    support::main(all)
}

fn command(arguments: &[&str]) -> Command {
    support::command(env!("CARGO_BIN_EXE_storm"), arguments)
}

fn run(arguments: &[&str]) -> Ran {
    command(arguments).arg("--json").output().unwrap().into()
}

/// Returns whether a line of standard error only says how far the run is.
fn is_progress(line: &str) -> bool {
    line.ends_with(" crashes")
}

/// Checks that every effect happened once and every delivery was answered.
#[track_caller]
fn is_clean(storm: &Ran, requests: u64, deliveries: u64) {
    storm.ended(0, &["Every effect happened exactly once."]);
    assert_eq!(storm.fact("requests"), requests);
    assert_eq!(storm.fact("effects"), requests);
    assert_eq!(storm.fact("violations"), 0);
    assert_eq!(storm.fact("deliveries"), deliveries);
    let answers = ["fresh", "replays", "conflicts"].map(|name| storm.fact(name));
    assert_eq!(answers.iter().sum::<u64>(), deliveries, "{answers:?}");
}

/// Leases of ten minutes: without the forced steps, the keys of killed workers would block the
/// storm for good. A step that meets a living worker costs it its claim, and no effect is
/// lost or doubled.
fn keys_of_killed_workers_are_freed_by_force() {
    let arguments = [
        "--requests=60",
        "--retries=3",
        "--crash-rate=0.1",
        "--lease=600000",
        "--keep",
        "--json",
    ];
    let folder = tempfile::tempdir().unwrap();
    let mut child = command(&arguments)
        .env("TMPDIR", folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let place = loop {
        let line = lines.next().unwrap().unwrap();
        if let Some(place) = line.strip_prefix("storm: the records are in ") {
            break place.to_owned();
        }
    };
    let (url, tables) = place.split_once(", tables ").unwrap();
    let (table, _) = tables.split_once(' ').unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let forced = runtime.block_on(async {
        let config = idem_sqlite::Config::new().with_table(table).unwrap();
        let store = idem_sqlite::SqliteStore::connect(url, config)
            .await
            .unwrap();
        let mut forced = 0;
        while child.try_wait().unwrap().is_none() {
            // A busy file is read again.
            forced += free_old_claims(&store).await.unwrap_or(0);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        forced
    });
    let storm = Ran::from(child.wait_with_output().unwrap());
    storm.ended(0, &["Every effect happened exactly once."]);
    assert_eq!(storm.fact("effects"), 60);
    assert_eq!(storm.fact("takeovers"), 0, "no lease has ended");
    assert!(forced > 0, "no key had to be freed");
}

/// Frees keys that were claimed half a second ago.
async fn free_old_claims(store: &dyn IdempotencyStore) -> idem_core::Result<usize> {
    let admin = store.admin().expect("every store lists");
    let old = RecordFilter::new()
        .with_state(SummaryState::InFlight)
        .with_min_age(Duration::from_millis(500));
    let mut forced = 0;
    for record in admin.list(&old, None, 1_000).await?.records {
        let action = ForcedAction::Release;
        let step = ForcedStep::new(record.key, record.token, action, "test", "worker killed")?;
        forced += usize::from(matches!(admin.force(&step).await?, Forced::Done { .. }));
    }
    Ok(forced)
}

#[track_caller]
fn eventually(mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !happened() {
        assert!(Instant::now() < deadline, "it did not happen within 30 s");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn once_there(store: &str, product: &str) {
    let storm = run(&["--store", store, "--requests=60", "--crash-rate=0.1"]);
    is_clean(&storm, 60, 300);
    let ran = storm.json["product"].as_str().unwrap_or_default();
    assert!(ran.contains(product), "{ran}");
}

fn every_effect_happens_once() {
    let storm = run(&["--requests=200", "--seed=11"]);
    is_clean(&storm, 200, 1_000);
    assert_eq!(storm.fact("seed"), 11);
    let product = storm.json["product"].as_str().unwrap();
    assert!(product.starts_with("SQLite 3."), "{product}");
    for name in ["p50_ms", "p99_ms", "seconds"] {
        assert!(storm.json[name].as_f64().unwrap() > 0.0, "{name}");
    }
    let labels = "requests,deliveries,takeovers,latency p99,elapsed";
    storm.ended(0, &labels.split(',').collect::<Vec<_>>());
    let mut lines = storm.stdout.lines().rev().skip(1);
    assert!(lines.all(|line| line.chars().count() <= 100));
}

fn crashes_change_nothing() {
    let storm = run(&[
        "--requests=40",
        "--crash-rate=0.4",
        "--processes=3",
        "--seed=1",
    ]);
    is_clean(&storm, 40, 200);
    assert!(storm.fact("crashes") > 40);
    assert!(storm.fact("takeovers") > 0);
    let inside = ["claimed ", "working ", "uncommitted "];
    assert!(inside.iter().any(|point| storm.stdout.contains(point)));
}

fn other_payloads_are_refused() {
    let storm = run(&["--requests=50", "--conflict-rate=0.5", "--crash-rate=0.05"]);
    is_clean(&storm, 50, 250);
    assert!(storm.fact("conflicts") > 25);
    let none = run(&["--requests=20", "--conflict-rate=0", "--crash-rate=0"]);
    is_clean(&none, 20, 100);
    assert_eq!((none.fact("conflicts"), none.fact("replays")), (0, 80));
}

fn too_short_leases_only_cost_time() {
    let storm = run(&[
        "--requests=40",
        "--lease=10",
        "--concurrency=32",
        "--crash-rate=0",
    ]);
    is_clean(&storm, 40, 200);
}

fn sabotage_is_noticed() {
    for (how, expected) in [
        ("no-claim", "effects: no claim (process "),
        ("two-transactions", "effects: attempt "),
        ("no-effect", ": no effect"),
    ] {
        let sabotage = format!("--sabotage={how}");
        let storm = run(&["--requests=40", "--crash-rate=0.8", "--seed=4", &sabotage]);
        storm.ended(1, &[expected]);
        assert!(storm.fact("violations") > 0);
        let key = storm.json["offending"][0]["key"].as_str().unwrap();
        storm.ended(1, &[&format!("\n  {key}: ")]);
    }
}

fn at_most_twenty_keys_are_listed() {
    let storm = run(&["--requests=31", "--sabotage=no-effect", "--crash-rate=0"]);
    assert_eq!(storm.fact("violations"), 31);
    assert_eq!(storm.json["offending"].as_array().unwrap().len(), 20);
    storm.ended(1, &["\n  and 11 more\n"]);
}

fn wrong_arguments_are_explained() {
    // Each line has arguments and what the command says.
    let cases = "
        --store=sqlite::memory: => belongs to one process
        --store=sqlite: => needs a file
        --store=sqlite:/no/such/folder/x.db => /no/such/folder/x.db, folder exists
        --store=oracle://localhost => `oracle`, postgres://, mongodb://, hybrid+redis://
        --store=hybrid+redis://localhost => `hybrid+redis`, +DATABASE
        --store=postgres://me:secret@127.0.0.1:1/x => 127.0.0.1:1/x cannot be
        --store=mongodb://me:secret@127.0.0.1:1 => 127.0.0.1:1 cannot be
        --store=redis://me:secret@127.0.0.1:1/2 => 127.0.0.1:1/2 cannot be
        --crash-rate=2 => from 0 to 1
        --retries=10000 => --retries";
    for case in cases.trim().lines() {
        let (arguments, reasons) = case.split_once(" => ").unwrap();
        let storm = run(&arguments.split_whitespace().collect::<Vec<_>>());
        storm.is_stopped(&reasons.split(", ").collect::<Vec<_>>());
        assert!(!storm.stderr.contains("secret"), "{}", storm.stderr);
    }
}

fn nothing_is_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a 1.db");
    let store = format!("--store=sqlite:{}", file.display());
    let run = |more: &[&str]| {
        let arguments = [&["--requests=5", &store][..], more].concat();
        is_clean(&run(&arguments), 5, 25);
    };
    run(&["--keep"]);
    let before = tables(&file);
    assert!(before > 0, "{before}");
    run(&[]);
    let own = "only what the run itself had made is gone";
    assert_eq!(tables(&file), before, "{own}");
    let storm = Command::new(env!("CARGO_BIN_EXE_storm"))
        .args(["--requests=5"])
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    assert!(storm.status.success());
    let left = folder.path().read_dir().unwrap();
    let left = left.filter(|entry| entry.as_ref().unwrap().path().is_dir());
    assert_eq!(left.count(), 0, "a temporary folder is left");
}

/// Returns the number of tables in the file.
fn tables(file: &Path) -> i64 {
    use idem_sqlite::sqlx::{Connection, SqliteConnection, query_scalar};
    let count = async {
        let url = format!("sqlite:{}", file.display());
        let mut connection = SqliteConnection::connect(&url).await?;
        query_scalar("SELECT count(*) FROM sqlite_schema WHERE type = 'table'")
            .fetch_one(&mut connection)
            .await
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(count).unwrap()
}

fn closed_output_is_no_panic() {
    for (more, expected) in [("--crash-rate=0", 0), ("--sabotage=no-effect", 1)] {
        let mut child = command(&["--requests=5", more])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(expected));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.lines().all(is_progress), "{stderr}");
    }
}

fn workers_end_with_their_parent() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("x.db");
    let mut worker = command(&["storm-worker"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let setup = serde_json::json!({
        "store": format!("sqlite:{}", store.display()), "namespace": "storm", "connections": 1,
        "lease": {"secs": 1, "nanos": 0}, "sabotage": null, "worker": "0.0",
    });
    let mut input = worker.stdin.take().unwrap();
    writeln!(input, "{setup}").unwrap();
    eventually(|| store.exists());
    assert!(
        worker.try_wait().unwrap().is_none(),
        "it waits for deliveries"
    );
    drop(input);
    eventually(|| worker.try_wait().unwrap().is_some());
}

#[cfg(unix)]
fn interrupt_stops_it() {
    let folder = tempfile::tempdir().unwrap();
    let storm = command(&["--requests=20000"])
        .env("TMPDIR", folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The program sets up its handler before it starts the first worker.
    let id = storm.id().to_string();
    eventually(|| {
        let workers = Command::new("pgrep").args(["-P", &id]).output().unwrap();
        workers.status.success()
    });
    let killed = Command::new("kill").args(["-INT", &id]).status();
    assert!(killed.unwrap().success());
    let output = storm.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    let stop = stderr.lines().find(|line| !is_progress(line));
    let stop = stop.unwrap_or_default();
    assert!(stop.starts_with("storm: interrupted"), "{stderr}");
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}
