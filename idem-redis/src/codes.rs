//! The server's error codes: what each means for the caller, whether it may have had an effect, and
//! what to do.
//!
//! A code is the first word of an error. A server that answers with one has not run the command, or
//! the error is that of the first write of a script. Scripts of this crate write one record once,
//! and a publication after it cannot fail them. So a code in this table has no effect by default; a
//! code that is not listed may have had one.
//!
//! Codes: <https://redis.io/docs/latest/develop/reference/protocol-spec/#simple-errors>, and
//! `createSharedObjects` in `server.c` of Redis and Valkey. Proxies answer in their own words,
//! which are recognised by how they begin: [`by_text`].

use idem_core::backend::{Codes, Meaning, error_codes};
use idem_core::{Effect, ErrorKind};

const CODES: Codes<&str> = error_codes! {
    // The node does not have the slot, or not all of it: checked before a command is run.
    Unavailable None ["MOVED", "ASK", "TRYAGAIN"] =>
        "the key's slot is being moved to another node of the cluster; ask again (MOVED, ASK, \
         TRYAGAIN)";
    // Checked before a command is run. MASTERDOWN: a replica without its master, which would serve
    // stale data.
    Unavailable None ["CLUSTERDOWN", "MASTERDOWN"] =>
        "the part of the cluster that has the key is down, or a failover is under way \
         (CLUSTERDOWN, MASTERDOWN)";
    Unavailable None ["LOADING"] => "the server is reading its data from disk (LOADING)";
    // Refused while another script runs; this one was not begun.
    Unavailable None ["BUSY"] =>
        "the server is busy with somebody's long script (BUSY; see `SCRIPT KILL`)";
    // The first write of a script fails so, too; it writes once.
    Unavailable None ["READONLY"] =>
        "the server is a replica (READONLY): after a failover, or the URL names one; connect to \
         the master, through Sentinel, or to all nodes of the cluster";
    Unavailable None ["NOREPLICAS"] =>
        "the server has fewer good replicas than `min-replicas-to-write` (NOREPLICAS)";
    Unavailable None ["OOM"] =>
        "the server has reached `maxmemory` and takes no writes (OOM); raise it, or shorten \
         retentions";
    Misconfigured None ["MISCONF"] =>
        "the server cannot save to disk and takes no writes (MISCONF); see its log, and \
         `stop-writes-on-bgsave-error`";
    // The script is not in the server's cache, also after it was sent with its text: a proxy sends
    // the two to different servers.
    Unavailable None ["NOSCRIPT"] =>
        "the server does not know the script (NOSCRIPT): it was restarted, or a proxy spreads \
         commands over servers";
    Misconfigured None ["NOAUTH", "WRONGPASS"] =>
        "the server does not accept user and password (NOAUTH, WRONGPASS); correct them in the URL";
    // Before a command is run, or at a script's first call of a denied command. TIME and GET come
    // before the write, and PUBLISH after it is called so that it cannot fail the script.
    Misconfigured None ["NOPERM"] =>
        "the user may not do this (NOPERM); it needs `~<namespace>:* +@read +@write +@scripting \
         +info +time`, and `&<namespace>:* +@pubsub` to be woken";
    // `protected-mode` refuses the connection.
    Misconfigured None ["DENIED"] =>
        "the server is in protected mode and takes local connections only (DENIED); set a password \
         or `bind`";
    Misconfigured None ["NOPROTO"] =>
        "the server does not speak the protocol that the URL asks for (NOPROTO); leave `protocol` \
         out of it";
    // A script's first read of its key.
    Misconfigured None ["WRONGTYPE"] =>
        "a key of this namespace holds something else (WRONGTYPE); give the store a namespace of \
         its own";
    Misconfigured None ["CROSSSLOT"] =>
        "the server is a cluster behind a proxy that cannot route scripts (CROSSSLOT)";
    // From commands that this crate does not send: a proxy has added them.
    Unavailable Unknown ["EXECABORT", "UNKILLABLE", "UNBLOCKED", "NOTBUSY", "INPROG"] =>
        "the server was interrupted (EXECABORT, UNKILLABLE, UNBLOCKED)";
    // A proxy or a managed server that cannot reach the one behind it, which may have run the
    // command.
    Unavailable Unknown ["UNAVAILABLE", "NOGOODSLAVE", "PROXY", "UPSTREAM"] =>
        "the proxy in between has lost the server, or waits for it";
};

