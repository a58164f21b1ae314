use std::fmt::Debug;
use std::path::PathBuf;
use std::process::Command;

use crate::{Error, PgBouncer, Postgres, Product, Result, Signal, Site};

/// What has to be known about one database to run it. Everything else (ports, folders, waiting, crashing,
/// stopping, containers, packages) is common.
pub trait Server: Debug + Sync {
    /// Short name in commands and variables: `postgres`.
    fn name(&self) -> &'static str;

    /// Name of the software, as in the table at the end of a test run: `PostgreSQL`.
    fn product(&self) -> &'static str;

    /// Packages of Debian and Ubuntu that bring its programs.
    fn packages(&self) -> &'static [&'static str];

    /// System account that it runs under where we are root.
    fn account(&self) -> &'static str;

    /// Folder of its programs on this machine; the newest where there are several.
    fn programs(&self) -> Option<PathBuf>;

    /// The variable that names the folder of its programs.
    fn programs_variable(&self) -> String {
        format!("IDEM_{}_BIN_DIR", self.name().to_uppercase())
    }

    /// The variable that names a server in the environment.
    fn url_variable(&self) -> String {
        format!("IDEM_{}_URL", self.name().to_uppercase())
    }

    /// The server that this one stands in front of.
    fn upstream(&self) -> Option<&'static str> {
        None
    }

    /// Its container image, where there is an official one.
    fn image(&self) -> Option<Image> {
        None
    }

    /// Makes data folder and configuration; called once a private server.
    fn prepare(&self, site: &Site<'_>) -> Result<()>;

    /// The server in the foreground, logging to its output; called at every start.
    fn command(&self, site: &Site<'_>) -> Command;

    /// What a client connects to.
    fn url(&self, port: u16) -> String;

    /// Asks the server at `url` who it is. Fails while it does not take connections.
    fn probe(&self, url: &str) -> Result<Product>;

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
}

/// The databases known here: one file and one line each. One that stands in front of another comes after it.
static SERVERS: &[&dyn Server] = &[&Postgres, &PgBouncer];

/// Every database known here.
pub fn servers() -> &'static [&'static dyn Server] {
    SERVERS
}

/// The database of that name.
pub fn server(name: &str) -> Result<&'static dyn Server> {
    SERVERS
        .iter()
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

/// The first folder of `$PATH` that holds all of these programs.
pub(crate) fn on_path(programs: &[&str]) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).find(|folder| holds(folder, programs))
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
