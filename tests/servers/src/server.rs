use std::fmt::{self, Debug};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::tools::{connect, find};
use crate::unpacked::Unpacked;
use crate::{Error, ErrorKind, Result, Signal, Site, packages};

/// One database: how to find, install, start and reach it. Everything else (ports, folders,
/// waiting, killing, stopping, containers) is common to all.
#[derive(Clone, Copy, Debug)]
pub struct Server {
    pub(crate) name: &'static str,
    pub(crate) product: &'static str,
    /// Packages of Debian and Ubuntu that contain its programs; empty if there are none.
    pub(crate) packages: &'static [&'static str],
    /// Packages that can be unpacked without being installed.
    pub(crate) unpacked: Option<Unpacked>,
    /// The required programs. The first one is the server.
    pub(crate) programs: &'static [&'static str],
    /// The system accounts for the server when tests run as root; the first existing one is used.
    pub(crate) accounts: &'static [&'static str],
    pub(crate) upstream: Option<&'static str>,
    pub(crate) cluster: ClusterKind,
    /// The number of its processes.
    pub(crate) nodes: usize,
    pub(crate) takes_settings: bool,
    pub(crate) tls: Tls,
    /// Whether each process always listens on a second port.
    pub(crate) needs_second_port: bool,
    /// The signal that ends it at once, without waiting for its clients.
    pub(crate) stop_signal: Signal,
    pub(crate) image: Option<Image>,
    pub(crate) kind: &'static dyn Kind,
}

/// Whether a server can speak TLS, and on which port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tls {
    No,
    SamePort,
    /// On a second port, with a URL of this scheme.
    SecondPort(&'static str),
}

/// How the processes of one server form a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClusterKind {
    /// One process.
    Single,
    /// Every node has all data; the majority continues.
    Galera,
    /// Each master has a part of the keys, and a replica that takes over from it.
    Redis,
}

/// The parts that differ between databases.
pub(crate) trait Kind: Debug + Sync {
    /// Returns the folder of its programs on this machine; the newest of several.
    fn programs(&self, server: &Server) -> Option<PathBuf> {
        find(server.programs).or_else(|| server.unpacked?.programs(server.programs))
    }

    /// Installs its programs, and reports long actions.
    fn install(&self, server: &Server, progress: fn(&str)) -> Result<()> {
        packages::install_for(server, progress)
    }

    /// Returns how to install it, for the message when it is missing.
    fn advice(&self, server: &Server) -> String {
        match server.unpacked {
            None => format!(
                "Get it with `apt-get install {}`",
                server.packages.join(" ")
            ),
            Some(_) => format!("Put a `{}` on `$PATH`", server.programs[0]),
        }
    }

    /// Creates data folder and configuration. Called once for each process.
    fn prepare(&self, _site: &Site<'_>) -> Result<()> {
        Ok(())
    }

    /// Returns the server command, which runs in the foreground and logs to its output. Called at
    /// every start.
    fn command(&self, site: &Site<'_>) -> Command;

    /// Returns the URL for clients.
    fn url(&self, port: u16) -> String;

    /// Returns the product that answers at `url`. Fails while it does not take connections. Prefers
    /// client programs from the folder `programs`.
    fn probe(&self, url: &str, programs: &Path) -> Result<Product>;

    /// Fails while a private server that answers does not count as started yet.
    fn is_ready(&self, _site: &Site<'_>) -> Result<()> {
        Ok(())
    }

    /// Creates the database. Called once when a private server answers for the first time.
    fn welcome(&self, _site: &Site<'_>) -> Result<()> {
        Ok(())
    }
}

impl Server {
    pub(crate) const fn new(name: &'static str, kind: &'static dyn Kind) -> Self {
        Self {
            name,
            product: name,
            packages: &[],
            unpacked: None,
            programs: &[],
            accounts: &["nobody"],
            upstream: None,
            cluster: ClusterKind::Single,
            nodes: 1,
            takes_settings: false,
            tls: Tls::No,
            needs_second_port: false,
            stop_signal: Signal::Term,
            image: None,
            kind,
        }
    }

    /// Returns the short name in commands and variables, such as `postgres`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the name of the product, as in the table at the end of a test run: `PostgreSQL`.
    pub fn product(&self) -> &'static str {
        self.product
    }

