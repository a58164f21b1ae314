//! Every mutant is rejected, and by the cases that are there to reject it: one trial for each.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use idem_conformance::mutants::{Bug, MutantHarness, MutantStore};
use idem_conformance::remote::{Lie, RemoteHarness};
use idem_conformance::{Harness, Missing, Outcome, Settings, Target, run_all, worker};
use libtest_mimic::{Arguments, Failed, Trial};

/// Mutants run at a time, and cases of each.
const MUTANTS: usize = 4;
const CASES: usize = 6;

/// Patience and deadline with stores that are known to be wrong.
const PATIENCE: Duration = Duration::from_secs(2);
const DEADLINE: Duration = Duration::from_secs(12);

/// Each bug and the cases that must reject it; others may, too.
const EXPECTED: &[(Bug, &[&str])] = &[
    (
        Bug::CheckThenInsert,
        &["law01::concurrent_claims_of_one_key_have_one_winner"],
    ),
    (
        Bug::LastWriterWins,
        &["law01::concurrent_claims_of_one_key_have_one_winner"],
    ),
    (
        Bug::NoFencing,
        &[
            "law05::after_a_takeover_the_old_holder_can_do_nothing",
            "law01::a_late_completion_and_a_takeover_do_not_both_succeed",
        ],
    ),
    (
        Bug::IgnoresToken,
        &["law05::the_right_attempt_with_another_token_is_refused"],
    ),
    (
        Bug::IgnoresAttempt,
        &["law05::the_right_token_with_another_attempt_is_refused"],
    ),
    (
        Bug::ClientClock,
        &["law09::a_lease_given_through_one_handle_holds_for_another"],
    ),
    (
        Bug::NeverExpires,
        &["law08::a_completed_key_is_fresh_after_its_retention"],
    ),
    (
        Bug::ExpiresEarly,
        &["law08::retention_counts_from_the_completion"],
    ),
    (Bug::IgnoresScope, &["law10::scopes_do_not_share_records"]),
    (
        Bug::IgnoresOperation,
        &["law10::operations_do_not_share_records"],
    ),
    (
        Bug::JoinsParts,
        &["law10::the_parts_of_a_key_are_not_joined"],
    ),
    (Bug::FoldsCase, &["law10::case_counts"]),
    (Bug::TrimsSpaces, &["law10::spaces_at_the_end_count"]),
    (
        Bug::FoldsUnicode,
        &["law10::composed_and_decomposed_forms_differ"],
    ),
    (
        Bug::CutsKeys,
        &["law10::the_longest_keys_differ_in_their_last_byte"],
    ),
    (
        Bug::TokenStartsAgain,
        &[
            "law05::the_token_grows_with_a_release",
            "law05::the_token_grows_with_a_purge",
        ],
    ),
    (
        Bug::TakeoverKeepsToken,
        &["law05::the_token_grows_with_a_takeover"],
    ),
    (
        Bug::TakeoverIgnoresFingerprint,
        &["law04::a_stale_claim_conflicts_and_is_not_taken_over"],
    ),
    (
        Bug::TakeoverIgnoresPolicy,
        &["law05::a_takeover_needs_both_sides"],
    ),
    (
        Bug::ReplaysToAnyRequest,
        &["law04::another_request_conflicts_with_a_completed_key"],
    ),
    (
        Bug::IgnoresScheme,
        &["law04::the_same_digest_under_another_scheme_conflicts"],
    ),
    (
        Bug::ConflictTouches,
        &["law04::another_request_conflicts_with_a_claim_in_flight"],
    ),
    (
        Bug::AnyoneRenews,
        &["law05::the_right_token_with_another_attempt_is_refused"],
    ),
    (
        Bug::AnyoneReleases,
        &["law05::after_a_takeover_the_old_holder_can_do_nothing"],
    ),
    (
        Bug::RenewalShortens,
        &["law05::a_renewal_never_shortens_the_lease"],
    ),
    (Bug::LateHolderLoses, &["law05::a_late_holder_may_complete"]),
    (
        Bug::AbandonedKeepsOwner,
        &["law05::after_a_sweep_failed_the_record_the_late_holder_can_do_nothing"],
    ),
    (
        Bug::ForgetsOwnClaim,
        &["law06::the_same_attempt_gets_its_own_claim_back"],
    ),
    (
        Bug::OwnClaimIsTakeover,
        &["law06::the_same_attempt_gets_its_claim_back_after_its_lease"],
    ),
    (
        Bug::SecondCompletionOverwrites,
        &["law06::a_different_response_is_refused_and_the_first_stands"],
    ),
    (
        Bug::SecondCompletionFails,
        &["law06::the_same_completion_succeeds_twice"],
    ),
    (
        Bug::SecondReleaseFails,
        &["law06::a_release_succeeds_twice"],
    ),
    (
        Bug::ReleaseLeavesRecord,
        &["law07::a_released_key_is_free_for_another_request"],
    ),
    (
        Bug::LossyBody,
        &["law03::a_body_of_every_byte_value_is_replayed"],
    ),
    (Bug::CutsBody, &["law03::a_large_body_is_replayed"]),
    (
        Bug::SortsHeaders,
        &["law03::repeated_headers_keep_their_order"],
    ),
    (
        Bug::ClampsStatus,
        &["law03::statuses_at_the_extremes_are_replayed"],
    ),
    (
        Bug::CountsDuplicates,
        &["law15::two_hundred_replays_change_nothing"],
    ),
    (Bug::PurgesStale, &["law08::nothing_live_is_purged"]),
    (Bug::PurgeIgnoresLimit, &["law16::purge_keeps_to_its_limit"]),
    (
        Bug::PurgeTellsLimit,
        &["law08::purge_deletes_what_has_expired_and_counts_it"],
    ),
    (
        Bug::SweepFailsAll,
        &["law16::sweep_fails_only_what_may_not_be_taken_over"],
    ),
    (
        Bug::SweepFailsLive,
        &["law05::a_live_claim_that_must_not_run_again_is_left_alone"],
    ),
    (
        Bug::ChecksNothing,
        &["law11::a_claim_with_a_bad_duration_is_refused"],
    ),
    (
        Bug::StaleCache,
        &["law08::a_replayed_key_is_fresh_after_its_retention"],
    ),
    (
        Bug::SealsInTwoSteps,
        &["law13::a_dropped_completion_is_stored_or_not"],
    ),
    (
        Bug::PoisonedByDrop,
        &["law13::a_dropped_claim_frees_its_key_after_the_lease"],
    ),
    (
        Bug::BatchStopsAtError,
        &["law11::a_bad_item_does_not_fail_its_neighbours"],
    ),
    (
        Bug::BatchChecksThenInserts,
        &["law01::racing_batches_have_one_winner_for_each_key"],
    ),
    (
        Bug::CheckpointChecksNothing,
        &[
            "law05::after_a_takeover_the_old_holder_can_store_no_checkpoint",
            "law05::a_checkpoint_needs_both_token_and_attempt",
        ],
    ),
    (
        Bug::CheckpointChecksThenWrites,
        &["law01::a_checkpoint_that_races_a_takeover_is_received_or_refused"],
    ),
    (
        Bug::CheckpointNeedsLease,
        &["law05::a_stale_holder_may_store_a_checkpoint"],
    ),
    (
        Bug::CheckpointRenews,
        &["law02::a_checkpoint_changes_nothing_that_others_see"],
    ),
    (Bug::CheckpointCut, &["law03::a_large_checkpoint_is_kept"]),
    (
        Bug::FirstCheckpointStands,
        &["law06::the_last_of_several_checkpoints_counts"],
    ),
    (
        Bug::CheckpointLostInTakeover,
        &["law05::a_takeover_receives_the_last_checkpoint"],
    ),
    (
        Bug::CheckpointLostWhenAskedAgain,
        &["law06::the_same_attempt_finds_its_checkpoint"],
    ),
    (
        Bug::CheckpointOutlivesRelease,
        &["law07::a_released_key_begins_without_a_checkpoint"],
    ),
    (
        Bug::CheckpointOutlivesExpiry,
        &["law08::an_expired_key_begins_without_a_checkpoint"],
    ),
    (
        Bug::CheckpointOutlivesFailure,
        &["law07::a_retried_failure_begins_without_a_checkpoint"],
    ),
    (
        Bug::MarkLastWriterWins,
        &[
            "law01::the_highest_of_racing_versions_stands",
            "law02::a_stale_version_is_told_where_the_mark_is",
        ],
    ),
    (
        Bug::MarkChecksThenWrites,
        &["law01::of_racing_equal_versions_one_advances"],
    ),
    (
        Bug::EqualVersionIsStale,
        &["law02::the_version_of_the_mark_is_told_as_unchanged"],
    ),
    (
        Bug::EqualVersionAdvances,
        &["law02::the_version_of_the_mark_is_told_as_unchanged"],
    ),
    (
        Bug::MarkOfTheScope,
        &["law10::sources_are_equal_only_if_their_bytes_are"],
    ),
    (
        Bug::MarkIsText,
        &["law11::versions_at_their_limits_are_accepted"],
    ),
    (
        Bug::MarkIsFloat,
        &["law11::versions_at_their_limits_are_accepted"],
    ),
    (
        Bug::MarkNeverExpires,
        &["law08::an_expired_mark_counts_as_absent"],
    ),
    (
        Bug::MarkKeepsFirstRetention,
        &["law08::an_advance_begins_a_new_retention"],
    ),
    (
        Bug::StaleVersionKeepsMark,
        &["law08::what_is_stale_or_unchanged_keeps_no_mark"],
    ),
    (Bug::PurgeTakesLiveMarks, &["law08::no_live_mark_is_purged"]),
    (
        Bug::MarksGoWithRecords,
        &["law10::marks_and_records_do_not_see_each_other"],
    ),
    (
        Bug::OffersLess,
        &["law02::a_store_offers_what_its_profile_promises"],
    ),
];

