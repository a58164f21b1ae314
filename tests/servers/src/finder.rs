use std::error::Error as _;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::container;
use crate::error::Doing;
use crate::node::Runner;
use crate::server::Setting;
use crate::tools::environment;
use crate::{Cluster, Error, ErrorKind, Instance, Options, Result, Server, Transport, server};

/// The sources of a server, in the order of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// A URL in the environment: an existing server, which is never stopped here.
    Env,
    /// Programs that were already on this machine.
    Local,
    /// Programs installed on demand from the distribution's packages.
    Packages,
    /// A private container.
    Container,
}

impl Source {
    const VARIABLE: &'static str = "IDEM_SERVER_SOURCE";

    /// Every source, in the order of the search.
    const ORDER: [Self; 4] = [Self::Env, Self::Local, Self::Packages, Self::Container];

    fn named(text: &str) -> Result<Self> {
        let mut known = Self::ORDER.into_iter();
        let found = known.find(|source| source.to_string() == text);
        found.ok_or_else(|| {
            let known = Self::ORDER.map(|source| source.to_string()).join(", ");
            Error::failed(format!("{}={text}: it is one of {known}", Self::VARIABLE))
        })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}").to_lowercase())
    }
}

/// Starts a private server, from programs on this machine or from packages: for tests that kill it,
/// or that need special options.
///
/// # Errors
///
/// An error when there is none, or it does not start.
pub fn start_private(name: &str, options: &Options) -> Result<Instance> {
    Finder::new()
        .with_sources(&[Source::Local, Source::Packages])
        .with_options(options.clone())
        .find(name)
}

/// Starts a private cluster, as [`start_private`] does for a server: for tests that kill nodes of
/// it.
///
/// # Errors
///
/// As for [`start_private`].
pub fn start_private_cluster(name: &str, options: &Options) -> Result<Cluster> {
    let cluster = start_private(name, options)?.into_cluster();
    cluster.ok_or_else(|| Error::failed(format!("{name} is not a cluster")))
}

/// Returns whether tests that start servers of this kind, each its own, cannot run, and prints why:
/// they take long, so they run only where `IDEM_ALL` is set; and they need its programs.
pub fn no_private(name: &str) -> bool {
    let is_here = server(name).is_ok_and(|server| server.programs().is_some());
    let reason = match std::env::var_os("IDEM_ALL") {
        None => "tests that start servers of their own run where IDEM_ALL=1 is set".to_owned(),
        Some(_) if is_here => return false,
        Some(_) => format!("no {name} on this machine (`cargo xtask servers up {name}`)"),
    };
    eprintln!("ignored: {reason}");
    true
}

/// Gets a server from the first source that has it.
///
/// The search continues after a source without a server. A server that does not work is an error if
/// it comes from the environment or from local programs. A container that does not start (such as
/// without a network for its image) is reported to `progress`, and the search continues.
#[derive(Clone, Debug)]
pub struct Finder {
    sources: Vec<Source>,
    options: Options,
    progress: fn(&str),
}

impl Default for Finder {
    fn default() -> Self {
        Self {
            sources: Source::ORDER.into(),
            options: Options::new(),
            progress: |_| {},
        }
    }
}

impl Finder {
    /// Creates a finder with all sources, in order.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a finder with all sources, or the one that `IDEM_SERVER_SOURCE` forces.
    ///
    /// # Errors
    ///
    /// An error when that variable names no source.
    pub fn from_env() -> Result<Self> {
        let forced = environment(Source::VARIABLE).map(|text| Source::named(&text));
        let forced = forced.transpose()?;
        Ok(forced.map_or_else(Self::new, |source| Self::new().with_sources(&[source])))
    }

    /// Uses only these sources, in this order.
    #[must_use]
    pub fn with_sources(mut self, sources: &[Source]) -> Self {
        self.sources = sources.into();
        self
    }

    /// Removes this source.
    #[must_use]
    pub fn without(mut self, source: Source) -> Self {
        self.sources.retain(|left| *left != source);
        self
    }

