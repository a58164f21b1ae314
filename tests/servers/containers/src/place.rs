use std::path::Path;

use testcontainers::bollard::Docker;

/// Where the engine publishes ports, as seen from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// On this machine: at 127.0.0.1, where nobody else gets in.
    Here,
    /// On another, or beside the container that we are in ourselves: at an address that
    /// testcontainers knows.
    Elsewhere,
}

impl Place {
    /// Finds out about the engine at `DOCKER_HOST`.
    ///
    /// In a container an engine at a local socket is either within the same container or outside;
    /// only the one within has our host name. (What testcontainers does there, to take it for
    /// outside, fails within.)
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

    /// The address to publish at. It is spelt out: podman's answer names none where the request
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
