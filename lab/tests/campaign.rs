//! What campaigns keep: rows, and the ledger.

use std::collections::BTreeMap;

use idem_prove::campaign::{Counts, Ledger, Plan, Row, Tally};
use idem_prove::fixtures::Fixture;

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
    let file = folder.path().join("new/ledger.ndjson");
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
fn a_plan_is_that_of_its_seed_and_has_every_cell() {
    let plan = |seed| Plan::draw(seed, "abc".to_owned(), "");
    let campaign = plan(7);
    assert_eq!(campaign, plan(7));
    assert_ne!(campaign, plan(8));
    for cell in &idem_prove::cells::all() {
        let pieces = campaign
            .pieces
            .iter()
            .filter(|piece| piece.cell == cell.name);
        assert!(pieces.count() >= 2, "{}", cell.name);
    }
    let weak = Plan::draw(7, "abc".to_owned(), "mariadb/fsync-error").pieces;
    let with_ten = weak.iter().filter(|piece| piece.faults == 10);
    assert_eq!(with_ten.count(), 5, "too few show no loss: {weak:?}");
}

#[test]
fn a_tally_counts_calls_without_an_answer_and_takeovers() {
    let calls = Fixture::named("TakeoverKeepsToken").unwrap();
    let calls = calls.calls().unwrap();
    let tally = Tally::of(&calls);
    assert_eq!(tally.keys, 1);
    assert!(tally.takeovers >= 1 && tally.claims >= 2, "{tally:?}");
    let mut cut = calls;
    cut.seen.iter_mut().for_each(|seen| seen.answer = None);
    let unknown = Tally::of(&cut);
    assert_eq!((unknown.claims, unknown.unknown), (0, unknown.calls));
}
