//! Cases that only MySQL and MariaDB have, beside those of the suite.

mod batches;
mod reads;
mod schema;
mod sessions;
mod transactions;
mod waits;

pub(crate) use schema::migrate_as_child;

use idem_conformance::{Case, CaseFuture, Context};

/// All of them.
pub(crate) const ALL: &[Case] = &[
    batches::LARGE_RESULTS_OF_A_BATCH_ARE_STORED_WHOLE,
    reads::DUPLICATES_LOCK_AND_WRITE_NOTHING,
    reads::A_CLOCK_THAT_WAS_SET_BACK_TAKES_NO_TOKEN_BACK,
    reads::NO_OPERATION_SCANS_A_LARGE_TABLE,
    schema::SIXTEEN_PROCESSES_MIGRATE_AT_ONCE,
    schema::THE_PRINTED_SCHEMA_IS_THE_MIGRATED_ONE,
    schema::A_MISSING_TABLE_IS_NAMED_WITH_ITS_CURE,
    schema::A_LATER_SCHEMA_IS_REFUSED,
    schema::FOUR_PRIVILEGES_ARE_ENOUGH,
    sessions::ANY_SESSION_ANSWERS_THE_SAME,
    sessions::ANY_COLLATION_ANSWERS_THE_SAME,
    sessions::UNSUITABLE_SETTINGS_ARE_REFUSED,
    sessions::RETURNING_IS_A_CHOICE,
    transactions::RECORD_AND_BUSINESS_ROW_COMMIT_TOGETHER,
    transactions::A_ROLLBACK_LEAVES_NEITHER,
    transactions::SERIALIZABLE_TRANSACTIONS_ARE_REPEATED_AS_A_WHOLE,
    transactions::A_LOST_CLAIM_ROLLS_THE_BUSINESS_ROW_BACK,
    transactions::LEASES_END_DURING_A_LONG_TRANSACTION,
    transactions::AN_OLD_SNAPSHOT_HIDES_NOTHING_FROM_A_CLAIM,
    transactions::A_TRANSACTION_DROPPED_AT_ANY_POLL_IS_NOT_LEFT_OPEN,
    waits::A_CLAIM_WAITS_FOR_THE_TRANSACTION_THAT_CLAIMED,
    waits::A_CLAIM_THAT_LAPSED_UNSEEN_IS_FAILED_AND_NOT_TAKEN_OVER,
    waits::A_WAIT_THAT_IS_TOO_LONG_IS_AN_UNKNOWN_EFFECT,
    waits::LOCK_WAITS_ARE_REPEATED_AND_COUNTED,
    waits::DEADLOCKS_ARE_REPEATED_AND_COUNTED,
    waits::PURGE_PASSES_OVER_WHAT_IS_LOCKED,
];

/// A case of this crate.
const fn case(law: u8, name: &'static str, run: for<'a> fn(&'a Context) -> CaseFuture<'a>) -> Case {
    Case {
        law,
        name,
        needs: &[],
        run,
    }
}
