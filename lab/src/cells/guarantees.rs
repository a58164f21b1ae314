//! The sentences that the cells try, each after its file.

/// Of `idem-postgres`.
pub(super) mod postgres {
    pub(crate) const KILLED: &str = "idem-postgres/README.md: the server killed anywhere | no \
        acknowledged completion is lost with `fsync`, `full_page_writes` and `synchronous_commit` \
        on (the defaults)";
    pub(crate) const ASYNC: &str = "idem-postgres/README.md: `synchronous_commit = off` loses the \
        last acknowledged completions in a crash of the server, so the work of those keys may run \
        again.";
    pub(crate) const NO_FSYNC: &str = "idem-postgres/README.md: `fsync = off` may lose everything.";
    pub(crate) const LAWS: &str = "idem-postgres/README.md: one winner per key, fencing, replay \
        byte for byte | as the suite's laws say, on every isolation level";
    pub(crate) const WORKER: &str = "idem-postgres/README.md: a worker killed anywhere | the key \
        is free, or failed if the claim says so, after its lease";
    pub(crate) const ERROR: &str = "idem-postgres/README.md: an error | says whether it may have \
        taken effect; repeating the same request is safe";
    pub(crate) const CLOCK: &str = "idem-postgres/README.md: the server's clock set back | leases \
        last longer by as much; tokens still grow, except for a key whose record was deleted \
        before the clock went back behind it. Set forward: leases end early";
}

/// Of `idem-sqlite`.
pub(super) mod sqlite {
    pub(crate) const POWER: &str = "idem-sqlite/README.md: the machine loses power | no \
        acknowledged completion is lost with `synchronous = FULL`, as `connect` sets it, on a disk \
        that does not lie about its writes";
    pub(crate) const NORMAL: &str = "idem-sqlite/README.md: `synchronous = NORMAL` on a caller's \
        pool loses the last completions when the power fails, though not when a process dies.";
    pub(crate) const KILLED: &str = "idem-sqlite/README.md: a process killed anywhere | no \
        acknowledged completion is lost; its keys are free, or failed if the claim says so, after \
        their lease";
    pub(crate) const LAWS: &str = "idem-sqlite/README.md: one winner per key, fencing, replay byte \
        for byte | as the suite's laws say, between processes too: one `INSERT … ON CONFLICT … DO \
        UPDATE … WHERE` under the write lock decides";
    pub(crate) const ERROR: &str = "idem-sqlite/README.md: an error | says whether it may have \
        taken effect; repeating the same request is safe";
}

/// Of `idem-redis`, and of its servers.
pub(super) mod redis {
    pub(crate) const KILLED: &str = "idem-redis/README.md: the server killed anywhere | no \
        acknowledged completion is lost with `appendonly yes` and `appendfsync always`";
    pub(crate) const STALLS: &str = "idem-redis/README.md: a server that stalls, a proxy that \
        holds bytes back | a claim that runs after its caller's time-out does nothing; late \
        results, renewals and releases count, by their token";
    pub(crate) const WORKER: &str = "idem-redis/README.md: a worker killed anywhere | the key is \
        free, or failed if the claim says so, after its lease";
    pub(crate) const ERROR: &str = "idem-redis/README.md: an error | says whether it may have \
        taken effect; repeating the same request is safe";
    pub(crate) const CLOCK: &str = "idem-redis/README.md: the server's clock set back | leases \
        last longer by as much; tokens still grow while the record or its grace lasts. Set \
        forward: leases end early";
    pub(crate) const FULL: &str = "idem-redis/README.md: memory is short, `noeviction` | nothing: \
        writes fail as `Unavailable` without effect, replays go on";
    pub(crate) const EVICTING: &str = "idem-redis/README.md: memory is short, `maxmemory-policy` \
        not `noeviction` | any record, live claims too";
    pub(crate) const NO_AOF: &str =
        "documentation of the server: without an append-only file a restart begins empty";
    pub(crate) const EVERYSEC: &str =
        "documentation of the server: `appendfsync everysec` may lose one second of data";
}

/// Of `idem-mysql`.
pub(super) mod mysql {
    pub(crate) const KILLED: &str = "idem-mysql/README.md: the server killed anywhere | no \
        acknowledged completion is lost with `innodb_flush_log_at_trx_commit = 1`, \
        `innodb_doublewrite` on, and with a binary log `sync_binlog = 1`";
    pub(crate) const FLUSH: &str = "idem-mysql/README.md: With `innodb_flush_log_at_trx_commit` 0 \
        or 2, a crash of the server or the machine loses the last acknowledged completions, so the \
        work of those keys may run again.";
    pub(crate) const SHOWN: &str = "idem-mysql/README.md: InnoDB may show a commit before it is on \
        disk (seen on MariaDB without a binary log): an answer that rests on it, to a duplicate or \
        to a completion sent again, is lost if the server crashes at that moment";
    pub(crate) const BINLOG: &str = "idem-mysql/README.md: and with a binary log `sync_binlog = \
        1` (the defaults, except that MariaDB has `sync_binlog = 0`)";
    pub(crate) const LAWS: &str = "idem-mysql/README.md: one winner per key, fencing, replay byte \
        for byte | as the suite's laws say, on every isolation level";
    pub(crate) const WORKER: &str = "idem-mysql/README.md: a worker killed anywhere | the key is \
        free, or failed if the claim says so, after its lease";
    pub(crate) const ERROR: &str = "idem-mysql/README.md: an error | says whether it may have \
        taken effect; repeating the same request is safe";
    pub(crate) const CLOCK: &str = "idem-mysql/README.md: the server's clock set back | leases \
        last longer by as much; tokens still grow, except for a key whose record was deleted \
        before the clock went back behind it. Set forward: leases end early";
}

/// Of `idem-mongo`.
pub(super) mod mongo {
    pub(crate) const KILLED: &str = "idem-mongo/README.md: a server killed, a failover | no \
        acknowledged claim or completion is lost";
    pub(crate) const ERROR: &str = "idem-mongo/README.md: an error | says whether it may have \
        taken effect; repeating the same request is safe";
    pub(crate) const CLOCK: &str = "idem-mongo/README.md: wrong clocks of clients | change \
        nothing; `$$NOW` of the server decides every expiry";
    pub(crate) const UNSYNCED: &str =
        "documentation of the server: without `--sync-on-commit` a power failure loses commits";
    pub(crate) const LAWS: &str = "idem-mongo/README.md: one winner per key, fencing, replay byte \
        for byte | as the suite's laws say";
    pub(crate) const WORKER: &str = "idem-mongo/README.md: a worker killed anywhere | the key is \
        free, or failed if the claim says so, after its lease";
}

/// Of `idem-hybrid`.
pub(super) mod hybrid {
    pub(crate) const SUITE: &str = "idem-hybrid/README.md: passes with the cache healthy, down from \
        the start, killed while it runs, slow, flushed, evicting, returning garbage or another \
        key's record: every answer is the database's";
    pub(crate) const SLOW: &str = "idem-hybrid/README.md: claim, cache down, slow or skipped | the \
        database's claim, after 50 ms (`Config::with_budget`) at most";
    pub(crate) const EMPTY: &str = "idem-hybrid/README.md: The cache may lose everything at any \
        time: the database then answers the next duplicate.";
    pub(crate) const ERRORS: &str = "idem-hybrid/README.md: errors of the cache | reach no caller, \
        except of `invalidate` and of a forced deletion";
    pub(crate) const PAUSED: &str = "idem-hybrid/README.md: a paused process | lengthens no \
        lifetime: it counts from the ticket, by the cache's clock";
}
