//! The servers of one command: each found, or why it is not.

use idem_servers::{ErrorKind, Finder, Instance, Options, Server, servers};

use crate::Result;

/// Servers that run, and the reasons why others do not.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    /// In the order in which they were started; what stands in front of another comes after it.
    running: Vec<Instance>,
    missing: Vec<(&'static str, String)>,
}

impl Pool {
    /// Starts, or finds, each server of these names; all that are known if there are none.
    ///
    /// # Errors
    ///
    /// A server that is there and does not work, or a wrong setting. One that is missing is noted.
    pub(crate) fn start(names: &[String], options: &Options) -> Result<Self> {
        let mut pool = Self::default();
        for server in wanted(names)? {
            pool.add(server, options.clone())?;
        }
        Ok(pool)
    }

    fn add(&mut self, server: &'static dyn Server, options: Options) -> Result {
        let options = match server.upstream().map(|name| self.running(name)) {
            None => options,
            Some(Some(upstream)) => options.with_upstream(upstream.url()),
            Some(None) => {
                let reason = format!("{} is missing", server.upstream().unwrap_or_default());
                return Ok(self.note_missing(server.name(), reason));
            }
        };
        let finder = Finder::from_env()?
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

    fn running(&self, name: &str) -> Option<&Instance> {
        self.running.iter().find(|instance| instance.name() == name)
    }

    /// The variables by which tests find the servers, or learn why there is none.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let found = self.running.iter();
        let found = found.map(|instance| (instance.url_variable(), instance.url().to_owned()));
        let missing = self.missing.iter();
        let missing = missing.map(|(name, reason)| {
            (
                format!("IDEM_{}_MISSING", name.to_uppercase()),
                reason.clone(),
            )
        });
        found.chain(missing).collect()
    }

    /// The servers themselves.
    pub(crate) fn into_instances(self) -> Vec<Instance> {
        self.running
    }
}

/// The servers of these names, and those that they stand in front of, in the order in which they start.
fn wanted(names: &[String]) -> Result<Vec<&'static dyn Server>> {
    for name in names {
        idem_servers::server(name)?;
    }
    let named = |server: &dyn Server| names.iter().any(|name| name == server.name());
    let upstream_of_named = |server: &dyn Server| {
        let others = servers().iter().filter(|other| named(**other));
        others
            .clone()
            .any(|other| other.upstream() == Some(server.name()))
    };
    Ok(servers()
        .iter()
        .copied()
        .filter(|server| names.is_empty() || named(*server) || upstream_of_named(*server))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_stands_in_front_of_is_started_too() {
        let names = |wanted: Vec<&'static dyn Server>| -> Vec<_> {
            wanted.iter().map(|server| server.name()).collect()
        };
        assert_eq!(
            names(wanted(&["pgbouncer".into()]).unwrap()),
            ["postgres", "pgbouncer"]
        );
        assert_eq!(names(wanted(&["postgres".into()]).unwrap()), ["postgres"]);
        assert_eq!(names(wanted(&[]).unwrap()).len(), servers().len());
        assert!(wanted(&["oracle".into()]).is_err());
    }
}
