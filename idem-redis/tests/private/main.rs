//! Tests that need servers of their own: killed, frozen, full, demoted, or with refused settings.

mod durable;
mod limits;
#[path = "../own/mod.rs"]
mod own;
mod quiet;
mod replicas;
mod sentinel;
mod stopped;
mod switch;
mod tls;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use own::{Outcome, trial};
use tokio::runtime::Runtime;

type Test = fn(&Runtime, &str) -> Outcome;

/// Each on Redis and on Valkey.
const EACH: &[(&str, Test)] = &[
    (
        "no_acknowledged_completion_is_lost_when_a_durable_server_is_killed",
        durable::durable,
    ),
    (
        "without_persistence_a_restart_loses_everything_but_the_order_of_tokens",
        durable::forgetful,
    ),
    (
        "a_server_that_evicts_is_refused_with_the_setting_to_change",
        limits::evicts,
    ),
    (
        "a_full_server_answers_duplicates_and_refuses_the_rest_undone",
        limits::full,
    ),
    (
        "a_user_with_the_documented_rights_can_do_everything",
        limits::rights,
    ),
    ("duplicates_write_nothing", quiet::duplicates),
    ("no_operation_sends_what_it_should_not", quiet::commands),
    ("tickets_of_a_flushed_cache_are_void", quiet::flushed),
    (
        "a_frozen_server_costs_no_more_than_the_time_out",
        stopped::frozen,
    ),
    (
        "claims_whose_callers_gave_up_on_a_frozen_server_take_over_nothing",
        stopped::given_up,
    ),
    (
        "a_sweep_finds_what_is_abandoned_among_many",
        stopped::sweeps,
    ),
    (
        "a_server_that_replicates_scripts_as_text_is_refused",
        limits::replicates_text,
    ),
    ("tls_at_one_end_only_is_named", tls::mismatched),
    #[cfg(feature = "tls")]
    ("an_untrusted_certificate_is_refused", tls::untrusted),
    ("an_authority_that_is_given_is_trusted", tls::trusted),
];

/// On Redis alone, which ships the sentinel.
const PAIRS: &[(&str, Test)] = &[
    ("a_replica_is_refused", replicas::refused),
    (
        "a_failover_loses_an_acknowledged_completion_without_wait",
        replicas::lost,
    ),
    (
        "a_master_that_is_cut_off_has_a_second_holder_and_loses_what_it_acknowledged",
        replicas::split,
    ),
    (
        "a_failover_keeps_acknowledged_completions_with_wait",
        replicas::kept,
    ),
    (
        "a_write_that_replicas_did_not_acknowledge_is_repeated",
        replicas::unacknowledged,
    ),
    (
        "a_nonce_is_taken_when_a_replica_knows_of_it",
        replicas::nonces,
    ),
    ("a_demoted_master_is_left", replicas::demoted),
    (
        "a_sentinel_leads_to_the_new_master_with_one_winner_per_key",
        sentinel::failover,
    ),
    (
        "a_sentinel_leads_away_from_a_master_that_was_demoted",
        sentinel::demoted,
    ),
];

fn main() -> ExitCode {
    let mut trials = Vec::new();
    for (server, tests) in [("redis", EACH), ("valkey", EACH), ("redis", PAIRS)] {
        let missing = idem_servers::no_private(server);
        trials.extend(tests.iter().map(|(name, test)| {
            let trial: Trial = trial(format!("{server}::{name}"), |runtime| test(runtime, server));
            trial.with_ignored_flag(missing)
        }));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
