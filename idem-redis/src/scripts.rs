//! The scripts, each one atomic step: Redis runs a script to its end before anything else
//! (<https://redis.io/docs/latest/develop/programmability/eval-intro/>). So nothing can come
//! between the read and the write, and a script's answer is what it has written.
//!
//! The clock is `TIME`, read inside the script. A script writes a record with one `SET … PXAT`, so
//! that no record is half written or without an expiry. A duplicate is answered without a write:
//! nothing goes to replicas or to the append-only file. The exception is a store that waits for
//! replicas, whose replays renew the record's expiry, so that `WAIT` has something to wait for.
//!
//! `SET … NX GET PX` alone is enough for a nonce, not for a claim. The fencing token and every
//! instant must come from the server's clock, which a client's value cannot contain. Only the same
//! request may take over a stale record. And `NX` with `GET` needs Redis 7.0.

use idem_core::{Effect, Error, ErrorKind};

use crate::script::Script;

macro_rules! script {
    ($($file:literal),+) => {
        Script::new(concat!(include_str!("scripts/header.lua"), $(include_str!($file)),+))
    };
}

/// Returns the command that reads the clock in a script, and asks for what a write after it needs.
/// It has no key, so that every master runs it; a proxy routes it by the argument.
pub(crate) fn probe() -> redis::Cmd {
    let mut cmd = redis::cmd("EVAL");
    cmd.arg(include_str!("scripts/probe.lua"))
        .arg(0)
        .arg("idem");
    cmd
}

/// Returns the error of a server that has refused the [`probe`] in words that this crate does not
/// know.
pub(crate) fn refused(error: Error) -> Error {
    if error.kind() != ErrorKind::Other {
        return error;
    }
    let message = "the server refuses a script that reads its clock by `TIME`; every claim is one \
                   (see the source)";
    Error::new(ErrorKind::Misconfigured, Effect::None, message).with_source(error)
}

/// All scripts of a store. Rows are those of the tables in `idem_core::backend::decision`.
#[derive(Debug)]
pub(crate) struct Scripts {
    /// Rows C1 to C9.
    pub(crate) claim: Script,
    /// Row C1, for keys that have no record.
    pub(crate) fresh_many: Script,
    /// Rows S2 and R3.
    pub(crate) finish_many: Script,
    /// Rows S1 to S4.
    pub(crate) seal: Script,
    /// Rows R1 to R4.
    pub(crate) release: Script,
    /// Rows N1 to N3.
    pub(crate) renew: Script,
    pub(crate) get: Script,
    pub(crate) sweep: Script,
    /// Rows N1 to N3.
    pub(crate) checkpoint: Script,
    pub(crate) last_checkpoint: Script,
    pub(crate) advance: Script,
    pub(crate) peek: Script,
    pub(crate) force: Script,
    pub(crate) rewrite: Script,
}

impl Scripts {
    pub(crate) fn new() -> Self {
        Self {
            claim: script!(
                "scripts/fresh.lua",
                "scripts/layout.lua",
                "scripts/claim.lua"
            ),
            fresh_many: Script::new(include_str!("scripts/fresh_many.lua")),
            finish_many: script!("scripts/finish_many.lua"),
            seal: script!(
                "scripts/layout.lua",
                "scripts/owned.lua",
                "scripts/seal.lua"
            ),
            release: script!(
                "scripts/layout.lua",
                "scripts/owned.lua",
                "scripts/release.lua"
            ),
            renew: script!(
                "scripts/layout.lua",
                "scripts/owned.lua",
                "scripts/renew.lua"
            ),
            get: script!("scripts/layout.lua", "scripts/get.lua"),
            sweep: script!("scripts/layout.lua", "scripts/sweep.lua"),
            checkpoint: script!(
                "scripts/layout.lua",
                "scripts/owned.lua",
                "scripts/checkpoint.lua"
            ),
            last_checkpoint: script!(
                "scripts/layout.lua",
                "scripts/owned.lua",
                "scripts/last_checkpoint.lua"
            ),
            advance: Script::new(include_str!("scripts/advance.lua")),
            peek: script!("scripts/layout.lua", "scripts/peek.lua"),
            force: script!("scripts/layout.lua", "scripts/force.lua"),
            rewrite: script!("scripts/layout.lua", "scripts/rewrite.lua"),
        }
    }
}
