//! The measured backends, and the servers that each needs.

use clap::builder::PossibleValuesParser;
use idem_servers::Instance;

use crate::bench::BenchOptions;

/// The backends by name; their servers in the order in which they start.
pub(crate) const BACKENDS: &[(&str, &[&str])] = &[
    ("memory", &[]),
    ("sqlite", &[]),
    ("postgres", &["postgres"]),
    ("mariadb", &["mariadb"]),
    ("mysql", &["mysql"]),
    ("redis", &["redis"]),
    ("valkey", &["valkey"]),
    ("mongo", &["mongo"]),
    ("hybrid", &["postgres", "redis"]),
];

/// Returns the names for the command line.
pub(crate) fn names() -> PossibleValuesParser {
    BACKENDS
        .iter()
        .map(|(name, _)| *name)
        .collect::<Vec<_>>()
        .into()
}

/// Returns the servers that the wanted backends need, each once.
pub(crate) fn servers(options: &BenchOptions) -> Vec<&'static str> {
    let wanted = BACKENDS.iter().filter(|(name, _)| options.wants(name));
    let mut servers = Vec::new();
    for server in wanted.flat_map(|(_, needed)| *needed) {
        if !servers.contains(server) {
            servers.push(*server);
        }
    }
    servers
}

/// Returns the wanted backends whose servers all run.
pub(crate) fn ready(options: &BenchOptions, servers: &[Instance]) -> Vec<&'static str> {
    let running: Vec<_> = servers.iter().map(Instance::name).collect();
    with_servers(options, &running)
}

fn with_servers(options: &BenchOptions, running: &[&str]) -> Vec<&'static str> {
    BACKENDS
        .iter()
        .filter(|(name, _)| options.wants(name))
        .filter(|(_, needed)| needed.iter().all(|server| running.contains(server)))
        .map(|(name, _)| *name)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(backends: &[&str]) -> BenchOptions {
        BenchOptions {
            backend: backends.iter().map(|name| (*name).to_owned()).collect(),
            ..BenchOptions::default()
        }
    }

    #[test]
    fn a_server_that_two_backends_need_is_started_once() {
        let two = options(&["postgres", "hybrid"]);
        assert_eq!(servers(&two), ["postgres", "redis"]);
        assert!(servers(&options(&["memory"])).is_empty());
        assert_eq!(servers(&options(&[])).len(), 6);
    }

    #[test]
    fn a_backend_without_its_server_is_left_out() {
        let all = options(&[]);
        assert_eq!(
            with_servers(&all, &["redis"]),
            ["memory", "sqlite", "redis"]
        );
        assert_eq!(
            with_servers(&options(&["hybrid"]), &["redis", "postgres"]),
            ["hybrid"]
        );
    }

    #[test]
    fn every_server_is_known() {
        for server in BACKENDS.iter().flat_map(|(_, servers)| *servers) {
            assert!(idem_servers::server(server).is_ok(), "{server}");
        }
    }
}
