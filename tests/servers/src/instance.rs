use std::path::PathBuf;

use crate::{Cluster, Error, Product, Record, Result, Server, Source};

/// A running server. Dropping it ends a private server.
#[derive(Debug)]
pub struct Instance {
    pub(crate) server: &'static Server,
    pub(crate) source: Source,
    pub(crate) url: String,
    pub(crate) product: Product,
    /// The processes of a private server.
    pub(crate) cluster: Option<Cluster>,
}

impl Instance {
    pub(crate) fn own(server: &'static Server, source: Source, cluster: Cluster) -> Self {
        Self {
            server,
            source,
            url: cluster.urls(),
            product: cluster.product().clone(),
            cluster: Some(cluster),
        }
    }

    /// Returns the name of the database, such as `postgres`.
    pub fn name(&self) -> &'static str {
        self.server.name
    }

    /// Returns the name of the variable that tests read, such as `IDEM_POSTGRES_URL`.
    pub fn url_variable(&self) -> String {
        self.server.url_variable()
    }

    /// Returns the URL for clients. It is the same after a restart.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the product that answers there.
    pub fn product(&self) -> &Product {
        &self.product
    }

    /// Returns its source.
    pub fn source(&self) -> Source {
        self.source
    }

    /// Returns the certificate of the server's authority, if the server was started with
    /// [`Transport::Tls`](crate::Transport::Tls). The server's own certificate is for `localhost`
    /// and 127.0.0.1.
    pub fn ca_certificate(&self) -> Option<PathBuf> {
        self.cluster.as_ref()?.first().ca_certificate()
    }

    /// Returns the URL for TLS clients of a server that was started with
    /// [`Transport::Tls`](crate::Transport::Tls) and cannot speak TLS on the port of
    /// [`url`](Self::url): `rediss://localhost:…`.
    pub fn tls_url(&self) -> Option<String> {
        self.cluster.as_ref()?.first().tls_url()
    }

    /// Kills every process of the server with SIGKILL.
    ///
    /// # Errors
    ///
    /// An error, as for the following methods, when the server is not private, or a cluster.
    pub fn kill(&mut self) -> Result<()> {
        self.single()?.kill(0)
    }

    /// Restarts the server, on the same data and port, stopping it first if it runs, and waits
    /// until it answers.
    pub fn restart(&mut self) -> Result<()> {
        self.single()?.restart(0)
    }

    /// Freezes every process of the server (SIGSTOP): it keeps its port, its connections and its
    /// data, accepts new connections and answers nothing. A frozen server can be killed, restarted
    /// and dropped.
    pub fn freeze(&mut self) -> Result<()> {
        self.single()?.freeze(0)
    }

    /// Lets a frozen server continue.
    pub fn thaw(&mut self) -> Result<()> {
        self.single()?.thaw(0)
    }

    /// Returns the cluster, whose nodes can be killed one by one; `None` for a server that is not
    /// private.
    pub fn into_cluster(self) -> Option<Cluster> {
        self.cluster
    }

    /// Lets a server continue to run; the record is the way to stop it. Returns `None` for a server
    /// in the environment, which the caller must not stop.
    pub fn detach(self) -> Option<Record> {
        Some(Record {
            name: self.server.name.into(),
            url: self.url,
            product: self.product,
            source: self.source,
            signal: self.server.end_signal(),
            folder: self.cluster?.detach(),
        })
    }

    /// A killed container is gone, with its data.
    fn single(&mut self) -> Result<&mut Cluster> {
        let (url, source) = (&self.url, self.source);
        let refused = || format!("{url} from {source} cannot be killed or restarted");
        let cluster = self
            .cluster
            .as_mut()
            .filter(|_| source != Source::Container);
        let single = cluster.filter(|cluster| cluster.nodes() == 1);
        single.ok_or_else(|| Error::failed(refused()))
    }
}
