//! The kinds of transitions that have to happen: a configuration without one of them proves
//! nothing about it.

pub(super) const SHARD: &[&str] = &[
    "claim: acquired",
    "claim: acquired after a release",
    "claim: acquired again",
    "claim: taken over",
    "claim: tried again",
    "claim: abandoned",
    "claim: in flight",
    "claim: completed",
    "claim: failed",
    "complete: done",
    "complete: done late",
    "complete: done before",
    "complete: already sealed",
    "complete: lost",
    "fail: done",
    "fail: done before",
    "fail: already sealed",
    "release: done",
    "release: done before",
    "release: lost",
    "renew: done",
    "renew: done late",
    "renew: lost",
    "purge: deleted",
    "sweep: failed",
    "sweep: left",
    "rebuild",
    "tick",
];

pub(super) const CHECKPOINTS: &[&str] = &["save: done", "save: done late", "save: lost"];

pub(super) const PROTOCOL: &[&str] = &[
    "claim: acquired",
    "claim: acquired after a release",
    "claim: acquired again",
    "claim: taken over",
    "claim: in flight",
    "claim: completed",
    "claim: failed",
    "complete: done",
    "complete: done late",
    "complete: done before",
    "complete: already sealed",
    "complete: lost",
    "fail: done",
    "release: done",
    "release: done before",
    "release: lost",
    "renew: done",
    "renew: lost",
    "save: done",
    "save: lost",
    "load: checkpoint",
    "load: lost",
    "give up",
    "unheard: acquired",
    "unheard: done",
    "unheard: done late",
    "unheard: lost",
    "purge: deleted",
    "tick",
];

/// Three callers send two calls each, so none repeats a step.
pub(super) const THREE: &[&str] = &[
    "claim: acquired",
    "claim: acquired after a release",
    "claim: taken over",
    "claim: abandoned",
    "claim: tried again",
    "claim: in flight",
    "claim: completed",
    "complete: done",
    "complete: done late",
    "complete: lost",
    "release: lost",
    "save: lost",
    "unheard: done",
    "sweep: failed",
    "purge: deleted",
];

pub(super) const STRICT: &[&str] = &[
    "claim: abandoned",
    "claim: tried again",
    "sweep: failed",
    "sweep: left",
    "unheard: abandoned",
    "complete: lost",
    "complete: done late",
];

pub(super) const CONFLICT: &[&str] = &["claim: conflict", "unheard: conflict", "purge: deleted"];

pub(super) const CRASH: &[&str] = &["crash", "claim: acquired again", "unheard: done"];

pub(super) const TWICE: &[&str] = &[
    "arrive twice",
    "complete: done before",
    "unheard: acquired again",
    "unheard: done before",
];

pub(super) const STATEMENTS: &[&str] = &[
    "statement: the insert met a row",
    "statement: the read found no loser",
    "statement: the record may be acquired",
    "statement: the record has changed",
    "statement: the update changed nothing",
    "claim: acquired",
    "claim: acquired again",
    "claim: in flight",
    "complete: done",
    "complete: lost",
    "complete: already sealed",
    "unheard: acquired",
    "unheard: done",
    "purge: deleted",
];

pub(super) const STRICT_STATEMENTS: &[&str] = &[
    "statement: the record has to be failed",
    "statement: the record has changed",
    "claim: abandoned",
    "claim: tried again",
    "sweep: failed",
];

pub(super) const HYBRID: &[&str] = &[
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

pub(super) const NEAR: &[&str] = &[
    "near hit: completed",
    "far hit: completed",
    "store: refused",
];

/// Those of every configuration of transactions.
pub(super) const TRANSACTIONS: &[&str] = &[
    "begin",
    "work",
    "complete: done",
    "complete in: lost",
    "commit",
    "commit: unanswered",
    "commit: under way",
    "orphan: commits",
    "orphan: ends",
    "lose the connection",
    "tick",
];

pub(super) const INSIDE: &[&str] = &[
    "claim in: acquired",
    "claim in: completed",
    "claim in: contention",
];

pub(super) const OUTSIDE: &[&str] = &["claim: acquired", "claim: completed", "claim: contention"];

/// A claim inside a transaction is seen by others only once it is committed.
pub(super) const HELD_OUTSIDE: &[&str] = &["claim: in flight"];

pub(super) const HELD_INSIDE: &[&str] = &["claim in: in flight"];

pub(super) const REPEATABLE: &[&str] = &[
    "claim in: serialization failure",
    "complete in: serialization failure",
];
