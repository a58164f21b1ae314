//! Cases for PostgreSQL alone, beside those of the suite.

mod bounded;
mod defaults;
mod reads;
mod schema;
mod shared;
mod transactions;
mod waits;
mod wakes;
mod watermarks;

pub(crate) use schema::migrate_as_child;

use idem_conformance::{Case, CaseError, CaseFuture, CaseResult, Context};

use crate::support::PostgresHarness;

/// All cases of this crate.
pub(crate) const ALL: &[Case] = &[
    reads::DUPLICATES_TAKE_NO_TRANSACTION_ID,
    bounded::A_CLOCK_THAT_WAS_SET_BACK_TAKES_NO_TOKEN_BACK,
    bounded::NO_OPERATION_SCANS_A_LARGE_TABLE,
    bounded::NO_BATCH_SCANS_A_TABLE_THAT_WAS_EMPTY_AT_FIRST,
    schema::SIXTEEN_PROCESSES_MIGRATE_AT_ONCE,
    schema::THE_PRINTED_SCHEMA_IS_THE_MIGRATED_ONE,
    schema::A_TABLE_WHOSE_KEY_HAS_ANOTHER_ORDER_WORKS,
    schema::A_MISSING_TABLE_IS_NAMED_WITH_ITS_CURE,
    schema::A_LATER_SCHEMA_IS_REFUSED,
    schema::AN_INSTALLATION_WITHOUT_WATERMARKS_GETS_THEIR_TABLE,
    schema::FOUR_PRIVILEGES_ARE_ENOUGH,
    schema::A_TABLE_THAT_CITUS_DISTRIBUTES_IS_REFUSED,
    defaults::A_CLAIM_UNDER_SERIALIZABLE_IS_REPEATED_INSIDE,
    defaults::A_DEFAULT_THAT_ONLY_READS_IS_NAMED,
    defaults::A_SESSION_THAT_THE_SERVER_ENDS_FOR_IDLING_IS_REPLACED,
    defaults::A_TABLE_THAT_CHANGES_UNDER_A_STORE_IS_PREPARED_FOR_ANEW,
    defaults::A_TOKEN_AT_ITS_END_IS_NAMED_AND_HURTS_NO_NEIGHBOUR,
    defaults::TIME_OUTS_OF_THE_SERVER_DO_NOT_HIDE_WHAT_HAPPENED,
    defaults::WHAT_IS_WRONG_WITH_A_TABLE_IS_NAMED,
    transactions::LEASES_END_DURING_A_LONG_TRANSACTION,
    waits::A_CLAIM_BESIDE_THE_TRANSACTION_THAT_CLAIMED_IS_TOLD_ITS_END,
    waits::A_CALLERS_LOCK_TIMEOUT_IS_AS_BEFORE,
    waits::TRANSACTIONS_ARE_REPEATED_UNTIL_THE_KEY_IS_FREE,
    waits::A_MARK_THAT_IS_LOCKED_IS_CONTENDED_AND_AN_OLD_VERSION_IS_NOT,
    waits::A_CLAIM_THAT_LAPSED_UNSEEN_IS_FAILED_AND_NOT_TAKEN_OVER,
    waits::A_WAIT_THAT_IS_TOO_LONG_IS_AN_UNKNOWN_EFFECT,
    watermarks::MARK_AND_BUSINESS_ROW_COMMIT_TOGETHER,
    watermarks::AN_ADVANCE_BESIDE_A_TRANSACTION_IS_TOLD_ITS_END,
    watermarks::STALE_VERSIONS_WRITE_NOTHING,
    watermarks::NO_MARK_IS_LOOKED_FOR_BY_A_SCAN,
    wakes::A_LISTENER_IS_TOLD_OF_EVERY_END,
    wakes::RUNS_THAT_WAIT_SHARE_ONE_CONNECTION,
    wakes::A_KILLED_CONNECTION_IS_TOLD_AND_HEARS_AGAIN,
    wakes::WHAT_CHANGES_NOTHING_TELLS_NOTHING,
    wakes::A_TRANSACTION_TELLS_WHEN_IT_COMMITS,
    wakes::A_CONNECTION_THAT_NOBODY_NEEDS_IS_CLOSED,
    wakes::WITHOUT_A_CONNECTION_THOSE_WHO_WAIT_POLL,
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

/// Returns the server itself, past a pooler.
fn direct() -> CaseResult<PostgresHarness> {
    PostgresHarness::direct().map_err(|missing| CaseError::new(missing.to_string()))
}
