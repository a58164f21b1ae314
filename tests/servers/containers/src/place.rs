use std::path::Path;

use testcontainers::bollard::Docker;

/// Where the engine publishes ports, as seen from this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// On this machine: at 127.0.0.1, which other machines cannot reach.
    Here,
    /// On another machine, or beside the container of this process: at an address that
    /// testcontainers knows.
    Elsewhere,
}

impl Place {
    /// Determines where the engine at `DOCKER_HOST` publishes ports.
    ///
    /// In a container, an engine at a local socket is either within the same container or outside;
    /// only the one within has this host name. (testcontainers assumes an engine outside, which
    /// fails within.)
    pub(crate) async fn find() -> Self {
        let host = std::env::var("DOCKER_HOST").unwrap_or_else(|_| "unix:".into());
        let in_container = ["/.dockerenv", "/run/.containerenv"]
            .iter()
            .any(|mark| Path::new(mark).exists());
        let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let within = !in_container || engine_name().await.is_some_and(|name| name == own.trim());
        if host.starts_with("unix:") && within {
            Self::Here
        } else {
            Self::Elsewhere
        }
    }

    /// Returns the address to publish at. It is explicit: podman's answer names none if the request
    /// names none, and testcontainers then finds no port.
    pub(crate) fn address(self) -> &'static str {
        match self {
            Self::Here => "127.0.0.1",
            Self::Elsewhere => "0.0.0.0",
        }
    }
}

async fn engine_name() -> Option<String> {
    Docker::connect_with_defaults()
        .ok()?
        .info()
        .await
        .ok()?
        .name
}
