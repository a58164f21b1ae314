use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::node::Node;
use crate::tools::{connect, environment, find, holds, tool};
use crate::unpacked::{self, Unpacked};
use crate::{Error, ErrorKind, Result, packages};

/// One database: how to find, install, start and reach it. Everything else (ports, folders,
/// waiting, killing, stopping, containers) is common to all.
///
/// Its files and command lines are templates: `Node::fill` lists their variables. A command line
/// is split at its spaces before they are filled in, and its word `''` is empty.
#[derive(Clone, Copy, Debug)]
pub struct Server {
    pub(crate) name: &'static str,
    pub(crate) product: &'static str,
    /// Packages of Debian and Ubuntu that contain its programs; empty if there are none.
    pub(crate) packages: &'static [&'static str],
    /// Packages that can be unpacked without being installed.
    pub(crate) unpacked: Option<Unpacked>,
    /// Where unpacked or built programs are, in the [`cache`](unpacked::cache).
    pub(crate) cached: Option<&'static str>,
    /// The required programs. The first one is the server.
    pub(crate) programs: &'static [&'static str],
    /// Where its programs are besides `$PATH`; the last `*` stands for a version.
    pub(crate) folder: Option<&'static str>,
    /// Another server that speaks its protocol, for machines without it.
    pub(crate) stand_in: Option<&'static Server>,
    pub(crate) upstream: Option<&'static str>,
    /// The number of its processes.
    pub(crate) nodes: usize,
    /// The number of ports that each process listens on, without one for TLS.
    pub(crate) ports: usize,
    /// The URL for clients.
    pub(crate) url: &'static str,
    /// The files to write before its first start, by name.
    pub(crate) files: &'static [(&'static str, &'static str)],
    /// The commands that create its data, in the folder `data`.
    pub(crate) setup: &'static [&'static str],
    /// The arguments of a server on this machine. It runs in the foreground and logs to its output.
    pub(crate) arguments: &'static str,
    /// More arguments.
    pub(crate) options: &'static str,
    /// More arguments for [`Durability::Fast`](crate::Durability).
    pub(crate) fast: &'static str,
    /// More arguments for [`Durability::Durable`](crate::Durability).
    pub(crate) durable: &'static str,
    pub(crate) tls: Option<Tls>,
    pub(crate) setting: Setting,
    /// The signal that ends it at once, without waiting for its clients.
    pub(crate) stop_signal: Signal,
    pub(crate) image: Option<Image>,
    /// Returns whether the programs in that folder are this server's.
    pub(crate) accepts: fn(&Path) -> bool,
    /// Installs its programs, and reports long actions.
    pub(crate) install: fn(&Self, Progress) -> Result<()>,
    /// Returns the product that answers at the URL of a node. Fails while it does not take
    /// connections. Prefers client programs from that folder.
    pub(crate) probe: fn(&Self, &str, &Path) -> Result<Product>,
    /// Fails while a private server that answers does not count as started yet.
    pub(crate) is_ready: fn(&Node) -> Result<()>,
    /// Starts the nodes for the first time and forms a cluster of them.
    pub(crate) begin: fn(&mut [Node]) -> Result<()>,
    /// Fails while a stopped node cannot start again beside the other running ones.
    pub(crate) may_return: fn(&Node, &[&Node]) -> Result<()>,
    /// Forms the cluster again of nodes that have all ended.
    pub(crate) recover: fn(&mut [Node]) -> Result<()>,
    /// Fails, with the reason, if a running node takes no requests or does not see exactly this
    /// number of nodes.
    pub(crate) check: fn(&[&Node], usize) -> Result<()>,
}

/// Receives messages about long actions.
pub(crate) type Progress = fn(&str);

/// How a server speaks TLS.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tls {
    pub(crate) arguments: &'static str,
    /// The scheme of its URL, if it is on one more port.
    pub(crate) scheme: Option<&'static str>,
}

/// How a server takes the setting `{name}` with `{value}`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Setting {
    /// Not at all.
    Refused,
    /// As these arguments.
    Arguments(&'static str),
    /// As this line at the end of its first file.
    Line(&'static str),
}

/// Starts all nodes for the first time, and waits until each is ready.
pub(crate) fn launch(nodes: &mut [Node]) -> Result<()> {
    nodes.iter_mut().try_for_each(Node::launch)?;
    nodes.iter_mut().try_for_each(Node::wait_ready)
}

/// Returns the words of a command line.
pub(crate) fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split_whitespace()
        .map(|word| if word == "''" { "" } else { word })
}

