//! [`Kind`]: what is done to a store.

use super::Need;
use crate::cluster::FailOver;
use crate::nemesis::network::Way;

/// What is done to a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Its file system loses power, and its processes with it.
    PowerCut,
    /// Every process of the server is killed with SIGKILL, and it is started again.
    ServerKill,
    /// The pooler in front of the server is killed with SIGKILL, and started again.
    PoolerKill,
    /// Every process of the server is paused for longer than leases.
    ServerStop,
    /// A process that calls it is killed with SIGKILL.
    WorkerKill,
    /// A process that calls it is paused for longer than leases.
    WorkerStop,
    /// Forced writes of the server, or of the callers of a file, fail with `EIO`.
    FailingWrites,
    /// Writes fail after the kernel has taken them, so that one forced write fails and the next does
    /// not. Then the file system loses power.
    WriteBack,
    /// The file system is full for a while.
    FullDisk,
    /// Packets between the server and its callers are dropped for a while.
    Cut(Way),
    /// The server's clock is set.
    Clock(Steps),
    /// Something is done to the cache in front of the server.
    Cache(OnCache),
    /// The server's memory is filled, until it drops records or refuses writes.
    FullMemory,
    /// The server that leads is lost, and another leads.
    FailOver(FailOver),
}

/// What is done to a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnCache {
    /// It is killed with SIGKILL, and started again without its entries.
    Kill,
    /// It is paused for longer than leases.
    Stop,
    /// It forgets every entry.
    Flush,
    /// Packets between it and the callers are dropped for a while.
    Cut,
}

/// How the clock of a server is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Steps {
    /// By less than a server keeps what it deletes by itself.
    Short,
    /// By up to an hour, while expired records are deleted.
    Long,
    /// By up to an hour, while nobody deletes expired records.
    WithoutPurge,
}

impl Steps {
    /// Returns the longest step from the right time, in microseconds.
    pub(super) const fn longest(self) -> i64 {
        match self {
            Self::Short => 20_000_000,
            Self::Long | Self::WithoutPurge => 3_600_000_000,
        }
    }
}

impl Kind {
    /// Returns what the machine must have.
    pub(super) const fn need(self) -> Need {
        match self {
            Self::PowerCut => Need::PowerCut,
            // A fail-over has more needs of its own.
            Self::ServerKill
            | Self::PoolerKill
            | Self::ServerStop
            | Self::WorkerKill
            | Self::WorkerStop
            | Self::Cache(OnCache::Kill | OnCache::Stop | OnCache::Flush)
            | Self::FullMemory
            | Self::FailOver(_) => Need::Signals,
            Self::FailingWrites => Need::FailedCalls,
            Self::WriteBack => Need::WriteBack,
            Self::FullDisk => Need::FullDisk,
            Self::Cut(_) | Self::Cache(OnCache::Cut) => Need::Partition,
            Self::Clock(_) => Need::Clock,
        }
    }

    /// Returns its name.
    pub(super) const fn in_words(self) -> &'static str {
        match self {
            Self::PowerCut => "power cut",
            Self::ServerKill => "server SIGKILL, restart",
            Self::PoolerKill => "pooler SIGKILL, restart",
            Self::ServerStop => "server SIGSTOP longer than leases",
            Self::WorkerKill => "worker SIGKILL",
            Self::WorkerStop => "worker SIGSTOP longer than leases",
            Self::FailingWrites => "fsync fails with EIO",
            Self::WriteBack => "write-back fails, then power cut",
            Self::FullDisk => "disk full",
            Self::Cut(Way::Requests) => "partition, requests dropped",
            Self::Cut(Way::Answers) => "partition, answers dropped",
            Self::Cut(Way::Both) => "partition",
            Self::Clock(Steps::Short) => "server clock set by up to 20 s",
            Self::Clock(Steps::Long) => "server clock set by up to 1 h, records deleted",
            Self::Clock(Steps::WithoutPurge) => "server clock set by up to 1 h",
            Self::Cache(OnCache::Kill) => "cache SIGKILL, restart",
            Self::Cache(OnCache::Stop) => "cache SIGSTOP longer than leases",
            Self::Cache(OnCache::Flush) => "cache flushed",
            Self::Cache(OnCache::Cut) => "cache cut off",
            Self::FullMemory => "memory full",
            Self::FailOver(fail_over) => fail_over.in_words(),
        }
    }

    /// Returns what it is done to.
    pub(super) const fn on(self) -> &'static str {
        match self {
            Self::PowerCut | Self::WriteBack | Self::FullDisk => "disk",
            Self::WorkerKill | Self::WorkerStop => "worker",
            Self::Cut(_) => "network",
            Self::PoolerKill => "pooler",
            Self::Cache(_) => "cache",
            Self::FullMemory => "memory",
            Self::FailOver(_) => "leader",
            Self::ServerKill | Self::ServerStop | Self::FailingWrites | Self::Clock(_) => "server",
        }
    }

    /// Returns whether a server may end by itself under it.
    pub(super) const fn may_end_server(self) -> bool {
        matches!(self, Self::FullDisk | Self::FailingWrites | Self::WriteBack)
    }
}
