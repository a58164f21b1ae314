use std::fmt::{self, Debug};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::tools::{connect, find};
use crate::unpacked::Unpacked;
use crate::{
    Error, ErrorKind, Result, Signal, Site, galera, mariadb, mongo, mssql, mysql, nats, packages,
    pgbouncer, postgres, redis, redis_cluster, sentinel, valkey,
};

/// One database: how it is found, installed, started, reached. Everything else (ports, folders,
/// waiting, crashing, stopping, containers) is common to all.
#[derive(Clone, Copy, Debug)]
pub struct Server {
    pub(crate) name: &'static str,
    pub(crate) product: &'static str,
    /// Packages of Debian and Ubuntu that bring its programs; none where no package does.
    pub(crate) packages: &'static [&'static str],
    /// Packages that can be unpacked without being installed.
    pub(crate) unpacked: Option<Unpacked>,
    /// The programs that have to be there. The first one is the server.
    pub(crate) programs: &'static [&'static str],
    /// The system accounts that it may run under where we are root; the first one that exists.
    pub(crate) accounts: &'static [&'static str],
    pub(crate) upstream: Option<&'static str>,
    pub(crate) cluster: ClusterKind,
    /// How many processes it takes.
    pub(crate) nodes: usize,
    pub(crate) takes_settings: bool,
    pub(crate) tls: Tls,
    /// Whether each process listens on a second port in any case.
    pub(crate) needs_second_port: bool,
    /// The signal that ends it at once, without waiting for its clients.
    pub(crate) stop_signal: Signal,
    pub(crate) image: Option<Image>,
    pub(crate) kind: &'static dyn Kind,
}

/// Whether a server can speak TLS, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tls {
    No,
    SamePort,
    /// At the URL of this scheme.
    SecondPort(&'static str),
}

/// How the processes of one server belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClusterKind {
    /// One process.
    Single,
    /// Every node has all data; the majority goes on.
    Galera,
    /// Each master has a part of the keys, and a replica that takes over from it.
    Redis,
}

/// What each database does in its own way.
pub(crate) trait Kind: Debug + Sync {
    /// The folder of its programs on this machine; the newest where there are several.
    fn programs(&self, server: &Server) -> Option<PathBuf> {
        find(server.programs).or_else(|| server.unpacked?.programs(server.programs))
    }

    /// Gets its programs, and reports what takes long.
    fn install(&self, server: &Server, progress: fn(&str)) -> Result<()> {
        packages::install_for(server, progress)
    }

    /// How a person gets it, for the message when it is missing.
    fn advice(&self, server: &Server) -> String {
        match server.unpacked {
            None => format!(
                "Get it with `apt-get install {}`",
                server.packages.join(" ")
            ),
            Some(_) => format!("Put a `{}` on `$PATH`", server.programs[0]),
        }
    }

    /// Makes data folder and configuration. Called once for each process.
    fn prepare(&self, _site: &Site<'_>) -> Result<()> {
        Ok(())
    }

    /// The server in the foreground, with its log on its output. Called at every start.
    fn command(&self, site: &Site<'_>) -> Command;

    /// The URL for clients.
    fn url(&self, port: u16) -> String;

    /// Returns the software that answers at `url`. Fails while it does not take connections.
    /// Client programs are preferred from the folder `programs`.
    fn probe(&self, url: &str, programs: &Path) -> Result<Product>;

    /// Fails while a server of our own that answers does not count as started yet.
    fn is_ready(&self, _site: &Site<'_>) -> Result<()> {
        Ok(())
    }

    /// Called once when a server of our own answers for the first time: creates the database.
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

    /// Short name in commands and variables: `postgres`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Name of the software, as in the table at the end of a test run: `PostgreSQL`.
    pub fn product(&self) -> &'static str {
        self.product
    }

    /// The server that this one stands in front of.
    pub fn upstream(&self) -> Option<&'static str> {
        self.upstream
    }

    /// Its container image, where there is an official one.
    pub fn image(&self) -> Option<Image> {
        self.image
    }

    /// The folder of its programs on this machine.
    pub fn programs(&self) -> Option<PathBuf> {
        self.kind.programs(self)
    }

    /// The URL for clients of a server at that port of this machine.
    pub fn url(&self, port: u16) -> String {
        self.kind.url(port)
    }

    /// Returns the software that answers at `url`, without its version where its client program is
    /// not on this machine.
    ///
    /// # Errors
    ///
    /// The server does not take connections.
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

    /// The variable that names the folder of its programs.
    pub fn programs_variable(&self) -> String {
        variable(self.name, "BIN_DIR")
    }

    /// The variable that names a server in the environment.
    pub fn url_variable(&self) -> String {
        variable(self.name, "URL")
    }
}