/// The same behind TCP, where several processes meet: a client that lies, or a store with a bug.
const REMOTE: &[(Lie, Bug, &[&str])] = &[
    (
        Lie::NoEffect,
        Bug::None,
        &["law14::a_claim_cut_off_is_not_reported_as_undone"],
    ),
    (
        Lie::AsksAsAnother,
        Bug::None,
        &["law06::a_claim_whose_answer_was_lost_is_recovered"],
    ),
    (
        Lie::AcknowledgesEarly,
        Bug::None,
        &["law12::what_a_killed_process_completed_is_there"],
    ),
    (
        Lie::Truth,
        Bug::CheckThenInsert,
        &["law01::racing_processes_have_one_winner_for_each_key"],
    ),
    (
        Lie::NoEffect,
        Bug::CheckpointLostInTakeover,
        &[
            "law12::what_a_killed_process_left_is_received_by_its_successor",
            "law14::a_checkpoint_cut_off_is_not_reported_as_undone",
            "law14::an_advance_cut_off_is_not_reported_as_undone",
        ],
    ),
    (
        Lie::Truth,
        Bug::MarkChecksThenWrites,
        &["law01::racing_processes_raise_each_mark_once_to_each_version"],
    ),
    (
        Lie::Truth,
        Bug::NoFencing,
        &["law01::processes_that_release_fail_and_come_late_obey_the_oracle"],
    ),
];

