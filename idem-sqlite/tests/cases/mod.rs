//! Cases for SQLite alone, beside those of the suite.

mod files;
mod locks;
mod reads;
mod schema;
mod settings;
mod transactions;
mod watermarks;

pub(crate) use schema::migrate_as_child;

use idem_conformance::{Case, CaseFuture, Context};

/// All cases of this crate.
pub(crate) const ALL: &[Case] = &[
    reads::DUPLICATES_LEAVE_THE_FILES_AS_THEY_ARE,
    reads::DUPLICATES_ARE_ANSWERED_WHILE_ANOTHER_PROCESS_WRITES,
    reads::DUPLICATES_ARE_ANSWERED_WHILE_A_CALLER_WRITES,
    files::A_FILE_THAT_IS_GONE_IS_NOTICED,
    files::A_COMMIT_INTO_A_FILE_THAT_IS_GONE_IS_AN_ERROR,
    locks::WRITES_BESIDE_AN_OPEN_TRANSACTION_END_SOON,
    locks::A_CONNECTION_WITHOUT_THE_LOCK_KEEPS_NOBODY_FROM_WRITING,
    locks::A_CALLERS_BUSY_TIMEOUT_STAYS,
    schema::A_CLOCK_THAT_WAS_SET_BACK_TAKES_NO_TOKEN_BACK,
    schema::SIXTEEN_PROCESSES_OPEN_AND_MIGRATE_AT_ONCE,
    schema::THE_PRINTED_SCHEMA_IS_THE_MIGRATED_ONE,
    schema::A_MISSING_TABLE_IS_NAMED_WITH_ITS_CURE,
    schema::ANOTHER_TABLE_OF_THAT_NAME_IS_REFUSED,
    schema::AN_IN_MEMORY_DATABASE_IS_A_STORE,
    settings::SETTINGS_THAT_BREAK_PROMISES_ARE_REFUSED,
    settings::A_FILE_WITHOUT_WAL_IS_REFUSED,
    settings::A_FILE_THAT_IS_NO_DATABASE_IS_NAMED_SO,
    settings::TABLES_THAT_DIFFER_ARE_REFUSED,
    transactions::TRANSACTIONS_THAT_MEET_A_LOCK_ARE_REPEATED,
    watermarks::MARK_AND_BUSINESS_ROW_COMMIT_TOGETHER,
    watermarks::STALE_VERSIONS_NEED_NO_WRITE_LOCK,
    watermarks::AN_INSTALLATION_WITHOUT_WATERMARKS_GETS_THEIR_TABLE,
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
