use std::path::PathBuf;

/// Whether committed data must outlive a crash of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Fast: nothing is forced to disk. Data still survives a kill of the server's processes in
    /// most databases, but no test may rely on that.
    #[default]
    Fast,
    /// As in production: every commit is forced to disk, and caches and logs are large enough
    /// (1 GiB of each) that commits do not wait for a checkpoint.
    Durable,
}

/// The protocols on the server's port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// Plain TCP.
    #[default]
    Plain,
    /// Plain TCP and TLS; see [`Instance::ca_certificate`](crate::Instance::ca_certificate).
    /// Servers that cannot tell the two apart (Redis) speak TLS on a second port:
    /// [`Instance::tls_url`](crate::Instance::tls_url).
    Tls,
}

/// How to start a server.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub(crate) durability: Durability,
    pub(crate) transport: Transport,
    pub(crate) upstream: Option<String>,
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) wrapper: Option<PathBuf>,
}

impl Options {
    /// Creates options for a fast and plain server.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether commits are forced to disk.
    #[must_use]
    pub fn with_durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets whether the server speaks TLS, too.
    #[must_use]
    pub fn with_transport(mut self, transport: Transport) -> Self {
        self.transport = transport;
        self
    }

    /// Sets the URL of the server behind this one (PgBouncer, Patroni), or watched by it (Redis
    /// Sentinel).
    #[must_use]
    pub fn with_upstream(mut self, url: impl Into<String>) -> Self {
        self.upstream = Some(url.into());
        self
    }

    /// Starts the server's programs by another one, such as a tracer. It gets the server's command
    /// as its arguments, at each start, and has to become it (`exec "$@"`).
    #[must_use]
    pub fn with_wrapper(mut self, program: impl Into<PathBuf>) -> Self {
        self.wrapper = Some(program.into());
        self
    }

    /// Adds a setting by the server's own name: `maxmemory`, `3mb`. Of several with one name the
    /// last one counts. A server without such settings does not start.
    #[must_use]
    pub fn with_setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }
}
