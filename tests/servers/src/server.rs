use std::fmt::Debug;
use std::path::PathBuf;
use std::process::Command;

use crate::{
    ClusterKind, Error, Galera, MariaDb, MongoDb, MySql, Nats, Options, PgBouncer, Postgres,
    Product, Redis, RedisCluster, RedisSentinel, Result, Signal, Site, SqlServer, Valkey, packages,
};

/// What has to be known about one database to run it. Everything else (ports, folders, waiting, crashing,
/// stopping, containers, packages) is common.
pub trait Server: Debug + Sync {
    /// Short name in commands and variables: `postgres`.
    fn name(&self) -> &'static str;

    /// Name of the software, as in the table at the end of a test run: `PostgreSQL`.
    fn product(&self) -> &'static str;

    /// Packages of Debian and Ubuntu that bring its programs; none where no package does.
    fn packages(&self) -> &'static [&'static str];

    /// Gets its programs from packages, telling what takes long: installs [`packages`](Self::packages), unless it
    /// has a way of its own.
    fn install(&self, progress: fn(&str)) -> Result<()> {
        let packages = self.packages();
        if packages.is_empty() {
            return Err(Error::missing(format!(
                "no package brings {}",
                self.product()
            )));
        }
        progress(&format!("installing packages: {}", packages.join(" ")));
        packages::install(packages)
    }

    /// How a person gets it, for the message when it is missing.
    fn advice(&self) -> String {
        format!(
            "Get it with `apt-get install {}`",
            self.packages().join(" ")
        )
    }

    /// System account that it runs under where we are root.
    fn account(&self) -> &'static str;

    /// Folder of its programs on this machine; the newest where there are several.
    fn programs(&self) -> Option<PathBuf>;

    /// The variable that names the folder of its programs.
    fn programs_variable(&self) -> String {
        variable(self.name(), "BIN_DIR")
    }

    /// The variable that names a server in the environment.
    fn url_variable(&self) -> String {
        variable(self.name(), "URL")
    }

    /// The server that this one stands in front of.
    fn upstream(&self) -> Option<&'static str> {
        None
    }

    /// Its container image, where there is an official one.
    fn image(&self) -> Option<Image> {
        None
    }

    /// Whether it takes [`Options::with_setting`]; one that does not refuses them.
    fn takes_settings(&self) -> bool {
        false
    }

    /// Whether it listens on a second port of its own: [`Site::second_port`].
    fn needs_second_port(&self, _options: &Options) -> bool {
        false
    }

    /// Makes data folder and configuration; called once a private server.
    fn prepare(&self, site: &Site<'_>) -> Result<()>;

    /// The server in the foreground, logging to its output; called at every start.
    fn command(&self, site: &Site<'_>) -> Command;

    /// What a client connects to.
    fn url(&self, port: u16) -> String;

    /// What a TLS client connects to, where that is not the port of [`url`](Self::url).
    fn tls_url(&self, _site: &Site<'_>) -> Option<String> {
        None
    }

    /// Asks the server at `url` who it is. Fails while it does not take connections.
    fn probe(&self, url: &str) -> Result<Product>;

    /// What a server of our own still has to reach, once it answers, to count as started.
    fn is_ready(&self, _site: &Site<'_>) -> Result<()> {
        Ok(())
    }

    /// Of several processes that belong together: which kind of [`Cluster`](crate::Cluster).
    fn cluster(&self) -> Option<ClusterKind> {
        None
    }

    /// How many processes it takes.
    fn nodes(&self) -> usize {
        1
    }

    /// Called once when a private server or a container answers for the first time: creates the database.
    fn welcome(&self, _url: &str) -> Result<()> {
        Ok(())
    }

    /// The signal that ends it at once, without waiting for its clients.
    fn stop_signal(&self) -> Signal {
        Signal::Term
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
    /// Variable by which whoever runs this accepts the licence, with the value `Y`; it is handed on.
    pub licence: Option<&'static str>,
}

impl Image {
    /// The variable that hands on that the licence is accepted, where there is one to accept.
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

/// The databases known here: one file and one line each. One that stands in front of another comes after it.
static SERVERS: &[&dyn Server] = &[
    &Postgres,
    &PgBouncer,
    &MariaDb,
    &MySql,
    &Galera,
    &SqlServer,
    &Redis,
    &Valkey,
    &RedisCluster,
    &MongoDb,
    &Nats,
];

/// What only tests start, each for itself.
static PRIVATE: &[&dyn Server] = &[&RedisSentinel];

/// Every database known here.
pub fn servers() -> &'static [&'static dyn Server] {
    SERVERS
}

/// The database of that name, or what beside the databases can be started under it by
/// [`start_private`](crate::start_private).
pub fn server(name: &str) -> Result<&'static dyn Server> {
    SERVERS
        .iter()
        .chain(PRIVATE)
        .copied()
        .find(|server| server.name() == name)
        .ok_or_else(|| {
            let known: Vec<_> = SERVERS.iter().map(|server| server.name()).collect();
            Error::setting(format!(
                "no server is called `{name}`; there are: {}",
                known.join(", ")
            ))
        })
}

/// The variable of the database of that name that tells `what`: `IDEM_REDIS_CLUSTER_URL` for `redis-cluster`, `URL`.
pub fn variable(name: &str, what: &str) -> String {
    format!("IDEM_{}_{what}", name.to_uppercase().replace('-', "_"))
}

/// The first folder of `$PATH` that holds all of these programs.
pub(crate) fn on_path(programs: &[&str]) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).find(|folder| holds(folder, programs))
}

/// An administrator's folder that holds all of these programs: it is often not in a person's `$PATH`.
pub(crate) fn in_sbin(programs: &[&str]) -> Option<PathBuf> {
    ["/usr/sbin", "/usr/local/sbin"]
        .map(PathBuf::from)
        .into_iter()
        .find(|folder| holds(folder, programs))
}

/// Whether a folder holds all of these programs.
pub(crate) fn holds(folder: &std::path::Path, programs: &[&str]) -> bool {
    folder.is_absolute()
        && programs
            .iter()
            .all(|program| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::{server, servers};

    #[test]
    fn variables_are_made_of_the_name() {
        let postgres = server("postgres").unwrap();
        assert_eq!(postgres.url_variable(), "IDEM_POSTGRES_URL");
        assert_eq!(postgres.programs_variable(), "IDEM_POSTGRES_BIN_DIR");
    }

    #[test]
    fn a_variable_has_underscores_where_the_name_has_dashes() {
        assert_eq!(
            super::variable("redis-cluster", "MISSING"),
            "IDEM_REDIS_CLUSTER_MISSING"
        );
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
        for (place, known) in servers().iter().enumerate() {
            let Some(upstream) = known.upstream() else {
                continue;
            };
            assert!(
                servers()[..place]
                    .iter()
                    .any(|earlier| earlier.name() == upstream)
            );
        }
    }
}
