//! The cases, a file or two for each law.

mod admin;
mod admin_force;
mod admin_rewrite;
mod batch;
mod checkpoint;
mod checkpoint_ends;
mod checkpoint_races;
mod decisions;
mod histories;
mod law01_one_winner;
mod law01_orders;
mod law01_processes;
mod law02_losers;
mod law03_replay;
mod law04_conflict;
mod law04_unknown;
mod law05_abandoned;
mod law05_fencing;
mod law06_repeatable;
mod law07_release;
mod law08_expiry;
mod law08_many;
mod law09_clock;
mod law10_keys;
mod law10_scopes;
mod law11_limits;
mod law12_crash;
mod law13_cancellation;
mod law14_crowds;
mod law14_unknown;
mod law15_reads;
mod law16_bounded;
mod locked_keys;
mod promises;
mod secrets;
mod watermark;
mod watermark_ends;
mod watermark_races;

use crate::Case;

/// Every case of every law.
pub(crate) const ALL: &[&[Case]] = &[
    law01_one_winner::CASES,
    law01_orders::CASES,
    law01_processes::CASES,
    law02_losers::CASES,
    law03_replay::CASES,
    law04_conflict::CASES,
    law04_unknown::CASES,
    law05_fencing::CASES,
    law05_abandoned::CASES,
    law06_repeatable::CASES,
    law07_release::CASES,
    law08_expiry::CASES,
    law08_many::LAW05,
    law08_many::LAW08,
    law09_clock::CASES,
    law10_keys::CASES,
    law10_scopes::CASES,
    law11_limits::CASES,
    law12_crash::CASES,
    law13_cancellation::CASES,
    law14_unknown::CASES,
    law14_crowds::CASES,
    law15_reads::CASES,
    law16_bounded::CASES,
    decisions::LAW01,
    decisions::LAW05,
    locked_keys::LAW05,
    locked_keys::LAW01,
    locked_keys::LAW06,
    locked_keys::LAW15,
    locked_keys::LAW16,
    batch::LAW01,
    batch::LAW02,
    batch::LAW06,
    batch::LAW11,
    promises::CASES,
    secrets::LAW11,
    secrets::LAW14,
    checkpoint::LAW02,
    checkpoint::LAW03,
    checkpoint::LAW04,
    checkpoint::LAW05,
    checkpoint::LAW10,
    checkpoint_ends::LAW05,
    checkpoint_ends::LAW07,
    checkpoint_ends::LAW08,
    checkpoint_ends::LAW11,
    checkpoint_races::LAW01,
    checkpoint_races::LAW06,
    checkpoint_races::LAW12,
    checkpoint_races::LAW13,
    checkpoint_races::LAW15,
    watermark::LAW02,
    watermark::LAW06,
    watermark::LAW09,
    watermark::LAW10,
    watermark::LAW11,
    watermark_ends::LAW08,
    watermark_ends::LAW15,
    watermark_ends::LAW16,
    watermark_races::LAW01,
    watermark_races::LAW12,
    watermark_races::LAW13,
    admin::LAW02,
    admin::LAW11,
    admin::LAW15,
    admin_force::LAW01,
    admin_force::LAW05,
    admin_force::LAW06,
    admin_force::LAW07,
    admin_force::LAW13,
    admin_rewrite::LAW01,
    admin_rewrite::LAW03,
    admin_rewrite::LAW05,
    admin_rewrite::LAW06,
    admin_rewrite::LAW08,
    admin_rewrite::LAW11,
    admin_rewrite::LAW13,
];
