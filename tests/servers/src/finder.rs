use std::path::PathBuf;

use crate::container::Container;
use crate::engine::candidates;
use crate::server::Tls;
use crate::{
    Cluster, Error, ErrorKind, Instance, Options, Result, Server, Source, Transport, engine, server,
};

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
    cluster.ok_or_else(|| Error::setting(format!("{name} is not a cluster")))
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
        let forced = Source::forced()?;
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
                Err(error) if error.kind() == ErrorKind::Missing => tried.push(error.to_string()),
                other => return other,
            }
        }
        Err(Error::missing(format!(
            "no {name}: {}. {}, or set {}",
            tried.join("; "),
            server.kind.advice(server),
            server.url_variable(),
        )))
    }

    /// Refuses options that the server does not support.
    fn check(&self, server: &Server) -> Result<()> {
        let name = server.name;
        if let (false, Some((setting, _))) = (server.takes_settings, self.options.settings.first())
        {
            let what = format!("{name} takes no settings (here: {setting})");
            return Err(Error::setting(what));
        }
        if (server.tls, self.options.transport) == (Tls::No, Transport::Tls) {
            return Err(Error::setting(format!(
                "{name} is started without TLS only"
            )));
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
            Source::Env => from_environment(server),
            Source::Container => self.in_container(server),
            Source::Local => self.by_programs(server, source),
            Source::Packages => {
                server.kind.install(server, self.progress)?;
                self.by_programs(server, source)
            }
        }
    }

    fn in_container(&self, server: &'static Server) -> Result<Instance> {
        let product = server.product;
        let Some(image) = server.image else {
            let what = format!("there is no container image of {product}");
            return Err(Error::missing(what));
        };
        let Some(host) = engine() else {
            let hosts = candidates(&|name| std::env::var(name).ok()).join(", ");
            return Err(Error::missing(format!(
                "no container engine answers ({hosts})"
            )));
        };
        image.licence()?;
        (self.progress)(&format!("starting a container of {product} on {host}"));
        Container::start(server, &host, self.options.lifetime)
            .map(|container| Instance::container(server, container))
            .map_err(|error| {
                (self.progress)(&format!("{error:?}"));
                Error::missing("its container did not start").with_source(error)
            })
    }

    fn by_programs(&self, server: &'static Server, source: Source) -> Result<Instance> {
        Cluster::start(server, &programs(server)?, &self.options)
            .map(|cluster| Instance::own(server, source, cluster))
    }
}

fn from_environment(server: &'static Server) -> Result<Instance> {
    let variable = server.url_variable();
    let Some(url) = std::env::var(&variable).ok().filter(|url| !url.is_empty()) else {
        return Err(Error::missing(format!("{variable} is not set")));
    };
    let product = server
        .probe(&url)
        .map_err(|error| Error::setting(variable).with_source(error))?;
    Ok(Instance::remote(server, url, product))
}

fn programs(server: &Server) -> Result<PathBuf> {
    let variable = server.programs_variable();
    let named = std::env::var_os(&variable).filter(|folder| !folder.is_empty());
    let Some(folder) = named.map(PathBuf::from) else {
        let what = format!("no programs of {} on this machine", server.product);
        return server.programs().ok_or_else(|| Error::missing(what));
    };
    if folder.is_absolute() && folder.is_dir() {
        return Ok(folder);
    }
    let what = format!(
        "{variable}={}: not an absolute path of a folder",
        folder.display()
    );
    Err(Error::setting(what))
}
