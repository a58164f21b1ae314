//! [`Running`]: a started store.

use std::path::Path;

use idem_core::BoxError;
use idem_servers::{Cluster, Durability, Instance, Options, start_private, start_private_cluster};

use super::Hybrid;
use crate::nemesis::sockets::wait_until_closed;

/// How to start a store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setup {
    /// The name of the server in `idem-servers`; `None` for a store in the callers' processes.
    pub(crate) server: Option<&'static str>,
    /// Whether that is a cluster, of which callers use one node.
    pub(crate) is_cluster: bool,
    /// The text for [`Cell::parse`](crate::cell::Cell::parse) without a server; with one, the
    /// scheme in place of that of its URL, or nothing.
    pub(crate) store: &'static str,
    /// The durability before the settings.
    pub(crate) durability: Durability,
    /// The name of the pooler in front of the server, if there is one.
    pub(crate) front: Option<&'static str>,
    /// The name of the cache in front of it, if there is one.
    pub(crate) cache: Option<&'static str>,
    /// The settings, by the server's own names.
    pub(crate) settings: &'static [(&'static str, &'static str)],
}

/// A started store.
pub(crate) enum Running {
    /// A server.
    Server(Box<Served>),
    /// The nodes of a cluster, and the text for [`Cell::parse`](crate::cell::Cell::parse).
    Cluster(Cluster, String),
    /// Files that the callers' processes open.
    Files(&'static str),
}

/// A started server, and the pooler or the cache in front of it.
pub(crate) struct Served {
    // Dropped first: it is of no use without the server.
    front: Option<Instance>,
    cache: Option<Instance>,
    server: Instance,
    store: String,
}

impl Running {
    /// Starts the store, with its data in the temporary folder of this process. `start` is the
    /// program by which a server is started.
    pub(crate) fn start(setup: &Setup, start: &Path) -> Result<Self, BoxError> {
        let Some(name) = setup.server else {
            return Ok(Self::Files(setup.store));
        };
        let mut options = Options::new()
            .with_durability(setup.durability)
            .with_wrapper(start);
        for (name, value) in setup.settings {
            options = options.with_setting(*name, *value);
        }
        if setup.is_cluster {
            let cluster = start_private_cluster(name, &options)?;
            let store = cluster.url(0).to_owned();
            return Ok(Self::Cluster(cluster, store));
        }
        let server = start_private(name, &options)?;
        let front = match setup.front {
            Some(front) => {
                let options = Options::new().with_upstream(server.url());
                // Not for 15 s after the server refused a connection.
                let options = options.with_setting("server_login_retry", "1");
                Some(start_private(front, &options)?)
            }
            None => None,
        };
        let cache = setup
            .cache
            .map(|cache| start_private(cache, &Options::new()));
        let cache = cache.transpose()?;
        let url = front.as_ref().unwrap_or(&server).url();
        let store = match (&cache, setup.store) {
            (Some(cache), _) => format!("{}:{url}+{}", Hybrid::SCHEME, cache.url()),
            (None, "") => url.to_owned(),
            (None, scheme) => {
                let (_, rest) = url.split_once(':').unwrap_or_default();
                format!("{scheme}:{rest}")
            }
        };
        Ok(Self::Server(Box::new(Served {
            front,
            cache,
            server,
            store,
        })))
    }

    /// Returns the text for [`Cell::parse`](crate::cell::Cell::parse).
    pub(crate) fn store(&self) -> &str {
        match self {
            Self::Server(served) => &served.store,
            Self::Cluster(_, store) => store,
            Self::Files(store) => store,
        }
    }

    /// Returns the port that callers connect to.
    pub(crate) fn port(&self) -> Option<u16> {
        match self {
            Self::Files(_) => None,
            _ => port_of(self.store()),
        }
    }

    /// Waits until no call of callers that are gone is under way.
    pub(crate) fn settle(&mut self) -> Result<(), BoxError> {
        if let Some(port) = self.port() {
            wait_until_closed(port)?;
        }
        let Self::Server(served) = self else {
            return Ok(());
        };
        // A pooler keeps sessions that nobody uses.
        if let Some(front) = &mut served.front {
            front.kill()?;
            if let Some(port) = port_of(served.server.url()) {
                wait_until_closed(port)?;
            }
            front.restart()?;
        }
        Ok(())
    }
}

impl Served {
    /// Returns the server.
    pub(crate) fn server(&mut self) -> &mut Instance {
        &mut self.server
    }

    /// Returns what loses power with the disk: the server and the cache.
    pub(crate) fn on_disk(&mut self) -> impl Iterator<Item = &mut Instance> {
        std::iter::once(&mut self.server).chain(self.cache.as_mut())
    }

    /// Returns the cache.
    pub(crate) fn cache(&mut self) -> Option<&mut Instance> {
        self.cache.as_mut()
    }

    /// Returns the pooler.
    pub(crate) fn front(&mut self) -> Option<&mut Instance> {
        self.front.as_mut()
    }
}

pub(crate) fn port_of(url: &str) -> Option<u16> {
    let authority = url.split("://").nth(1)?;
    let host = authority.split(['/', '?']).next()?;
    host.rsplit(':').next()?.parse().ok()
}
