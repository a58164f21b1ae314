//! Cases that only Redis has, beside those of the suite.

mod admin;
mod bodies;
mod cache;
mod checkpoints;
mod ends;
mod foreign;
mod lifetimes;
mod marks;
mod names;
mod nonce;
mod scripts;
mod shortcuts;
mod tokens;
mod wakes;
mod wire;

use std::time::Duration;

use idem_conformance::{Case, CaseFuture, Context, Promise};
use idem_core::Key;
use idem_redis::RedisStore;

const HOUR: Duration = Duration::from_secs(3600);

/// All of them.
pub(crate) const ALL: &[Case] = &[
    admin::A_LIST_HAS_EVERY_RECORD_AND_NOTHING_ELSE,
    admin::GARBAGE_UNDER_A_RECORDS_KEY_IS_LISTED_AS_UNREADABLE,
    admin::A_LIST_READS_THE_FIRST_BYTES_OF_RESULTS,
    admin::A_LIST_BEGINS_ANEW_ON_ANOTHER_SERVER,
    admin::A_TOKEN_GROWS_THOUGH_THE_RECORD_WAS_FORCED_TO_GO,
    admin::A_FORCED_DELETION_WAKES_LISTENERS,
    bodies::EIGHT_MEBIBYTES_ARE_KEPT_TO_THE_BYTE,
    bodies::A_BATCH_THAT_FILLS_SEVERAL_PIPELINES_IS_KEPT_TO_THE_BYTE,
    cache::AN_ENTRY_IS_THERE_UNTIL_ITS_LIFETIME_ENDS,
    cache::A_LATE_STORE_BRINGS_NOTHING_BACK,
    cache::A_TICKET_IS_VOID_WHEN_ITS_EPOCH_IS_LOST,
    cache::CACHES_OF_ONE_NAMESPACE_ARE_ONE_AND_OTHERS_ARE_APART,
    cache::NO_RACE_LEAVES_AN_OLD_ENTRY,
    cache::GARBAGE_IN_A_CACHE_IS_NO_HIT,
    cache::A_CACHE_THAT_IS_DOWN_IS_FOUND_OUT_AT_FIRST_USE,
    checkpoints::A_CHECKPOINT_CHANGES_NOTHING_ELSE_OF_ITS_RECORD,
    checkpoints::A_CHECKPOINT_FOLLOWS_THE_METADATA_OF_WHOEVER_HOLDS_IT,
    checkpoints::A_CHECKPOINT_IS_SENT_TO_NOBODY_ELSE,
    checkpoints::GARBAGE_WHERE_A_CHECKPOINT_IS_IS_CORRUPT,
    ends::NO_SHORTCUT_CHANGES_HOW_A_CLAIM_ENDS,
    foreign::A_KEY_THAT_HOLDS_SOMETHING_ELSE_IS_REFUSED,
    foreign::GARBAGE_UNDER_A_RECORDS_KEY_IS_CORRUPT_AND_STAYS,
    foreign::OTHERS_KEYS_ARE_LEFT_ALONE,
    lifetimes::EVERY_OPERATION_LEAVES_ITS_KEY_WITH_AN_END,
    lifetimes::ABANDONED_RECORDS_KEEP_THEIR_END,
    lifetimes::A_RELEASED_KEY_IS_FORGOTTEN_AFTER_THE_GRACE,
    lifetimes::A_CACHE_LEAVES_NO_KEY_WITHOUT_AN_END,
    marks::VERSIONS_ARE_COMPARED_TO_THE_LAST_DIGIT,
    marks::A_MARK_ENDS_WITH_THE_RETENTION_OF_ITS_LAST_ADVANCE,
    marks::GARBAGE_UNDER_A_MARKS_KEY_IS_CORRUPT_AND_STAYS,
    names::NAMESPACES_NEVER_MIX,
    names::NAMES_THAT_REDIS_READS_IN_ITS_OWN_WAY_ARE_KEPT_APART,
    nonce::POSTS_THAT_RACE_ON_TWO_STORES_ARE_ONE,
    nonce::A_POST_THAT_FAILED_FREES_ITS_NONCE,
    nonce::A_POST_THAT_PANICKED_KEEPS_ITS_NONCE,
    nonce::A_POST_WHOSE_CALLER_IS_GONE_IS_FINISHED,
    nonce::A_LOST_ANSWER_NEITHER_BLOCKS_NOR_REPEATS_A_POST,
    nonce::A_NONCE_IS_FREE_AFTER_ITS_WINDOW,
    nonce::EVERY_NONCE_ENDS_WITH_ITS_FIRST_WINDOW,
    nonce::A_NONCE_THAT_IS_NOT_ENFORCED_IS_NOT_KEPT,
    nonce::NONCES_OF_TWO_AUTHORS_NEVER_MEET,
    nonce::A_DUPLICATE_GETS_THE_ID_THAT_IT_WAITS_FOR,
    scripts::EVERY_OPERATION_WORKS_ON_A_SERVER_THAT_FORGOT_ITS_SCRIPTS,
    scripts::BATCHES_WORK_ON_A_SERVER_THAT_FORGOT_ITS_SCRIPTS,
    scripts::SCRIPTS_FORGOTTEN_IN_A_RACE_LEAVE_ONE_WINNER,
    scripts::A_CACHE_WORKS_ON_A_SERVER_THAT_FORGOT_ITS_SCRIPTS,
    shortcuts::NO_SHORTCUT_CHANGES_A_VERDICT,
    shortcuts::ONE_OF_A_CROWD_WINS_WHATEVER_WAS_LEARNT,
    tokens::A_TOKEN_GROWS_THOUGH_THE_RECORD_WAS_DELETED,
    tokens::A_TOKEN_THAT_CANNOT_GROW_IS_TOLD,
    tokens::A_CLOCK_THAT_WAS_SET_BACK_TAKES_NO_TOKEN_BACK,
    tokens::AN_EXPIRED_RECORD_IS_REMEMBERED_FOR_THE_GRACE,
    wakes::A_LISTENER_IS_TOLD_OF_EVERY_END,
    wakes::RUNS_THAT_WAIT_REPLAY_WHAT_ANOTHER_STORE_COMPLETES,
    wakes::A_KILLED_CONNECTION_IS_TOLD_AND_HEARS_AGAIN,
    wakes::NOTHING_IS_PUBLISHED_WHERE_NOTHING_IS_NOTIFIED,
    wakes::WHO_LISTENS_NO_MORE_IS_NOT_SUBSCRIBED,
    wakes::HUNDREDS_OF_LISTENERS_SHARE_ONE_CONNECTION,
    wire::HUNDREDS_OF_CLAIMS_SHARE_ONE_CONNECTION,
    wire::A_SWEEP_SCANS_IN_BOUNDED_STEPS,
    wire::A_CONNECTION_THAT_FELL_SILENT_IS_MADE_ANEW,
    wire::A_SWEEP_ON_A_CONNECTION_THAT_FELL_SILENT_IS_MADE_ANEW,
    wire::A_SWEEP_CUT_HALF_WAY_IS_NOT_REPORTED_AS_UNDONE,
    wire::A_COMMAND_THAT_IS_REFUSED_IS_NAMED,
];

/// A case of this crate.
const fn case(law: u8, name: &'static str, run: for<'a> fn(&'a Context) -> CaseFuture<'a>) -> Case {
    Case {
        law,
        name,
        needs: &[],
        expensive: false,
        run,
    }
}

/// A case for one server, which a proxy can be put in front of.
const fn on_the_wire(
    law: u8,
    name: &'static str,
    run: for<'a> fn(&'a Context) -> CaseFuture<'a>,
) -> Case {
    Case {
        needs: &[Promise::Network],
        ..case(law, name, run)
    }
}

/// Returns the key of this key's record in Redis.
fn record_key(store: &RedisStore, key: &Key) -> String {
    format!("{}:r:{}", store.config().namespace(), key.path())
}
