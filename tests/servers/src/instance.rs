use std::path::PathBuf;

use crate::certificate::Certificate;
use crate::container::Container;
use crate::local::Local;
use crate::{Cluster, Error, Product, Record, Result, Server, Signal, Source};

/// A server that answers. Dropping it ends a server of our own, unless it is detached.
#[derive(Debug)]
pub struct Instance {
    server: &'static dyn Server,
    source: Source,
    url: String,
    product: Product,
    body: Body,
}

#[derive(Debug)]
enum Body {
    /// Somebody else's.
    Remote,
    Local(Box<Local>),
    Cluster(Box<Cluster>),
    Container(Container),
}

/// What can be killed.
enum Own<'a> {
    Local(&'a mut Local),
    Cluster(&'a mut Cluster),
}

impl Instance {
    pub(crate) fn remote(server: &'static dyn Server, url: String, product: Product) -> Self {
        Self {
            server,
            source: Source::Env,
            url,
            product,
            body: Body::Remote,
        }
    }

    pub(crate) fn local(
        server: &'static dyn Server,
        source: Source,
        (local, product): (Local, Product),
    ) -> Self {
        Self {
            server,
            source,
            url: local.url(),
            product,
            body: Body::Local(Box::new(local)),
        }
    }

    pub(crate) fn cluster(server: &'static dyn Server, source: Source, cluster: Cluster) -> Self {
        Self {
            server,
            source,
            url: cluster.urls(),
            product: cluster.product().clone(),
            body: Body::Cluster(Box::new(cluster)),
        }
    }

    pub(crate) fn container(
        server: &'static dyn Server,
        (container, product): (Container, Product),
    ) -> Self {
        let url = container.url().to_owned();
        Self {
            server,
            source: Source::Container,
            url,
            product,
            body: Body::Container(container),
        }
    }

    /// Name of the database: `postgres`.
    pub fn name(&self) -> &'static str {
        self.server.name()
    }

    /// Name of the variable that tests read: `IDEM_POSTGRES_URL`.
    pub fn url_variable(&self) -> String {
        self.server.url_variable()
    }

    /// What a client connects to. The same after a restart.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What answers there.
    pub fn product(&self) -> &Product {
        &self.product
    }

    /// Where it comes from.
    pub fn source(&self) -> Source {
        self.source
    }

    /// Certificate of the authority that vouches for the server, where it was started with
    /// [`Transport::Tls`](crate::Transport::Tls). The server's own is for `localhost` and 127.0.0.1.
    pub fn ca_certificate(&self) -> Option<PathBuf> {
        match &self.body {
            Body::Local(local) => Certificate::authority(local.folder().path()),
            _ => None,
        }
    }

    /// What a TLS client connects to, of a server that was started with [`Transport::Tls`](crate::Transport::Tls) and
    /// cannot speak TLS on the port of [`url`](Self::url): `rediss://localhost:…`.
    pub fn tls_url(&self) -> Option<String> {
        match &self.body {
            Body::Local(local) => local.tls_url(),
            _ => None,
        }
    }

    /// The last lines of the server's log, each on an indented line of its own; empty where we have none.
    pub fn log_tail(&self) -> String {
        match &self.body {
            Body::Remote => String::new(),
            Body::Local(local) => local.folder().log_tail(),
            Body::Cluster(cluster) => (0..cluster.nodes())
                .map(|node| cluster.log_tail(node))
                .collect(),
            Body::Container(container) => container.folder().log_tail(),
        }
    }

    /// Kills every process of the server with SIGKILL. Only a private server can be killed.
    pub fn kill(&mut self) -> Result<()> {
        match self.own()? {
            Own::Local(local) => local.kill(),
            Own::Cluster(cluster) => cluster.kill_all(),
        }
    }

    /// Starts the server again, on the same data and port, stopping it first if it runs, and waits until it
    /// answers. Only a private server can be started again.
    pub fn restart(&mut self) -> Result<()> {
        match self.own()? {
            Own::Local(local) => local.restart(),
            Own::Cluster(cluster) => {
                cluster.pause_all()?;
                cluster.restart_all()
            }
        }
    }

    /// Ends the server at once, without waiting for its clients, and keeps its data for [`restart`](Self::restart).
    pub fn pause(&mut self) -> Result<()> {
        match self.own()? {
            Own::Local(local) => local.stop(),
            Own::Cluster(cluster) => cluster.pause_all(),
        }
    }

    /// Freezes every process of the server (SIGSTOP): it keeps its port, its connections and its data, takes new
    /// connections in and answers nothing. It can be killed, restarted and dropped like that.
    pub fn freeze(&mut self) -> Result<()> {
        match self.own()? {
            Own::Local(local) => local.freeze(),
            Own::Cluster(cluster) => cluster.freeze_all(),
        }
        Ok(())
    }

    /// Lets a frozen server go on.
    pub fn thaw(&mut self) -> Result<()> {
        match self.own()? {
            Own::Local(local) => local.thaw(),
            Own::Cluster(cluster) => cluster.thaw_all(),
        }
        Ok(())
    }

    /// The cluster, whose nodes can be killed one by one; none of a single server, which ends.
    pub fn into_cluster(self) -> Option<Cluster> {
        match self.body {
            Body::Cluster(cluster) => Some(*cluster),
            _ => None,
        }
    }

    /// Ends the server and removes everything of it. Dropping does the same and keeps quiet about errors.
    pub fn stop(mut self) -> Result<()> {
        match &mut self.body {
            Body::Remote => Ok(()),
            Body::Local(local) => local.clear(),
            Body::Cluster(cluster) => cluster.clear(),
            Body::Container(container) => container.clear(),
        }
    }

    /// Lets a server that was started detached run on; the record is the way to stop it. None for a server in
    /// the environment, which is not ours to stop.
    pub fn detach(mut self) -> Option<Record> {
        let (processes, folder, signal) = match &self.body {
            Body::Remote => return None,
            Body::Local(local) => (
                vec![local.identity()?],
                local.folder(),
                self.server.stop_signal(),
            ),
            // Its data is thrown away: no node has to wait until the others know that it leaves.
            Body::Cluster(cluster) => (cluster.identities(), cluster.folder(), Signal::Kill),
            Body::Container(container) => {
                (vec![container.identity()], container.folder(), Signal::Term)
            }
        };
        let (process, others) = processes.split_first()?;
        let record = Record {
            name: self.name().into(),
            url: self.url.clone(),
            product: self.product.clone(),
            source: self.source,
            process: *process,
            others: others.into(),
            signal,
            folder: folder.path().into(),
        };
        match &mut self.body {
            Body::Remote => {}
            Body::Local(local) => local.release(),
            Body::Cluster(cluster) => cluster.release(),
            Body::Container(container) => container.release(),
        }
        Some(record)
    }

    fn own(&mut self) -> Result<Own<'_>> {
        match &mut self.body {
            Body::Local(local) => Ok(Own::Local(local)),
            Body::Cluster(cluster) => Ok(Own::Cluster(cluster)),
            Body::Remote | Body::Container(_) => Err(Error::failed(format!(
                "{} from {} cannot be killed or restarted",
                self.url, self.source
            ))),
        }
    }
}