impl Server {
    pub(crate) const fn new(
        name: &'static str,
        probe: fn(&Self, &str, &Path) -> Result<Product>,
    ) -> Self {
        Self {
            name,
            product: name,
            packages: &[],
            unpacked: None,
            cached: None,
            programs: &[],
            folder: None,
            stand_in: None,
            upstream: None,
            nodes: 1,
            ports: 1,
            url: "",
            files: &[],
            setup: &[],
            arguments: "",
            options: "",
            fast: "",
            durable: "",
            tls: None,
            setting: Setting::Refused,
            stop_signal: Signal::TERM,
            image: None,
            accepts: |_| true,
            install: packages::install_for,
            probe,
            is_ready: |_| Ok(()),
            begin: launch,
            may_return: |_, _| Ok(()),
            recover: |_| Err(Error::failed("its nodes cannot all end and go on")),
            check: |_, _| Ok(()),
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

    /// Returns the folder of its programs on this machine, or of its stand-in's: the one that
    /// `IDEM_…_BIN_DIR` names, if it is set.
    pub fn programs(&self) -> Option<PathBuf> {
        environment(&self.programs_variable())
            .map(PathBuf::from)
            .or_else(|| find(self.programs, self.folder, self.accepts))
            .or_else(|| {
                let folder = unpacked::cache()?.join(self.cached?);
                holds(&folder, self.programs).then_some(folder)
            })
            .or_else(|| self.stand_in?.programs())
    }

    /// Returns a command that runs the first of these programs that came with the server, with the
    /// libraries of an unpacked one, or that is on `$PATH`.
    pub fn tool(&self, names: &[&str]) -> Command {
        tool(&self.programs().unwrap_or_default(), names)
    }

    /// Returns the server whose programs are in that folder: this one or its stand-in.
    pub(crate) fn in_folder(&'static self, folder: &Path) -> &'static Self {
        let other = self.stand_in.filter(|_| !holds(folder, self.programs));
        other.unwrap_or(self)
    }

    /// Installs or unpacks its programs if this machine lacks them, and reports long actions.
    ///
    /// # Errors
    ///
    /// An error when they cannot be had.
    pub fn provide(&self, progress: fn(&str)) -> Result<()> {
        match self.programs() {
            Some(_) => Ok(()),
            None => (self.install)(self, progress),
        }
    }

    /// Returns how to install it, for the message when it is missing.
    pub(crate) fn advice(&self) -> String {
        match (self.packages, self.programs) {
            ([], []) => {
                let variable = self.image.and_then(|image| image.licence);
                let variable = variable.unwrap_or_default();
                format!("Run a container engine and accept its image's licence with `{variable}=Y`")
            }
            ([], programs) => format!("Put a `{}` on `$PATH`", programs[0]),
            (packages, _) => format!("Get it with `apt-get install {}`", packages.join(" ")),
        }
    }

    /// Returns the URL for clients of a server at that port of this machine.
    pub fn url(&self, port: u16) -> String {
        self.url.replace("{port}", &port.to_string())
    }

    /// Returns the product that answers at `url`, without its version if its client program is not
    /// on this machine. Of a cluster each node that `url` names has to answer.
    ///
    /// # Errors
    ///
    /// An error when the server does not take connections.
    pub fn probe(&self, url: &str) -> Result<Product> {
        if let Some((first, others)) = url.split_once(',').filter(|_| self.nodes > 1) {
            self.probe(others)?;
            return self.probe(first);
        }
        match (self.probe)(self, url, &self.programs().unwrap_or_default()) {
            Err(error) if error.kind() == ErrorKind::Missing => {
                connect(url, self.image.map_or(0, |image| image.port))?;
                Ok(Product::new(self.product, None))
            }
            answer => answer,
        }
    }

    /// Returns the number of the signal for a server whose data is discarded: then no node has to
    /// wait until the others know that it leaves.
    pub(crate) fn end_signal(&self) -> i32 {
        let is_single = self.nodes == 1;
        let signal = if is_single {
            self.stop_signal
        } else {
            Signal::KILL
        };
        signal.as_raw()
    }

    pub(crate) fn programs_variable(&self) -> String {
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
    pub(crate) fn returned(name: &str, printed: &str) -> Self {
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

/// The official container image, which `idem-containers` starts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Image {
    /// Port inside the container, and the default one of its clients.
    pub(crate) port: u16,
    /// The variable, with the value `Y`, by which the user accepts the licence.
    pub(crate) licence: Option<&'static str>,
}

impl Image {
    pub(crate) const fn new(port: u16) -> Self {
        Self {
            port,
            licence: None,
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