    /// Returns the server behind this one.
    pub fn upstream(&self) -> Option<&'static str> {
        self.upstream
    }

    /// Returns its container image, if there is an official one.
    pub fn image(&self) -> Option<Image> {
        self.image
    }

    /// Returns the folder of its programs on this machine.
    pub fn programs(&self) -> Option<PathBuf> {
        self.kind.programs(self)
    }

    /// Returns the URL for clients of a server at that port of this machine.
    pub fn url(&self, port: u16) -> String {
        self.kind.url(port)
    }

    /// Returns the product that answers at `url`, without its version if its client program is not
    /// on this machine.
    ///
    /// # Errors
    ///
    /// An error when the server does not take connections.
    pub fn probe(&self, url: &str) -> Result<Product> {
        let answer = self.kind.probe(url, &self.programs().unwrap_or_default());
        match answer {
            Err(error) if error.kind() == ErrorKind::Missing => {
                let port = self.image.map_or(0, |image| image.port);
                connect(url.split(',').next().unwrap_or(url), port)?;
                Ok(Product::new(self.product, None))
            }
            answer => answer,
        }
    }

    /// Returns the variable that names the folder of its programs.
    pub fn programs_variable(&self) -> String {
        variable(self.name, "BIN_DIR")
    }

    /// Returns the variable that names a server in the environment.
    pub fn url_variable(&self) -> String {
        variable(self.name, "URL")
    }
}

/// A product and its version, as the server reports them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Product {
    /// The name, such as `PostgreSQL`.
    pub name: String,
    /// The version, such as `15.18`. `None` if the server requires a login that the tests do not
    /// have, or if its client program is not on this machine.
    pub version: Option<String>,
}

impl Product {
    pub(crate) fn new(name: &str, version: Option<&str>) -> Self {
        Self {
            name: name.into(),
            version: version.map(Into::into),
        }
    }

    /// Creates a product with the version in a client's output: `10.11.14-MariaDB-0+deb12u2` is
    /// 10.11.14.
    pub fn returned(name: &str, printed: &str) -> Self {
        let mut words = printed.split([' ', '-', '\n']).map(str::trim);
        Self::new(name, words.find(|word| !word.is_empty()))
    }
}

impl fmt::Display for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.version {
            Some(version) => write!(f, "{} {version}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// An official container image and how to start it.
#[derive(Clone, Copy, Debug)]
pub struct Image {
    /// Name with a pinned tag; `IDEM_<NAME>_IMAGE` names another.
    pub default: &'static str,
    /// Port inside the container.
    pub port: u16,
    /// Environment of the container.
    pub environment: &'static [(&'static str, &'static str)],
    /// Arguments of the container.
    pub arguments: &'static [&'static str],
    /// A command of the image that succeeds and prints the version once the server takes external
    /// connections; empty for an image without programs.
    pub question: &'static [&'static str],
    /// The variable, with the value `Y`, by which the user accepts the licence; the container gets
    /// it, too.
    pub licence: Option<&'static str>,
}

impl Image {
    pub(crate) const fn new(default: &'static str, port: u16) -> Self {
        Self {
            default,
            port,
            environment: &[],
            arguments: &[],
            question: &[],
            licence: None,
        }
    }

    /// Returns the variable for the container that says that the licence is accepted, if there is
    /// one.
    ///
    /// # Errors
    ///
    /// An error when the licence is not accepted.
    pub fn licence(&self) -> Result<Option<(&'static str, &'static str)>> {
        const YES: &str = "Y";
        match self.licence {
            Some(variable) if std::env::var(variable).is_ok_and(|value| value == YES) => {
                Ok(Some((variable, YES)))
            }
            Some(variable) => Err(Error::missing(format!(
                "the licence of its image is not accepted ({variable}={YES} does so)"
            ))),
            None => Ok(None),
        }
    }
}

/// Returns the name of a database's variable: `IDEM_REDIS_CLUSTER_URL` for `redis-cluster` and
/// `URL`.
pub fn variable(name: &str, what: &str) -> String {
    format!("IDEM_{}_{what}", name.to_uppercase().replace('-', "_"))
}

#[cfg(test)]
mod tests {
    use super::Product;

    #[test]
    fn a_product_reads_as_name_and_version() {
        let returned = |printed| Product::returned("MariaDB", printed).to_string();
        assert_eq!(returned("10.11.14-MariaDB-0+deb12u2\n"), "MariaDB 10.11.14");
        assert_eq!(returned(" 15.18 (Debian)\n"), "MariaDB 15.18");
        assert_eq!(returned(""), "MariaDB");
    }
}
