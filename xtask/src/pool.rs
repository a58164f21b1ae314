//! The servers of one command: each one found, or the reason why not.

use idem_servers::{ErrorKind, Finder, Instance, Options, Record, Server, servers};

use crate::Result;

/// Servers that run, and the reasons why others do not.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    /// In the order in which they were started; a server in front of another comes after it.
    pub(crate) running: Vec<Instance>,
    pub(crate) missing: Vec<(&'static str, String)>,
}

impl Pool {
    /// Starts, or finds, each server of these names, or all if none is named. It starts none of
    /// `known` again: others may stand in front of them, and this command does not end them.
    ///
    /// # Errors
    ///
    /// An error when a server exists and does not work, or a name is wrong. The pool records a
    /// missing server.
    pub(crate) fn start(
        names: &[String],
        finder: &Finder,
        options: &Options,
        known: &[Record],
    ) -> Result<Self> {
        let mut pool = Self::default();
        for server in wanted(names)? {
            let name = server.name();
            if known.iter().any(|record| record.name == name) {
                continue;
            }
            let mut options = options.clone();
            if let Some(upstream) = server.upstream() {
                let Some(url) = pool.url(upstream, known) else {
                    pool.note_missing(name, format!("{upstream} is missing"));
                    continue;
                };
                options = options.with_upstream(url);
            }
            let finder = finder.clone().with_options(options);
            let finder = finder.with_progress(|what| println!("    {what}"));
            match finder.find(name) {
                Ok(instance) => {
                    let (product, url) = (instance.product(), instance.url());
                    println!("    {name}: {product} at {url}");
                    pool.running.push(instance);
                }
                Err(error) if error.kind() == ErrorKind::Missing => {
                    pool.note_missing(name, error.to_string());
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(pool)
    }

    pub(crate) fn note_missing(&mut self, name: &'static str, reason: String) {
        println!("    {name}: {reason}");
        self.missing.push((name, reason));
    }

    fn url(&self, name: &str, known: &[Record]) -> Option<String> {
        let mut started = self.running.iter();
        let started = started.find(|instance| instance.name() == name);
        let known = known.iter().find(|record| record.name == name);
        let known = known.map(|record| record.url.clone());
        started.map(|started| started.url().to_owned()).or(known)
    }

    /// Returns the variables by which tests find the servers, or the reasons why there is none.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let found = self.running.iter();
        let found = found.map(|instance| (instance.url_variable(), instance.url().to_owned()));
        let missing = self.missing.iter();
        let missing =
            missing.map(|(name, reason)| (idem_servers::variable(name, "MISSING"), reason.clone()));
        found.chain(missing).collect()
    }

    /// Returns the names of the running servers.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.running.iter().map(Instance::name).collect()
    }
}

/// Returns the servers of these names, and those behind them, in the order in which they start.
fn wanted(names: &[String]) -> Result<Vec<&'static Server>> {
    for name in names {
        let server = idem_servers::server(name)?;
        if !servers().iter().any(|other| other.name() == server.name()) {
            return Err(format!("{name} is started by tests only, each its own").into());
        }
    }
    let all = servers().iter().copied();
    let is_named = |server: &Server| names.iter().any(|name| name == server.name());
    let is_upstream = |server: &Server| {
        let mut named = all.clone().filter(|other| is_named(other));
        named.any(|other| other.upstream() == Some(server.name()))
    };
    let is_wanted =
        |server: &&'static Server| names.is_empty() || is_named(server) || is_upstream(server);
    Ok(all.clone().filter(is_wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_stands_in_front_of_is_started_too() {
        let names = |wanted: Vec<&'static Server>| -> Vec<_> {
            wanted.iter().map(|server| server.name()).collect()
        };
        assert_eq!(
            names(wanted(&["pgbouncer".into()]).unwrap()),
            ["postgres", "pgbouncer"]
        );
        assert_eq!(names(wanted(&["postgres".into()]).unwrap()), ["postgres"]);
        // Each once, though several backends need it.
        let twice = ["redis", "postgres", "redis"].map(String::from);
        assert_eq!(names(wanted(&twice).unwrap()), ["postgres", "redis"]);
        assert_eq!(names(wanted(&[]).unwrap()).len(), servers().len());
        assert_eq!(
            names(wanted(&["redis-cluster".into()]).unwrap()),
            ["redis-cluster"]
        );
        assert!(wanted(&["oracle".into()]).is_err());
        assert!(wanted(&["redis-sentinel".into()]).is_err());
    }
}
