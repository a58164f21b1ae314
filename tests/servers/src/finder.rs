use std::path::PathBuf;

use crate::container::Container;
use crate::engine::candidates;
use crate::local::Local;
use crate::server::holds;
use crate::{Cluster, Error, ErrorKind, Instance, Options, Result, Server, Source, engine, server};

/// Starts a server of one's own, from programs on this machine or from packages: for tests that kill it, or that
/// want it in a certain way.
pub fn start_private(name: &str, options: &Options) -> Result<Instance> {
    Finder::new()
        .with_sources(&[Source::Local, Source::Packages])
        .with_options(options.clone())
        .find(name)
}

/// Starts a cluster of one's own, as [`start_private`] does a server: for tests that kill nodes of it.
pub fn start_private_cluster(name: &str, options: &Options) -> Result<Cluster> {
    start_private(name, options)?
        .into_cluster()
        .ok_or_else(|| Error::setting(format!("{name} is not a cluster")))
}

/// Gets a server from the first source that has it.
///
/// A source that has no server is passed over; one that has a server that does not work is an error for the
/// environment and for local programs, whereas a container that does not start (no network to fetch its image
/// from, say) is told to `progress` and passed over.
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
    /// All sources, in order.
    pub fn new() -> Self {
        Self::default()
    }

    /// All sources, or the one that `IDEM_SERVER_SOURCE` forces.
    pub fn from_env() -> Result<Self> {
        let forced = Source::forced()?;
        Ok(forced.map_or_else(Self::new, |source| Self::new().with_sources(&[source])))
    }

    /// These sources only, in this order.
    #[must_use]
    pub fn with_sources(mut self, sources: &[Source]) -> Self {
        self.sources = sources.into();
        self
    }

    /// Every source that is left but this one.
    #[must_use]
    pub fn without(mut self, source: Source) -> Self {
        self.sources.retain(|left| *left != source);
        self
    }

    /// How to start a server of our own.
    #[must_use]
    pub fn with_options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Where to tell what takes long or was passed over.
    #[must_use]
    pub fn with_progress(mut self, progress: fn(&str)) -> Self {
        self.progress = progress;
        self
    }

    /// Gets the server of that name. One that stands in front of another needs
    /// [`Options::with_upstream`](crate::Options::with_upstream), unless it is in the environment.
    pub fn find(&self, name: &str) -> Result<Instance> {
        let server = server(name)?;
        let settings = self.options.settings();
        if let (false, Some((setting, _))) = (server.takes_settings(), settings.first()) {
            return Err(Error::setting(format!(
                "{name} takes no settings (here: {setting})"
            )));
        }
        let mut tried = Vec::new();
        for source in &self.sources {
            match self.try_source(server, *source) {
                Err(error) if error.kind() == ErrorKind::Missing => tried.push(error.to_string()),
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

    fn try_source(&self, server: &'static dyn Server, source: Source) -> Result<Instance> {
        let remote = matches!(source, Source::Env | Source::Container);
        if remote && !self.options.settings().is_empty() {
            return Err(Error::missing(format!(
                "settings cannot be given to one from {source}"
            )));
        }
        match source {
            Source::Env => from_environment(server),
            Source::Container => self.in_container(server),
            Source::Local => self.by_programs(server, source),
            Source::Packages => {
                server.install(self.progress)?;
                self.by_programs(server, source)
            }
        }
    }

    fn in_container(&self, server: &'static dyn Server) -> Result<Instance> {
        let Some(image) = server.image() else {
            return Err(Error::missing(format!(
                "there is no container image of {}",
                server.product()
            )));
        };
        let Some(host) = engine() else {
            let asked = candidates(&|name| std::env::var(name).ok());
            return Err(Error::missing(format!(
                "no container engine answers ({})",
                asked.join(", ")
            )));
        };
        image.licence()?;
        (self.progress)(&format!(
            "starting a container of {} on {host}",
            server.product()
        ));
        Container::start(server, &host, self.options.lifetime)
            .map(|started| Instance::container(server, started))
            .map_err(|error| {
                (self.progress)(&format!("{error:?}"));
                Error::missing("its container did not start").with_source(error)
            })
    }

    fn by_programs(&self, server: &'static dyn Server, source: Source) -> Result<Instance> {
        let programs = programs(server)?;
        if let Some(kind) = server.cluster() {
            return Cluster::start(server, kind, &programs, &self.options)
                .map(|started| Instance::cluster(server, source, started));
        }
        Local::start(server, &programs, &self.options)
            .map(|started| Instance::local(server, source, started))
    }
}

fn from_environment(server: &'static dyn Server) -> Result<Instance> {
    let variable = server.url_variable();
    let Some(url) = std::env::var(&variable).ok().filter(|url| !url.is_empty()) else {
        return Err(Error::missing(format!("{variable} is not set")));
    };
    let product = server
        .probe(&url)
        .map_err(|error| Error::setting(variable).with_source(error))?;
    Ok(Instance::remote(server, url, product))
}

fn programs(server: &dyn Server) -> Result<PathBuf> {
    let variable = server.programs_variable();
    if let Some(folder) = std::env::var_os(&variable)
        .filter(|folder| !folder.is_empty())
        .map(PathBuf::from)
    {
        return if holds(&folder, &[]) && folder.is_dir() {
            Ok(folder)
        } else {
            Err(Error::setting(format!(
                "{variable}={}: not an absolute path of a folder",
                folder.display()
            )))
        };
    }
    let missing = || {
        Error::missing(format!(
            "no programs of {} on this machine",
            server.product()
        ))
    };
    server.programs().ok_or_else(missing)
}