/// The beginnings of messages without a code of their own: those of the server itself (after
/// `ERR`), of twemproxy (errors of the system behind `ERR`) and of Envoy (in small letters, without
/// a code). A proxy's error about the server behind it says nothing about the command.
const TEXTS: Codes<&str> = error_codes! {
    // Before the connection is accepted.
    Unavailable None ["max number of clients", "max number of clients + cluster"] =>
        "the server has as many connections as it takes (max number of clients reached); raise \
         `maxclients`";
    Misconfigured None ["DB index is out of range", "invalid DB index"] =>
        "the server has no database of this number; correct it in the URL";
    // A node of a cluster that is configured not to be one, or the other way round.
    Misconfigured None ["This instance has cluster support disabled"] =>
        "the server is no cluster; use `RedisStore::connect`";
    // The command is not known, so not run: `EVALSHA` switched off or renamed, or a proxy that does
    // not route it.
    Misconfigured None ["unknown command", "unsupported command", "unknown redis command"] =>
        "the server, or the proxy in between, does not know a command that is needed: EVAL, \
         EVALSHA, INFO, TIME";
    // A script was killed or ran out of time: `SCRIPT KILL` ends only scripts that have not
    // written, a restart all.
    Other Unknown ["Error running script (call to", "Script killed by user"] =>
        "the script failed on the server; see the source";
    Unavailable Unknown [
        "Connection timed out", "Connection refused", "Connection reset", "Broken pipe",
        "Host is unreachable", "No route to host", "Network is unreachable", "server error",
        "upstream failure", "upstream protocol error", "no upstream host", "downstream", "timeout",
        "Proxy", "ERR Proxy",
    ] =>
        "the proxy in between has lost the server, or waits for it";
};

/// The message to a script about a command or key that its user may not use, in Redis 7 and before,
/// anywhere in the text: at a script's first call of it, so before the one write is done.
const DENIED_IN_SCRIPT: [&str; 2] = [
    "ACL failure in script",
    "The user executing the script can't",
];

/// Messages to a script, anywhere in the text: the call that they refuse was not made, and it comes
/// before the one write, or is that write.
const IN_SCRIPT: Codes<&str> = error_codes! {
    // Redis 6.2: <https://github.com/redis/redis/blob/6.2/redis.conf>, "lua-replicate-commands".
    Misconfigured None ["Write commands not allowed after non", "turning on single commands repl"] =>
        "the server replicates scripts as text, and takes no write after `TIME`; set \
         `lua-replicate-commands yes`, or use Redis 7";
    Misconfigured None ["command is not allowed from script", "Redis command called from"] =>
        "the server refuses a command in a script, where the store needs TIME, GET, SET and DEL; see \
         the source, and its settings `rename-command`";
};

const UNLISTED: Meaning = (
    ErrorKind::Other,
    Effect::Unknown,
    "the server refused; see the source",
);

/// Returns what a code means.
pub(crate) fn by_code(code: &str) -> Option<Meaning> {
    CODES.find(|&listed| listed == code)
}

/// Returns the meaning of a message whose first word is no code that says more.
pub(crate) fn by_text(text: &str) -> Meaning {
    if DENIED_IN_SCRIPT.iter().any(|denied| text.contains(denied))
        && let Some(denied) = by_code("NOPERM")
    {
        return denied;
    }
    let begins = |start: &&str| {
        text.get(..start.len())
            .is_some_and(|begun| begun.eq_ignore_ascii_case(start))
    };
    let in_script = || IN_SCRIPT.find(|words| text.contains(words));
    in_script()
        .or_else(|| TEXTS.find(begins))
        .unwrap_or(UNLISTED)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_code_is_listed_twice() {
        let mut seen = HashSet::new();
        for code in CODES.all().chain(TEXTS.all()).chain(IN_SCRIPT.all()) {
            assert!(seen.insert(code), "{code}");
        }
    }

    #[test]
    fn an_unlisted_code_has_an_unknown_effect() {
        assert_eq!(by_code("NEWCODE"), None);
        assert_eq!(by_text("something new").1, Effect::Unknown);
        assert_eq!(by_text("é").1, Effect::Unknown);
        assert_eq!(by_text("").0, ErrorKind::Other);
    }
}
