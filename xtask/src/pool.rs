//! The servers of one command: each one found, or the reason why not.

use idem_servers::{ErrorKind, Finder, Instance, Options, Record, Server, servers};

use crate::Result;

/// Servers that run, and the reasons why others do not.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    /// Servers that ran before, by name and URL: this command does not end them.
    known: Vec<(String, String)>,
    finder: Option<Finder>,
    /// In the order in which they were started; a server in front of another comes after it.
    running: Vec<Instance>,
    missing: Vec<(&'static str, String)>,
}

impl Pool {
    /// Creates a pool beside running servers: it starts none of them again, and others may stand in
    /// front of them.
    pub(crate) fn beside(records: &[Record]) -> Self {
        let known = records
            .iter()
            .map(|record| (record.name.clone(), record.url.clone()));
        Self {
            known: known.collect(),
            ..Self::default()
        }
    }

    /// Sets the source of servers. Default: [`Finder::from_env`].
    pub(crate) fn with_finder(mut self, finder: Finder) -> Self {
        self.finder = Some(finder);
        self
    }

    /// Starts, or finds, each server of these names, or all if none is named.
    ///
    /// # Errors
    ///
    /// An error when a server exists and does not work, or a setting is wrong. The pool records a
    /// missing server.
    pub(crate) fn start(mut self, names: &[String], options: &Options) -> Result<Self> {
        for server in wanted(names)? {
            if !self.known.iter().any(|(name, _)| name == server.name()) {
                self.add(server, options.clone())?;
            }
        }
        Ok(self)
    }

    fn add(&mut self, server: &'static Server, options: Options) -> Result {
        let options = match server.upstream().map(|name| (name, self.url(name))) {
            None => options,
            Some((_, Some(url))) => options.with_upstream(url),
            Some((name, None)) => {
                self.note_missing(server.name(), format!("{name} is missing"));
                return Ok(());
            }
        };
        let finder = match &self.finder {
            Some(finder) => finder.clone(),
            None => Finder::from_env()?,
        };
        let finder = finder
            .with_options(options)
            .with_progress(|what| println!("    {what}"));
        match finder.find(server.name()) {
            Ok(instance) => {
                println!(
                    "    {}: {} at {}",
                    server.name(),
                    instance.product(),
                    instance.url()
                );
                self.running.push(instance);
            }
            Err(error) if error.kind() == ErrorKind::Missing => {
                self.note_missing(server.name(), error.to_string());
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn note_missing(&mut self, name: &'static str, reason: String) {
        println!("    {name}: {reason}");
        self.missing.push((name, reason));
    }

    fn url(&self, name: &str) -> Option<String> {
        let started = self.running.iter();
        let started = started.map(|instance| (instance.name(), instance.url()));
        let known = self.known.iter();
        let known = known.map(|(name, url)| (name.as_str(), url.as_str()));
        let mut all = started.chain(known);
        all.find_map(|(other, url)| (other == name).then(|| url.to_owned()))
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

    /// Returns the missing servers, and why.
    pub(crate) fn missing(&self) -> &[(&'static str, String)] {
        &self.missing
    }

    /// Returns the running servers.
    pub(crate) fn instances(&self) -> &[Instance] {
        &self.running
    }

    /// Returns the servers themselves.
    pub(crate) fn into_instances(self) -> Vec<Instance> {
        self.running
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
    let named = |server: &Server| names.iter().any(|name| name == server.name());
    let upstream_of_named = |server: &Server| {
        let others = servers().iter().filter(|other| named(other));
        others
            .clone()
            .any(|other| other.upstream() == Some(server.name()))
    };
    Ok(servers()
        .iter()
        .copied()
        .filter(|server| names.is_empty() || named(server) || upstream_of_named(server))
        .collect())
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
        assert_eq!(names(wanted(&[]).unwrap()).len(), servers().len());
        assert_eq!(
            names(wanted(&["redis-cluster".into()]).unwrap()),
            ["redis-cluster"]
        );
        assert!(wanted(&["oracle".into()]).is_err());
        assert!(wanted(&["redis-sentinel".into()]).is_err());
    }
}
