//! The table of configurations.

use super::row::{Asker, Step, Times};
use super::transactions::Claims;
use super::{Configuration, Expected, Mutant, Scope, hybrid, kinds, protocol, shard, transactions};

const TIMES: Times = Times {
    lease: 2,
    kept: 1,
    retention: 2,
    renewal: 1,
};

const ALL: &[Step] = &[
    Step::Complete(1),
    Step::Complete(2),
    Step::Fail(3),
    Step::Release,
    Step::Renew,
    Step::Save(7),
    Step::Load,
];

/// Takes over, and gets a recorded failure.
const ASKER: Asker = Asker {
    fingerprint: 1,
    takeover: true,
    retry: false,
    steps: ALL,
};

/// Lets a stale claim fail, and tries a recorded failure again.
const STRICT: Asker = Asker {
    takeover: false,
    retry: true,
    ..ASKER
};

const OTHER: Asker = Asker {
    fingerprint: 2,
    ..ASKER
};

const PROTOCOL: protocol::Scope = protocol::Scope {
    askers: &[ASKER, ASKER],
    times: TIMES,
    sends: 3,
    gives: 1,
    crashes: 0,
    twice: 0,
    purges: true,
    sweeps: true,
    statements: false,
};

const STRICT_ONES: protocol::Scope = protocol::Scope {
    askers: &[STRICT, STRICT],
    ..PROTOCOL
};

const MIXED: protocol::Scope = protocol::Scope {
    askers: &[STRICT, ASKER],
    ..PROTOCOL
};

const CONFLICT: protocol::Scope = protocol::Scope {
    askers: &[ASKER, OTHER],
    ..PROTOCOL
};

const fn statements(scope: protocol::Scope) -> protocol::Scope {
    protocol::Scope {
        statements: true,
        ..scope
    }
}

const SHARD: shard::Scope = shard::Scope {
    keys: 1,
    ticks: 4,
    acquisitions: 3,
    collides: false,
    checkpoints: false,
};

const TWO_KEYS: shard::Scope = shard::Scope {
    keys: 2,
    ticks: 3,
    acquisitions: 2,
    ..SHARD
};

const SMALL_SHARD: shard::Scope = shard::Scope {
    ticks: 3,
    acquisitions: 2,
    ..SHARD
};

const HYBRID: hybrid::Scope = hybrid::Scope {
    readers: 2,
    calls: 3,
    retention: 2,
    deletions: 1,
    losses: 1,
    back: 0,
    forward: 1,
    near: 0,
    judges_near: false,
};

const TRANSACTIONS: transactions::Scope = transactions::Scope {
    workers: &[Claims::Inside, Claims::Outside],
    askers: &[ASKER, ASKER],
    times: TIMES,
    tries: 3,
    losses: 2,
    repeatable: false,
    keeps_claim: false,
};

const REPEATABLE: transactions::Scope = transactions::Scope {
    repeatable: true,
    ..TRANSACTIONS
};

