//! A cluster of six nodes on this machine, three masters and three replicas, whose masters are
//! killed and frozen and whose slots are moved while claims go on.

mod killed;
mod listed;
mod moved;
#[path = "../own/mod.rs"]
mod own;
mod slots;
mod spread;

use std::process::ExitCode;

use libtest_mimic::Arguments;
use own::{Outcome, trial};
use tokio::runtime::Runtime;

type Test = fn(&Runtime) -> Outcome;

const TESTS: &[(&str, Test)] = &[
    (
        "a_master_killed_in_a_race_breaks_no_rule_and_comes_back_as_a_replica",
        killed::race,
    ),
    (
        "a_killed_master_disturbs_no_key_of_the_others",
        killed::others,
    ),
    (
        "a_frozen_master_disturbs_no_key_of_the_others",
        killed::frozen,
    ),
    ("a_slot_that_is_moved_is_followed", moved::followed),
    (
        "a_slot_that_is_moved_in_a_race_has_one_winner_per_key",
        moved::race,
    ),
    (
        "batches_and_sweeps_reach_the_slots_of_all_masters",
        spread::everywhere,
    ),
    ("a_list_visits_every_master", listed::everywhere),
    (
        "a_list_finds_the_records_of_a_slot_that_was_moved_behind_it",
        listed::moved,
    ),
    (
        "a_list_finds_the_records_of_a_promoted_replica",
        listed::promoted,
    ),
    ("one_node_is_enough_to_find_the_others", spread::one_seed),
];

fn main() -> ExitCode {
    let missing = idem_servers::no_private("redis-cluster");
    let trials = TESTS.iter().map(|(name, test)| {
        let trial = trial((*name).to_owned(), test);
        trial.with_ignored_flag(missing)
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}
