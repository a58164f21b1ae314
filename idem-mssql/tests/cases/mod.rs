//! Cases for T-SQL servers alone, beside those of the suite.

mod bounded;
mod reads;
mod rights;
mod schema;
mod settings;
mod transactions;
mod waits;

pub(crate) use schema::migrate_as_child;

use std::time::{Duration, Instant};

use idem_conformance::{Case, CaseFuture, CaseResult, Context};
use idem_core::{ClaimOutcome, ClaimRequest, ErrorKind, IdempotencyStore};

/// All cases of this crate.
pub(crate) const ALL: &[Case] = &[
    reads::DUPLICATES_CHANGE_NO_COLUMN,
    reads::DUPLICATES_HOLD_NOBODY_UP,
    bounded::A_CLOCK_THAT_WAS_SET_BACK_TAKES_NO_TOKEN_BACK,
    bounded::PURGE_AND_SWEEP_TAKE_MORE_THAN_ONE_STEP,
    schema::SIXTEEN_PROCESSES_MIGRATE_AT_ONCE,
    schema::THE_PRINTED_SCHEMA_IS_THE_MIGRATED_ONE,
    schema::A_SCHEMA_IS_CREATED_WITH_ITS_TABLE,
    schema::A_MISSING_TABLE_IS_NAMED_WITH_ITS_CURE,
    schema::A_LATER_SCHEMA_IS_REFUSED,
    rights::A_MISSING_PRIVILEGE_IS_NAMED,
    rights::THE_GRANTED_PRIVILEGES_ARE_ENOUGH,
    rights::A_TRIGGER_IS_NAMED,
    transactions::RECORD_AND_BUSINESS_ROW_COMMIT_TOGETHER,
    transactions::A_ROLLBACK_LEAVES_NEITHER,
    transactions::RACING_TRANSACTIONS_PAY_ONCE_PER_KEY,
    transactions::A_LOST_CLAIM_ROLLS_THE_BUSINESS_ROW_BACK,
    transactions::LEASES_END_DURING_A_LONG_TRANSACTION,
    transactions::A_TRANSACTION_DROPPED_AT_ANY_POLL_IS_NOT_LEFT_OPEN,
    transactions::THE_DRIVERS_OWN_TRANSACTION_WILL_DO,
    settings::HOSTILE_SESSIONS_CHANGE_NO_LAW,
    settings::WHAT_IS_MISSING_IS_NAMED,
    settings::OTHER_TABLES_DO_NOT_MATTER,
    settings::A_TOKEN_THAT_CANNOT_GROW_IS_NAMED,
    waits::A_CLAIM_WAITS_SHORTLY_FOR_THE_TRANSACTION_THAT_CLAIMED,
    waits::THE_CALLERS_SETTINGS_ARE_THE_SAME_AFTER_AN_OPERATION,
    waits::A_MIGRATION_LEAVES_NO_SETTING_BEHIND,
    waits::A_CLAIM_THAT_LAPSED_UNSEEN_IS_FAILED_AND_NOT_TAKEN_OVER,
    waits::A_WAIT_THAT_IS_TOO_LONG_SAYS_WHAT_IT_KNOWS,
];

/// Returns the answer to a claim, which is repeated as long as the key counts as locked.
async fn claimed(
    cx: &Context,
    store: &dyn IdempotencyStore,
    request: &ClaimRequest,
) -> CaseResult<ClaimOutcome> {
    let begun = Instant::now();
    loop {
        match store.claim(request).await {
            Err(error)
                if error.kind() == ErrorKind::Contention
                    && begun.elapsed() < cx.profile().max_wait() =>
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            answer => return Ok(answer?),
        }
    }
}

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
