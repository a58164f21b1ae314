//! [`State`]: the state of the cache while the suite runs.

use idem_conformance::Missing;

/// The cache and its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum State {
    /// In process, without Redis.
    Local,
    /// In process in front of Redis.
    Tiered,
    /// Redis, working.
    Healthy,
    /// Redis at an address where nothing listens.
    Down,
    /// Redis that is killed and started again all the time.
    Killed,
    /// Redis behind a network that takes 500 ms.
    Slow,
    /// Redis that is emptied at random moments.
    Flushed,
    /// Redis that has too little memory and is filled by others.
    Evicting,
    /// Redis whose every other hit is random bytes.
    Garbage,
    /// Redis whose every other hit is another key's entry.
    Mixed,
}

impl State {
    pub(crate) const ALL: [Self; 10] = [
        Self::Local,
        Self::Tiered,
        Self::Healthy,
        Self::Down,
        Self::Killed,
        Self::Slow,
        Self::Flushed,
        Self::Evicting,
        Self::Garbage,
        Self::Mixed,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Tiered => "tiered",
            Self::Healthy => "healthy",
            Self::Down => "down",
            Self::Killed => "killed",
            Self::Slow => "slow",
            Self::Flushed => "flushed",
            Self::Evicting => "evicting",
            Self::Garbage => "garbage",
            Self::Mixed => "mixed",
        }
    }

    /// Returns whether this machine has what the state needs.
    pub(crate) fn is_here(self) -> Result<(), Missing> {
        match self {
            Self::Local | Self::Down => Ok(()),
            Self::Killed | Self::Flushed | Self::Evicting => {
                let server = idem_servers::server("redis").ok();
                let programs = server.and_then(idem_servers::Server::programs);
                let missing = || Missing::new("no Redis on this machine (`apt-get install redis`)");
                programs.map(drop).ok_or_else(missing)
            }
            Self::Tiered | Self::Healthy | Self::Slow | Self::Garbage | Self::Mixed => {
                let missing = || Missing::new(idem_servers::missing_reason("redis"));
                idem_servers::url_for("redis").map(drop).ok_or_else(missing)
            }
        }
    }
}
