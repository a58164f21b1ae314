//! Cases for DuckDB alone, beside those of the suite.

mod conflicts;
mod errors;
mod processes;
mod registry;
mod schema;
mod transactions;
mod watermarks;

pub(crate) use processes::as_child;

use idem_conformance::{Case, CaseFuture, Context};

/// All cases of this crate.
pub(crate) const ALL: &[Case] = &[
    conflicts::WITHOUT_RETURNING_AN_UPDATE_AND_A_DELETION_BOTH_COMMIT,
    conflicts::A_DELETION_AND_AN_ACQUISITION_CONFLICT,
    conflicts::A_SWEEP_AND_A_COMPLETION_CONFLICT,
    conflicts::STEPS_ON_DIFFERENT_COLUMNS_CONFLICT,
    conflicts::A_DELETION_AND_AN_ADVANCE_CONFLICT,
    conflicts::OF_TWO_TRANSACTIONS_WITH_A_FRESH_KEY_ONE_COMMITS,
    conflicts::A_CONFLICT_IS_REPEATED_FOR_A_BOUNDED_TIME,
    conflicts::A_CONFLICT_OF_ONE_KEY_FAILS_NO_OTHER_OF_THE_BATCH,
    errors::ERRORS_SAY_WHAT_TO_DO,
    errors::CONFLICTS_ARE_TO_BE_REPEATED_AND_OTHER_ERRORS_ARE_NOT,
    processes::ACKNOWLEDGED_COMPLETIONS_SURVIVE_A_KILL,
    processes::ANOTHER_PROCESS_WAITS_UNTIL_THE_FILE_IS_FREE,
    registry::HANDLES_OF_A_FILE_SHARE_ONE_INSTANCE,
    registry::A_FILE_IS_CLOSED_BEFORE_IT_IS_OPENED_AGAIN,
    registry::A_REPLACED_FILE_IS_NOT_TAKEN_FOR_THE_OPEN_ONE,
    registry::A_CALLERS_INSTANCE_IS_ADOPTED_ONCE,
    registry::A_CLOSED_POOL_SAYS_SO,
    schema::SIXTEEN_TASKS_MIGRATE_AT_ONCE,
    schema::THE_PRINTED_SCHEMA_IS_THE_MIGRATED_ONE,
    schema::A_MISSING_TABLE_IS_NAMED_WITH_ITS_CURE,
    schema::TABLES_THAT_DIFFER_ARE_REFUSED,
    schema::AN_IN_MEMORY_DATABASE_IS_A_STORE,
    schema::A_CLOCK_THAT_WAS_SET_BACK_TAKES_NO_TOKEN_BACK,
    schema::THE_LARGEST_TOKEN_IS_AN_ERROR_WITH_ITS_REMEDY,
    schema::SETTINGS_OF_A_CALLER_CHANGE_NOTHING,
    transactions::RECORD_AND_BUSINESS_ROW_COMMIT_TOGETHER,
    transactions::A_ROLLBACK_LEAVES_NEITHER,
    transactions::A_CLAIM_IN_A_TRANSACTION_IS_TOLD_THE_SAME,
    transactions::A_LOST_CLAIM_ROLLS_THE_BUSINESS_ROW_BACK,
    transactions::TRANSACTIONS_THAT_CONFLICT_ARE_REPEATED,
    transactions::A_TRANSACTION_DROPPED_AT_ANY_POLL_IS_NOT_LEFT_OPEN,
    transactions::A_LONG_TRANSACTION_READS_THE_CLOCK_FOR_EACH_STATEMENT,
    transactions::AN_OPERATION_DROPPED_AT_ANY_POLL_KEEPS_ITS_CONNECTION_IN_ORDER,
    watermarks::MARK_AND_BUSINESS_ROW_COMMIT_TOGETHER,
];

/// Creates a case of this crate.
const fn case(law: u8, name: &'static str, run: for<'a> fn(&'a Context) -> CaseFuture<'a>) -> Case {
    Case {
        law,
        name,
        needs: &[],
        expensive: false,
        run,
    }
}
