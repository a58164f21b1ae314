//! [`Need`]: what a machine must have for a cell.

use std::fmt;

/// What a machine must have for a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Processes with a network, mounts and numbers of their own.
    Sandbox,
    /// A file system on a loop device that can be shut down.
    PowerCut,
    /// System calls that fail.
    FailedCalls,
    /// A file system whose writes fail after the kernel has taken them.
    WriteBack,
    /// A file system that can be filled.
    FullDisk,
    /// Packets that are dropped.
    Partition,
    /// A clock of a server that can be set.
    Clock,
    /// Signals that stop and end processes.
    Signals,
    /// The programs of a server.
    Server(&'static str),
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sandbox => "sandbox (root, unshare, ip)",
            Self::PowerCut => "power cut (loop device, ext4, FS_IOC_SHUTDOWN by perl)",
            Self::FailedCalls => "failed fsync (strace --seccomp-bpf -e inject)",
            Self::WriteBack => "failed write-back (ext4 image on a full tmpfs, dmesg)",
            Self::FullDisk => "full disk (ext4 image, fallocate)",
            Self::Partition => "partition (iptables in its own network)",
            Self::Clock => "server clock (preload/step.c, cc)",
            Self::Signals => "signals",
            Self::Server(name) => name,
        })
    }
}