/// A software and its version, as the server reports them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Product {
    /// For example `PostgreSQL`.
    pub name: String,
    /// For example `15.18`. Absent where the server requires a log-in that we do not have, or
    /// where its client program is not on this machine.
    pub version: Option<String>,
}

impl Product {
    pub(crate) fn new(name: &str, version: Option<&str>) -> Self {
        Self {
            name: name.into(),
            version: version.map(Into::into),
        }
    }

    /// A product whose version is in the output of a client: `10.11.14-MariaDB-0+deb12u2` is
    /// 10.11.14.
    pub fn told(name: &str, printed: &str) -> Self {
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
    /// A command of the image that succeeds and prints the version once the server takes
    /// connections from outside; none of an image without programs.
    pub question: &'static [&'static str],
    /// Variable by which the user accepts the licence, with the value `Y`; it is handed on.
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

    /// The variable that hands on that the licence is accepted, where there is one to accept.
    ///
    /// # Errors
    ///
    /// It is not accepted.
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

/// The databases: one file and one line each. One that stands in front of another comes after it.
static SERVERS: &[&Server] = &[
    &postgres::SERVER,
    &pgbouncer::SERVER,
    &mariadb::SERVER,
    &mysql::SERVER,
    &galera::SERVER,
    &mssql::SERVER,
    &redis::SERVER,
    &valkey::SERVER,
    &redis_cluster::SERVER,
    &mongo::SERVER,
    &nats::SERVER,
];

/// Every database known here.
pub fn servers() -> &'static [&'static Server] {
    SERVERS
}

/// The database of that name, or another server that tests start by
/// [`start_private`](crate::start_private).
///
/// # Errors
///
/// There is none.
pub fn server(name: &str) -> Result<&'static Server> {
    let mut known = SERVERS.iter().copied().chain([&sentinel::SERVER]);
    known.find(|server| server.name == name).ok_or_else(|| {
        let known: Vec<_> = SERVERS.iter().map(|server| server.name).collect();
        Error::setting(format!(
            "no server is called `{name}`; there are: {}",
            known.join(", ")
        ))
    })
}

/// The name of a database's variable: `IDEM_REDIS_CLUSTER_URL` for `redis-cluster` and `URL`.
pub fn variable(name: &str, what: &str) -> String {
    format!("IDEM_{}_{what}", name.to_uppercase().replace('-', "_"))
}

#[cfg(test)]
mod tests {
    use super::{Product, server, servers};

    #[test]
    fn variables_are_made_of_the_name() {
        let cluster = server("redis-cluster").unwrap();
        assert_eq!(cluster.url_variable(), "IDEM_REDIS_CLUSTER_URL");
        assert_eq!(cluster.programs_variable(), "IDEM_REDIS_CLUSTER_BIN_DIR");
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let error = server("oracle").unwrap_err().to_string();
        assert!(
            error.contains("`oracle`") && error.contains("postgres, pgbouncer"),
            "{error}"
        );
    }

    #[test]
    fn what_stands_in_front_of_a_server_comes_after_it() {
        for (index, known) in servers().iter().enumerate() {
            let earlier: Vec<_> = servers()[..index].iter().map(|other| other.name).collect();
            assert!(
                known
                    .upstream
                    .is_none_or(|upstream| earlier.contains(&upstream))
            );
        }
    }

    #[test]
    fn only_servers_that_run_here_or_answer_are_products() {
        for server in servers() {
            assert!(server.probe(&server.url(1)).is_err(), "{}", server.name);
        }
    }

    #[test]
    fn a_product_reads_as_name_and_version() {
        let told = |printed| Product::told("MariaDB", printed).to_string();
        assert_eq!(told("10.11.14-MariaDB-0+deb12u2\n"), "MariaDB 10.11.14");
        assert_eq!(told(" 15.18 (Debian)\n"), "MariaDB 15.18");
        assert_eq!(told(""), "MariaDB");
    }
}
