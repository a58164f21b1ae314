//! Cases that only MongoDB has, beside those of the suite.

mod admin;
mod bounded;
mod capabilities;
mod concerns;
mod failures;
mod reads;
mod schema;
mod transactions;

pub(crate) use schema::migrate_as_child;

use idem_conformance::{Case, CaseFuture, Context};

/// All cases.
pub(crate) const ALL: &[Case] = &[
    admin::A_LIST_HAS_EVERY_RECORD_AND_NOTHING_ELSE,
    admin::A_LIST_LOADS_NO_LARGE_RESULT,
    admin::A_RECORD_THAT_WAS_FORCED_TO_GO_LEAVES_ITS_TOKEN,
    admin::A_FORCED_STEP_AND_ITS_ENTRY_ARE_ONE,
    bounded::A_CLOCK_THAT_WAS_SET_BACK_TAKES_NO_TOKEN_BACK,
    bounded::A_TOKEN_THAT_CANNOT_GROW_IS_TOLD,
    bounded::NO_OPERATION_SCANS_THE_COLLECTION,
    bounded::PURGE_COUNTS_WHAT_IT_DELETES,
    bounded::PURGES_BESIDE_EACH_OTHER_COUNT_EACH_RECORD_ONCE,
    bounded::THE_SERVER_DELETES_NOTHING_THAT_MAY_BE_NEEDED,
    capabilities::A_CHECKPOINT_CHANGES_NOTHING_ELSE_OF_ITS_RECORD,
    capabilities::A_CHECKPOINT_GOES_WITH_THE_CLAIM,
    capabilities::A_CHECKPOINT_LEFT_BY_AN_EARLIER_VERSION_IS_NOT_TAKEN_FOR_ANOTHERS,
    capabilities::VERSIONS_ARE_COMPARED_TO_THE_LAST_DIGIT,
    capabilities::WHAT_DOES_NOT_ADVANCE_LEAVES_NOTHING_IN_THE_LOG,
    capabilities::A_STORE_MIGRATED_BEFORE_WATERMARKS_KEEPS_WORKING,
    capabilities::CHECKPOINT_AND_MARK_COMMIT_WITH_THE_TRANSACTION,
    concerns::WRITES_ARE_JOURNALED_BY_A_MAJORITY,
    concerns::A_WEAKER_CONCERN_IS_SENT_WHEN_IT_IS_CHOSEN,
    concerns::WRITES_CAN_BE_RETRIED_BY_THE_DRIVER,
    concerns::NOTHING_IS_SENT_OF_WHAT_IS_TOO_LARGE,
    concerns::FIFTEEN_MEBIBYTES_ARE_REPLAYED,
    failures::A_STANDALONE_SERVER_HAS_NO_TRANSACTIONS,
    failures::WHAT_A_COMPATIBLE_SERVER_LACKS_IS_NAMED,
    failures::A_SERVER_THAT_DOES_NOT_ANSWER_IS_UNAVAILABLE,
    failures::DROPPED_OPERATIONS_BREAK_NO_CONNECTION,
    failures::DEBUG_SHOWS_NO_PASSWORD,
    reads::DUPLICATES_LEAVE_NOTHING_IN_THE_LOG,
    reads::OF_A_STORM_ONE_WRITE_IS_LOGGED,
    reads::A_CLAIM_THAT_LOSES_WHERE_IT_WRITES_CHANGES_NOTHING,
    schema::MANY_PROCESSES_MIGRATE_AT_ONCE,
    schema::A_MISSING_COLLECTION_IS_NAMED_WITH_ITS_CURE,
    schema::A_COLLECTION_WITHOUT_INDEXES_IS_REFUSED,
    schema::A_COLLATION_IS_REFUSED,
    schema::WHAT_MAY_REFUSE_OR_DELETE_RECORDS_IS_REFUSED,
    schema::VERIFY_CHANGES_NOTHING,
    schema::A_LATER_SCHEMA_IS_REFUSED,
    schema::THE_INDEXES_ARE_AS_PRINTED,
    transactions::RECORD_AND_BUSINESS_DOCUMENT_COMMIT_TOGETHER,
    transactions::AN_ABORT_LEAVES_NEITHER,
    transactions::TRANSACTIONS_ARE_REPEATED_AS_A_WHOLE,
    transactions::A_LOST_CLAIM_ABORTS_THE_BUSINESS_DOCUMENT,
    transactions::LEASES_END_DURING_A_LONG_TRANSACTION,
    transactions::A_CLAIM_BESIDE_A_TRANSACTION_HAS_ONE_WINNER,
    transactions::A_DUPLICATE_BESIDE_A_TRANSACTION_OF_ANOTHER_PROCESS_IS_TOLD_NOTHING_ELSE,
    transactions::A_LOST_RACE_IN_A_TRANSACTION_IS_CONTENTION,
    transactions::A_TRANSACTION_DROPPED_AT_ANY_POLL_IS_NOT_LEFT_OPEN,
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