/// What a configuration explores, without its name.
const fn passes(scope: Scope, kinds: &'static [&'static [&'static str]]) -> Configuration {
    Configuration {
        name: "",
        is_small: false,
        scope,
        mutant: None,
        expected: Expected::Pass,
        kinds,
    }
}

/// A mistake, and the contradiction that shows it.
const fn shows(mutant: Mutant, scope: Scope, counterexample: &'static str) -> Configuration {
    Configuration {
        name: "",
        is_small: true,
        scope,
        mutant: Some(mutant),
        expected: Expected::Counterexample(counterexample),
        kinds: &[],
    }
}

/// A documented limit, and the contradiction that shows it.
const fn witnesses(scope: Scope, witness: &'static str) -> Configuration {
    Configuration {
        expected: Expected::Witness(witness),
        is_small: true,
        ..passes(scope, &[])
    }
}

const fn small(mut configuration: Configuration) -> Configuration {
    configuration.is_small = true;
    configuration
}

/// Returns all configurations.
#[must_use]
pub fn configurations() -> Vec<Configuration> {
    let named = right().into_iter().chain(claims()).chain(steps());
    let named = named.chain(others());
    named
        .map(|(name, configuration)| Configuration {
            name,
            ..configuration
        })
        .collect()
}

type Named = (&'static str, Configuration);

/// Stores, caches and callers without a mistake.
fn right() -> Vec<Named> {
    use Scope::{Hybrid, Protocol, Shard, Transactions};
    let crash = protocol::Scope {
        crashes: 1,
        ..PROTOCOL
    };
    let twice = protocol::Scope {
        twice: 1,
        ..PROTOCOL
    };
    let three = protocol::Scope {
        askers: &[ASKER, ASKER, STRICT],
        sends: 2,
        ..PROTOCOL
    };
    let four = |scope| protocol::Scope { sends: 4, ..scope };
    let outside = transactions::Scope {
        workers: &[Claims::Outside, Claims::Outside],
        ..TRANSACTIONS
    };
    let inside = transactions::Scope {
        workers: &[Claims::Inside, Claims::Inside],
        ..TRANSACTIONS
    };
    let near = hybrid::Scope { near: 1, ..HYBRID };
    let tiny = hybrid::Scope { calls: 2, ..HYBRID };
    vec![
        ("shard", passes(Shard(SHARD), &[kinds::SHARD])),
        ("shard/two-keys", passes(Shard(TWO_KEYS), &[kinds::SHARD])),
        (
            "shard/one-hash",
            passes(
                Shard(shard::Scope {
                    collides: true,
                    ticks: 2,
                    ..TWO_KEYS
                }),
                &[kinds::SHARD],
            ),
        ),
        (
            "shard/checkpoints",
            passes(
                Shard(shard::Scope {
                    checkpoints: true,
                    ..SMALL_SHARD
                }),
                &[kinds::SHARD, kinds::CHECKPOINTS],
            ),
        ),
        (
            "shard/small",
            small(passes(Shard(SMALL_SHARD), &[kinds::SHARD])),
        ),
        (
            "protocol",
            passes(Protocol(four(PROTOCOL)), &[kinds::PROTOCOL]),
        ),
        (
            "protocol/small",
            small(passes(Protocol(PROTOCOL), &[kinds::PROTOCOL])),
        ),
        (
            "protocol/strict",
            passes(Protocol(four(STRICT_ONES)), &[kinds::STRICT]),
        ),
        (
            "protocol/mixed",
            passes(Protocol(four(MIXED)), &[kinds::STRICT]),
        ),
        (
            "protocol/conflict",
            passes(Protocol(four(CONFLICT)), &[kinds::CONFLICT]),
        ),
        ("protocol/crash", passes(Protocol(crash), &[kinds::CRASH])),
        ("protocol/twice", passes(Protocol(twice), &[kinds::TWICE])),
        (
            "protocol/three-callers",
            passes(Protocol(three), &[kinds::THREE]),
        ),
        (
            "statements",
            passes(Protocol(statements(PROTOCOL)), &[kinds::STATEMENTS]),
        ),
        (
            "statements/mixed",
            passes(
                Protocol(statements(MIXED)),
                &[kinds::STATEMENTS, kinds::STRICT_STATEMENTS],
            ),
        ),
        (
            "statements/strict",
            passes(
                Protocol(statements(STRICT_ONES)),
                &[kinds::STATEMENTS, kinds::STRICT_STATEMENTS],
            ),
        ),
        ("hybrid", passes(Hybrid(HYBRID), &[kinds::HYBRID])),
        (
            "hybrid/small",
            small(passes(Hybrid(tiny), &[kinds::HYBRID])),
        ),
        ("hybrid/near", passes(Hybrid(near), &[kinds::NEAR])),
        (
            "hybrid/near-replays-deleted",
            witnesses(
                Hybrid(hybrid::Scope {
                    judges_near: true,
                    ..near
                }),
                "the cache replays a deleted record",
            ),
        ),
        (
            "hybrid/clock-set-back",
            witnesses(
                Hybrid(hybrid::Scope { back: 1, ..HYBRID }),
                "the cache replays an expired record",
            ),
        ),
        (
            "transactions",
            small(passes(
                Transactions(TRANSACTIONS),
                &[
                    kinds::TRANSACTIONS,
                    kinds::INSIDE,
                    kinds::OUTSIDE,
                    kinds::HELD_INSIDE,
                ],
            )),
        ),
        (
            "transactions/inside",
            passes(Transactions(inside), &[kinds::TRANSACTIONS, kinds::INSIDE]),
        ),
        (
            "transactions/outside",
            passes(
                Transactions(outside),
                &[kinds::TRANSACTIONS, kinds::OUTSIDE, kinds::HELD_OUTSIDE],
            ),
        ),
        (
            "transactions/repeatable",
            passes(
                Transactions(REPEATABLE),
                &[kinds::TRANSACTIONS, kinds::REPEATABLE],
            ),
        ),
        // The application's mistake: a claim that it has is no proof that its work is not done.
        (
            "transactions/claim-kept",
            witnesses(
                Transactions(transactions::Scope {
                    keeps_claim: true,
                    ..outside
                }),
                "the work was done twice",
            ),
        ),
    ]
}

/// Mistakes of claims.
fn claims() -> Vec<Named> {
    use Mutant as M;
    let on = |scope, mutant, shown| shows(mutant, Scope::Protocol(scope), shown);
    let protocol = |mutant, shown| on(PROTOCOL, mutant, shown);
    vec![
        (
            "claim/own-forgotten",
            protocol(M::OwnClaimForgotten, "claim: in flight, not acquired"),
        ),
        (
            "claim/own-gets-new-token",
            protocol(
                M::OwnClaimGetsNewToken,
                "claim: acquired with another token or lease",
            ),
        ),
        (
            "claim/never-expires",
            protocol(M::NeverExpires, "claim: acquired with another count"),
        ),
        (
            "claim/stale-too-early",
            protocol(M::StaleTooEarly, "claim: acquired, not in flight"),
        ),
        (
            "claim/never-stale",
            protocol(M::NeverStale, "claim: in flight, not acquired"),
        ),
        (
            "claim/takeover-keeps-token",
            protocol(M::TakeoverKeepsToken, "claim: acquired with an old token"),
        ),
        (
            "claim/takeover-not-counted",
            protocol(
                M::AcquisitionsNotCounted,
                "claim: acquired with another count",
            ),
        ),
        (
            "claim/checkpoint-lost",
            protocol(
                M::CheckpointLostInTakeover,
                "load: checkpoint with another content",
            ),
        ),
        (
            "claim/fingerprint-ignored",
            on(
                CONFLICT,
                M::FingerprintIgnored,
                "claim: in flight, not conflict",
            ),
        ),
        (
            "claim/record-policy-ignored",
            on(
                MIXED,
                M::PolicyOfRecordIgnored,
                "claim: acquired, not failed",
            ),
        ),
        (
            "claim/retry-keeps-checkpoint",
            on(
                STRICT_ONES,
                M::RetryKeepsCheckpoint,
                "load: checkpoint with another content",
            ),
        ),
        (
            "claim/abandon-restarts-retention",
            on(
                STRICT_ONES,
                M::AbandonRestartsRetention,
                "get: sealed with another retention",
            ),
        ),
        (
            "statements/read-then-write",
            on(
                statements(PROTOCOL),
                M::ReadThenWrite,
                "claim: acquired, not completed",
            ),
        ),
        (
            "statements/abandon-unguarded",
            on(
                statements(STRICT_ONES),
                M::AbandonUnguarded,
                "claim: failed, not acquired",
            ),
        ),
        (
            "statements/owned-read-ignores-token",
            on(
                statements(PROTOCOL),
                M::OwnedReadIgnoresToken,
                "release: already sealed, not lost",
            ),
        ),
    ]
}

/// Mistakes of steps, and of maintenance.
fn steps() -> Vec<Named> {
    use Mutant as M;
    let on = |scope, mutant, shown| shows(mutant, Scope::Protocol(scope), shown);
    let protocol = |mutant, shown| on(PROTOCOL, mutant, shown);
    vec![
        (
            "step/token-not-compared",
            protocol(M::TokenNotCompared, "complete: done, not lost"),
        ),
        (
            "step/completes-by-attempt",
            protocol(M::CompleteByAttempt, "complete: done, not lost"),
        ),
        (
            "step/releases-by-attempt",
            protocol(M::ReleaseByAttempt, "release: done, not lost"),
        ),
        (
            "step/anyone-checkpoints",
            protocol(M::CheckpointOfAnyone, "save: done, not lost"),
        ),
        (
            "step/late-holder-refused",
            protocol(M::LateHolderRefused, "complete: lost, not done"),
        ),
        (
            "step/late-renewal-refused",
            protocol(M::LateRenewalRefused, "renew: lost, not done"),
        ),
        (
            "step/renewal-revives",
            protocol(M::RenewalRevives, "renew: done, not lost"),
        ),
        (
            "step/renewal-shortens",
            protocol(M::RenewalShortens, "get: in flight with another content"),
        ),
        (
            "step/renewal-leaves-retention",
            protocol(M::RenewalLeavesRetention, "get: nothing, not in flight"),
        ),
        (
            "step/tomb-accepts-seal",
            protocol(M::TombAcceptsSeal, "complete: done, not lost"),
        ),
        (
            "step/second-result-overwrites",
            protocol(
                M::SecondResultOverwrites,
                "complete: done, not already sealed",
            ),
        ),
        (
            "step/repeat-refused",
            protocol(M::RepeatRefused, "complete: already sealed, not done"),
        ),
        (
            "step/repeat-extends-retention",
            protocol(
                M::RepeatExtendsRetention,
                "get: sealed with another retention",
            ),
        ),
        (
            "step/retention-of-claim",
            protocol(M::RetentionOfClaim, "get: sealed with another retention"),
        ),
        (
            "purge/floor-forgotten",
            protocol(
                M::FloorForgottenByPurge,
                "claim: acquired with an old token",
            ),
        ),
        (
            "purge/stale-deleted",
            protocol(M::StalePurged, "get: nothing, not in flight"),
        ),
        (
            "sweep/fails-held",
            on(STRICT_ONES, M::SweepFailsHeld, "sweep: failed, not left"),
        ),
        (
            "sweep/fails-takeovers",
            protocol(M::SweepFailsTakeovers, "sweep: failed, not left"),
        ),
        (
            "sweep/leaves-owner",
            on(
                STRICT_ONES,
                M::SweepLeavesOwner,
                "complete: already sealed, not lost",
            ),
        ),
    ]
}

/// Mistakes of caches, and of transactions and their callers.
fn others() -> Vec<Named> {
    use Mutant as M;
    let hybrid = |mutant, shown| shows(mutant, Scope::Hybrid(HYBRID), shown);
    let on = |scope, mutant, shown| shows(mutant, Scope::Transactions(scope), shown);
    let outside = transactions::Scope {
        workers: &[Claims::Outside, Claims::Outside],
        ..TRANSACTIONS
    };
    vec![
        (
            "hybrid/ticket-after-read",
            hybrid(M::TicketAfterRead, "the cache replays a deleted record"),
        ),
        (
            "hybrid/epoch-kept-by-lost-cache",
            hybrid(
                M::EpochKeptByLostCache,
                "the cache replays a deleted record",
            ),
        ),
        (
            "hybrid/lifetime-from-store",
            hybrid(M::LifetimeFromStore, "the cache replays an expired record"),
        ),
        (
            "hybrid/invalidate-before-delete",
            hybrid(
                M::InvalidateBeforeDelete,
                "the cache replays a deleted record",
            ),
        ),
        (
            "hybrid/invalidate-keeps-epoch",
            hybrid(
                M::InvalidateKeepsEpoch,
                "the cache replays a deleted record",
            ),
        ),
        (
            "hybrid/in-flight-promoted",
            hybrid(
                M::InFlightPromoted,
                "the cache replays a claim that is no more",
            ),
        ),
        (
            "transactions/completion-outside",
            on(
                outside,
                M::CompletionOutside,
                "the work of a completed record is missing",
            ),
        ),
        (
            "transactions/clock-of-transaction",
            on(
                TRANSACTIONS,
                M::ClockOfTransaction,
                "claim: acquired with another lease",
            ),
        ),
        (
            "transactions/new-key",
            on(
                TRANSACTIONS,
                M::RetryWithNewKey,
                "the work of no completed record is there",
            ),
        ),
        (
            "transactions/autocommit",
            on(
                TRANSACTIONS,
                M::AutocommitFallback,
                "the work of no completed record is there",
            ),
        ),
        (
            "transactions/snapshot-trusted",
            on(
                REPEATABLE,
                M::SnapshotTrusted,
                "claim: acquired, not in flight",
            ),
        ),
    ]
}