/// Name, number of rejecting cases, expected cases.
type Row = (String, usize, String);
type Table = Arc<Mutex<Vec<Row>>>;

fn rejected_by(harness: impl Harness) -> BTreeSet<String> {
    let harness: Arc<dyn Harness> = Arc::new(harness);
    let settings = Settings::new().with_deadline(DEADLINE);
    let failed = |outcome: &Outcome| matches!(outcome, Outcome::Failed(_));
    let verdicts = run_all(&harness, &settings, CASES).into_iter();
    verdicts
        .filter(|verdict| failed(&verdict.outcome))
        .map(|verdict| verdict.case)
        .collect()
}

fn judge(
    name: String,
    by: &BTreeSet<String>,
    expected: &[&str],
    table: &Table,
) -> Result<(), Failed> {
    for case in expected {
        if !by.contains(*case) {
            return Err(format!("not rejected by {case}, but by {by:?}").into());
        }
    }
    let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
    table.push((name, by.len(), expected.join(", ")));
    Ok(())
}

fn remote(bug: Bug, lie: Lie) -> Result<impl Harness, Failed> {
    let server = RemoteHarness::start(move || MutantStore::new(bug))?;
    Ok(server.with_lie(lie).with_patience(PATIENCE))
}

fn trials(table: &Table) -> Vec<Trial> {
    let mut trials = vec![Trial::test(
        "without_a_bug::every_case_passes",
        every_case_passes,
    )];
    trials.push(Trial::test(
        "every_bug::has_its_expected_case",
        every_bug_is_expected,
    ));
    for (bug, expected) in EXPECTED {
        let (name, table) = (format!("{bug:?}"), Arc::clone(table));
        trials.push(Trial::test(format!("rejected::{name}"), move || {
            judge(
                name,
                &rejected_by(MutantHarness::new(*bug)),
                expected,
                &table,
            )
        }));
    }
    for (lie, bug, expected) in REMOTE {
        let (name, table) = (format!("remote_{lie:?}_{bug:?}"), Arc::clone(table));
        trials.push(Trial::test(format!("rejected::{name}"), move || {
            judge(name, &rejected_by(remote(*bug, *lie)?), expected, &table)
        }));
    }
    trials
}

fn every_case_passes() -> Result<(), Failed> {
    let harness: Arc<dyn Harness> = Arc::new(MutantHarness::new(Bug::None));
    for verdict in run_all(&harness, &Settings::new(), CASES) {
        if let Outcome::Failed(reason) = verdict.outcome {
            return Err(format!("{}: {reason}", verdict.case).into());
        }
    }
    Ok(())
}

fn every_bug_is_expected() -> Result<(), Failed> {
    let expected = |bug: &&Bug| EXPECTED.iter().any(|(known, _)| known == *bug);
    match Bug::ALL.iter().find(|bug| !expected(bug)) {
        None => Ok(()),
        Some(bug) => Err(format!("no case is named for {bug:?}").into()),
    }
}

fn print(table: &Table) {
    let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
    table.sort();
    println!("{:<34} {:>5}  among them", "mutant", "cases");
    for (name, cases, expected) in table.iter() {
        println!("{name:<34} {cases:>5}  {expected}");
    }
}

fn main() -> ExitCode {
    let target = Target::new("remote", || async {
        RemoteHarness::start(|| MutantStore::new(Bug::None))
            .map_err(|error| Missing::new(error.to_string()))
    });
    if let Some(code) = worker::serve(&[target]) {
        return code;
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(MUTANTS));
    let table = Table::default();
    let conclusion = libtest_mimic::run(&arguments, trials(&table));
    if !arguments.list && !arguments.exact {
        print(&table);
    }
    conclusion.exit_code()
}
