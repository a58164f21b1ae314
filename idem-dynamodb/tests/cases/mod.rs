//! Cases that only DynamoDB has, beside those of the suite.

mod admin;
mod answers;
mod clock;
mod limits;
mod schema;
mod transactions;

use std::time::Duration;

use idem_conformance::Case;

const HOUR: Duration = Duration::from_secs(3600);

/// Lists cases, each with its law.
macro_rules! cases {
    ($($law:literal $file:ident::$name:ident),* $(,)?) => {
        &[$(Case {
            law: $law,
            name: stringify!($name),
            needs: &[],
            expensive: false,
            run: |cx| Box::pin($file::$name(cx)),
        }),*]
    };
}

/// All cases.
pub(crate) const ALL: &[Case] = cases![
    16 admin::a_list_has_every_record_and_nothing_else,
    16 admin::expired_records_with_an_old_token_are_deleted,
    2 answers::winner_and_loser_take_one_round_trip,
    14 answers::a_winner_whose_answer_was_lost_is_acquired,
    14 answers::a_takeover_whose_answer_was_lost_is_acquired_once,
    14 answers::a_holder_whose_answers_were_lost_goes_on,
    14 answers::an_abandoned_record_is_failed_once_although_the_answer_was_lost,
    14 answers::conflicts_with_a_transaction_are_repeated,
    14 answers::errors_of_the_service_say_what_they_did,
    14 answers::what_the_sdk_hides_of_a_lost_answer_is_unknown,
    9 clock::without_a_date_nothing_is_decided,
    9 clock::a_service_that_answers_slowly_is_refused,
    9 clock::a_clock_ahead_may_end_a_lease_early_and_nothing_else,
    9 clock::a_clock_behind_may_keep_a_lease_and_nothing_else,
    9 clock::the_service_deletes_nothing_that_may_be_needed,
    11 limits::the_largest_record_fits_into_an_item,
    11 limits::nothing_is_sent_of_what_is_too_large,
    11 limits::debug_shows_no_secret,
    14 schema::a_missing_table_is_named_with_its_cure,
    14 schema::many_migrate_at_once,
    14 schema::a_table_with_another_key_is_refused,
    12 transactions::record_and_business_item_commit_together,
    12 transactions::a_refused_item_leaves_the_claim,
    5 transactions::a_lost_claim_commits_nothing,
    6 transactions::a_transaction_whose_answer_was_lost_is_committed_once,
    6 transactions::a_transaction_that_is_built_again_is_committed_once,
    1 transactions::of_many_transactions_under_one_claim_one_commits,
    12 transactions::checkpoint_and_mark_commit_with_the_transaction,
    14 transactions::a_transaction_of_ones_own_decodes_its_reasons,
];