    /// Sets how to start a private server.
    #[must_use]
    pub fn with_options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Sets the receiver of messages about long actions and failed sources.
    #[must_use]
    pub fn with_progress(mut self, progress: fn(&str)) -> Self {
        self.progress = progress;
        self
    }

    /// Gets the server of that name. A server in front of another needs
    /// [`Options::with_upstream`](crate::Options::with_upstream), except when it is in the
    /// environment.
    ///
    /// # Errors
    ///
    /// An error when no source has it, or it does not work.
    pub fn find(&self, name: &str) -> Result<Instance> {
        let server = server(name)?;
        self.check(server)?;
        let mut tried = Vec::new();
        for source in &self.sources {
            match self.try_source(server, *source) {
                Err(error) if error.kind() == ErrorKind::Missing => {
                    if error.source().is_some() {
                        (self.progress)(&format!("{error:?}"));
                    }
                    tried.push(error.to_string());
                }
                other => return other,
            }
        }
        Err(Error::missing(format!(
            "no {name}: {}. {}, or set {}",
            tried.join("; "),
            server.advice(),
            server.url_variable(),
        )))
    }

    /// Refuses options that the server does not support.
    fn check(&self, server: &Server) -> Result<()> {
        let name = server.name;
        if let (Setting::Refused, [(setting, _), ..]) = (server.setting, &*self.options.settings) {
            let what = format!("{name} takes no settings (here: {setting})");
            return Err(Error::failed(what));
        }
        if server.tls.is_none() && self.options.transport == Transport::Tls {
            let what = format!("{name} is started without TLS only");
            return Err(Error::failed(what));
        }
        Ok(())
    }

    fn try_source(&self, server: &'static Server, source: Source) -> Result<Instance> {
        let remote = matches!(source, Source::Env | Source::Container);
        if remote && !self.options.settings.is_empty() {
            let what = format!("settings cannot be given to one from {source}");
            return Err(Error::missing(what));
        }
        match source {
            Source::Env => return from_environment(server),
            Source::Container => return self.in_container(server),
            Source::Local => {}
            Source::Packages => (server.install)(server, self.progress)?,
        }
        let programs = programs(server)?;
        let runs = server.in_folder(&programs);
        let cluster = Cluster::start(runs, &Runner::Programs(programs), &self.options)?;
        Ok(Instance::own(server, source, cluster))
    }

    fn in_container(&self, server: &'static Server) -> Result<Instance> {
        let program = container::program(server, self.progress)?;
        (self.progress)(&format!("starting a container of {}", server.product));
        Cluster::start(server, &Runner::Container(program), &self.options)
            .map(|cluster| Instance::own(server, Source::Container, cluster))
            .map_err(|error| {
                let message = error.to_string();
                let reason = message.lines().nth(1).unwrap_or(&message).trim();
                Error::missing(format!("its container did not start: {reason}")).with_source(error)
            })
    }
}

fn from_environment(server: &'static Server) -> Result<Instance> {
    let variable = server.url_variable();
    let missing = || Error::missing(format!("{variable} is not set"));
    let url = environment(&variable).ok_or_else(missing)?;
    let product = server.probe(&url);
    Ok(Instance {
        server,
        source: Source::Env,
        product: product.doing(|| variable)?,
        url,
        cluster: None,
    })
}

fn programs(server: &Server) -> Result<PathBuf> {
    let missing = format!("no programs of {} on this machine", server.product);
    let folder = server.programs().ok_or_else(|| Error::missing(missing))?;
    if folder.is_absolute() && folder.is_dir() {
        return Ok(folder);
    }
    let (variable, folder) = (server.programs_variable(), folder.display());
    let what = format!("{variable}={folder}: not an absolute path of a folder");
    Err(Error::failed(what))
}

#[cfg(test)]
mod tests {
    use super::Source;

    #[test]
    fn an_unknown_source_is_refused_with_the_known_ones() {
        assert_eq!(Source::named("local").unwrap(), Source::Local);
        let error = Source::named("docker").unwrap_err().to_string();
        let known = "env, local, packages, container";
        assert!(error.ends_with(known), "{error}");
    }
}
