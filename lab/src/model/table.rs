//! The table of configurations.

use super::hybrid::Scope;
use super::{Configuration, Expected, Mutant};

const HYBRID: Scope = Scope {
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

const NEAR: Scope = Scope { near: 1, ..HYBRID };

/// The transitions that have to happen: a configuration without one of them proves nothing about
/// it.
const KINDS: &[&str] = &[
    "ask: miss",
    "far hit: completed",
    "claim: acquired",
    "claim: completed",
    "claim: in flight",
    "complete: done",
    "complete: lost",
    "store: stored",
    "store: refused",
    "drop",
    "delete",
    "invalidate",
    "lose the cache",
    "clock forward",
    "tick",
];

const KINDS_NEAR: &[&str] = &[
    "near hit: completed",
    "far hit: completed",
    "store: refused",
];

/// What an operator, an eviction or a promotion must never bring back.
const DELETED: &str = "the cache replays a deleted record";
const EXPIRED: &str = "the cache replays an expired record";

/// Returns all configurations.
#[must_use]
pub fn configurations() -> Vec<Configuration> {
    let passes = |name, scope, kinds| Configuration {
        name,
        is_small: false,
        scope,
        mutant: None,
        expected: Expected::Pass,
        kinds,
    };
    // A documented limit, and the contradiction that shows it.
    let witnesses = |name, scope, witness| Configuration {
        expected: Expected::Witness(witness),
        is_small: true,
        ..passes(name, scope, &[])
    };
    // A mistake, and the contradiction that shows it.
    let shows = |name, mutant, counterexample| Configuration {
        mutant: Some(mutant),
        expected: Expected::Counterexample(counterexample),
        is_small: true,
        ..passes(name, HYBRID, &[])
    };
    vec![
        passes("hybrid", HYBRID, KINDS),
        Configuration {
            is_small: true,
            ..passes("hybrid/small", Scope { calls: 2, ..HYBRID }, KINDS)
        },
        passes("hybrid/near", NEAR, KINDS_NEAR),
        witnesses(
            "hybrid/near-replays-deleted",
            Scope {
                judges_near: true,
                ..NEAR
            },
            DELETED,
        ),
        witnesses(
            "hybrid/clock-set-back",
            Scope { back: 1, ..HYBRID },
            EXPIRED,
        ),
        shows("hybrid/ticket-after-read", Mutant::TicketAfterRead, DELETED),
        shows(
            "hybrid/epoch-kept-by-lost-cache",
            Mutant::EpochKeptByLostCache,
            DELETED,
        ),
        shows(
            "hybrid/lifetime-from-store",
            Mutant::LifetimeFromStore,
            EXPIRED,
        ),
        shows(
            "hybrid/invalidate-before-delete",
            Mutant::InvalidateBeforeDelete,
            DELETED,
        ),
        shows(
            "hybrid/invalidate-keeps-epoch",
            Mutant::InvalidateKeepsEpoch,
            DELETED,
        ),
        shows(
            "hybrid/in-flight-promoted",
            Mutant::InFlightPromoted,
            "the cache replays a claim that is no more",
        ),
    ]
}
