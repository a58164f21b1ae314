//! What campaigns keep: rows, the ledger, and pages for a browser.

use std::collections::BTreeMap;
use std::path::PathBuf;

use idem_prove::campaign::{AgainArguments, Counts, Ledger, Plan, Profile, Row, Tally, again};
use idem_prove::cells::{Fault, Outcome, Ran};
use idem_prove::history::Calls;
use idem_prove::search::Bounds;
use idem_prove::timeline;
use sha2::{Digest, Sha256};

fn row(cell: &str, seed: u64, status: u8) -> Row {
    let faults = Counts {
        installed: 2,
        skipped: 1,
        indeterminate: 0,
    };
    Row {
        cell: cell.to_owned(),
        seed,
        commit: "abc".to_owned(),
        code: "123".to_owned(),
        product: "Redis 7".to_owned(),
        settings: String::new(),
        tally: Tally {
            claims: 10,
            calls: 20,
            ..Tally::default()
        },
        undecided: 0,
        refused: u64::from(status == 1),
        losses: 3,
        faults: BTreeMap::from([("power cut".to_owned(), faults)]),
        status,
        verdict: "accepted".to_owned(),
        sha256: String::new(),
    }
}

#[test]
fn the_ledger_counts_each_piece_once() {
    let mut ledger = Ledger::default();
    ledger.add(&row("redis/kill", 1, 0)).unwrap();
    ledger.add(&row("redis/kill", 2, 1)).unwrap();
    // The campaign was killed after it had added this one.
    ledger.add(&row("redis/kill", 2, 1)).unwrap();
    ledger.add(&row("redis/stop", 2, 0)).unwrap();
    let [kill, stop] = &ledger.entries[..] else {
        panic!("{ledger:?}");
    };
    assert_eq!((kill.tally.claims, stop.tally.claims), (20, 10));
    assert_eq!((kill.losses, kill.refused), (6, 1));
    assert_eq!(kill.seeds, [1, 2]);
    assert_eq!(kill.not_accepted, [(2, "accepted".to_owned())]);
    let faults = kill.faults["power cut"];
    assert_eq!((faults.installed, faults.skipped), (4, 2));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("new/ledger.json");
    ledger.write(&file).unwrap();
    assert_eq!(Ledger::read(&file).unwrap(), ledger);
    assert_eq!(
        Ledger::read(&folder.path().join("none")).unwrap(),
        Ledger::default()
    );
}

#[test]
fn the_ledger_takes_no_row_of_code_that_is_not_committed() {
    let mut row = row("redis/kill", 1, 0);
    row.commit += "+";
    let mut ledger = Ledger::default();
    assert!(ledger.add(&row).is_err());
    assert_eq!(ledger, Ledger::default());
}

#[test]
fn a_kept_history_is_judged_again_and_replaces_its_row() {
    let folder = tempfile::tempdir().unwrap();
    let ledger_file = folder.path().join("ledger");
    let histories = folder.path().join("0000");
    std::fs::create_dir(&histories).unwrap();
    let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let text = std::fs::read(fixtures.join("RedisReplaysWaitingCompletion.ndjson")).unwrap();
    std::fs::write(histories.join("0.ndjson"), &text).unwrap();
    let ran = Ran {
        product: "Redis 7".to_owned(),
        settings: String::new(),
        faults: vec![Fault {
            what: "power cut".to_owned(),
            on: "disk".to_owned(),
            outcome: Outcome::Installed {
                proof: String::new(),
            },
            c0: 0,
            c1: 1,
            loses: true,
            takes_back: false,
            sets_clock: false,
        }],
        gone: None,
        rows: 0,
        torn: Vec::new(),
    };
    let ran = serde_json::to_vec(&ran).unwrap();
    std::fs::write(histories.join("ran.json"), ran).unwrap();
    let hash = Sha256::digest(&text)[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let row = Row {
        undecided: 1,
        losses: 0,
        verdict: "not proven: the search gave 1 keys up".to_owned(),
        sha256: hash,
        ..row("redis-everysec/power-cut", 1, 2)
    };
    let file = folder.path().join("0000.json");
    std::fs::write(&file, serde_json::to_vec(&row).unwrap()).unwrap();
    let mut ledger = Ledger::default();
    ledger.add(&row).unwrap();
    ledger.write(&ledger_file).unwrap();
    let arguments = AgainArguments {
        folder: folder.path().to_owned(),
        ledger: ledger_file.clone(),
    };
    for _ in 0..2 {
        // The second time as after a kill between the two files.
        std::fs::write(&file, serde_json::to_vec(&row).unwrap()).unwrap();
        again(&arguments).unwrap();
        let ledger = Ledger::read(&ledger_file).unwrap();
        let entry = &ledger.entries[0];
        assert_eq!((entry.undecided, entry.losses), (0, 1), "{entry:?}");
        assert!(entry.not_accepted.is_empty(), "{entry:?}");
        assert_eq!(entry.tally.claims, 10);
    }
    std::fs::write(histories.join("0.ndjson"), &text[..text.len() - 1]).unwrap();
    let error = again(&arguments).unwrap_err();
    assert!(error.to_string().contains("another history"), "{error}");
}

#[test]
fn a_plan_is_that_of_its_seed_and_has_the_cells_of_its_profile() {
    let plan = |profile, seed| Plan::draw(profile, seed, "abc".to_owned(), "");
    let ci = plan(Profile::Ci, 7);
    assert_eq!(ci, plan(Profile::Ci, 7));
    assert_ne!(ci, plan(Profile::Ci, 8));
    assert_eq!(ci.pieces.len(), 5, "{ci:?}");
    let cells = idem_prove::cells::all();
    let campaign = plan(Profile::Campaign, 7);
    for cell in &cells {
        let pieces = campaign
            .pieces
            .iter()
            .filter(|piece| piece.cell == cell.name);
        assert!(pieces.count() >= 2, "{}", cell.name);
    }
    let redis = Plan::draw(Profile::Nightly, 7, "abc".to_owned(), "redis/");
    assert_eq!(redis.pieces.len(), 4, "{redis:?}");
    let weak = Plan::draw(Profile::Nightly, 7, "abc".to_owned(), "mariadb/fsync-error");
    assert_eq!(weak.pieces[0].faults, 10, "too few show no loss: {weak:?}");
}

#[test]
fn a_tally_counts_calls_without_an_answer_and_takeovers() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let calls = Calls::read(&folder.join("TakeoverKeepsToken.ndjson")).unwrap();
    let tally = Tally::of(&calls);
    assert_eq!(tally.keys, 1);
    assert!(tally.takeovers >= 1 && tally.claims >= 2, "{tally:?}");
    let mut cut = calls;
    cut.seen.iter_mut().for_each(|seen| seen.answer = None);
    let unknown = Tally::of(&cut);
    assert_eq!((unknown.claims, unknown.unknown), (0, unknown.calls));
}

#[test]
fn a_page_shows_the_refused_answer_in_red() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let of = |name: &str| {
        let calls = Calls::read(&folder.join(name)).unwrap();
        let history = calls.history().unwrap();
        timeline::page(name, &history.keys, Bounds::default())
    };
    let refused = of("NoFencing.ndjson");
    assert_eq!(refused.matches("class='refused'").count(), 1, "{refused}");
    assert!(refused.contains("fits none of these states"));
    let accepted = of("PostgresReplaysWaitingCommit.ndjson");
    assert_eq!(accepted.matches("class='refused'").count(), 0);
}
