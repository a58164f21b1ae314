use clap::builder::PossibleValuesParser;
use idem_bench_rows::{BACKENDS, Backend};

/// The measured subjects, and the destination of the figures.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct BenchOptions {
    /// Measures only these backends.
    #[arg(long, value_name = "NAME", num_args = 1..,
        value_parser = PossibleValuesParser::new(BACKENDS.map(|(name, ..)| name)))]
    pub(crate) backend: Vec<String>,
    /// Measures only these paths, such as `claim_fresh` and `replay`, and only ratios.
    #[arg(long, value_name = "NAME", num_args = 1..)]
    pub(crate) path: Vec<String>,
    /// Fewer and shorter rounds, without criterion's pages.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Leaves out criterion's benchmarks and their HTML report.
    #[arg(long)]
    pub(crate) no_criterion: bool,
    /// Writes the figures and the charts into `docs/`.
    #[arg(long, conflicts_with = "profile")]
    pub(crate) docs: bool,
    /// Measures nothing: shows the figures of the last run again, with the current reasons of
    /// `benches/reasons.toml`.
    #[arg(long)]
    pub(crate) show: bool,
    /// Measures the servers that `IDEM_…_URL` name, if set. Default: private ones with durable
    /// settings.
    #[arg(long)]
    pub(crate) from_environment: bool,
    /// Measures nothing: draws a flamegraph of this path for each of the backends.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["path", "show"])]
    pub(crate) profile: Option<String>,
}

impl BenchOptions {
    /// Returns whether criterion's benchmarks run.
    pub(crate) fn draws_pages(&self) -> bool {
        !self.quick && !self.no_criterion
    }

    /// Returns the features of `idem-benches` that everything measured needs.
    pub(crate) fn features(&self) -> String {
        let backends = self.backends().map(|(_, feature, _)| feature);
        backends.collect::<Vec<_>>().join(",")
    }

    /// Returns the servers of the wanted backends.
    pub(crate) fn servers(&self) -> Vec<String> {
        let servers = self.backends().flat_map(|(.., servers)| servers);
        servers.map(|name| (*name).to_owned()).collect()
    }

    /// Returns the wanted backends.
    fn backends(&self) -> impl Iterator<Item = Backend> {
        let all = BACKENDS.into_iter();
        all.filter(|(name, ..)| self.backend.is_empty() || self.backend.iter().any(|b| b == name))
    }

    /// Returns the wanted backends whose servers all run.
    pub(crate) fn ready(&self, running: &[&str]) -> Vec<&'static str> {
        self.backends()
            .filter(|(.., needed)| needed.iter().all(|server| running.contains(server)))
            .map(|(name, ..)| name)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_impression_has_no_pages() {
        let quick = BenchOptions {
            quick: true,
            ..BenchOptions::default()
        };
        assert!(!quick.draws_pages() && BenchOptions::default().draws_pages());
    }

    #[test]
    fn a_backend_without_its_server_is_left_out() {
        let all = BenchOptions::default();
        assert_eq!(all.ready(&["redis"]), ["memory", "sqlite", "redis"]);
        let hybrid = BenchOptions {
            backend: vec!["hybrid".to_owned()],
            ..BenchOptions::default()
        };
        assert_eq!(hybrid.ready(&["redis", "postgres"]), ["hybrid"]);
    }

    #[test]
    fn only_the_measured_backends_are_compiled() {
        let some = BenchOptions {
            backend: ["valkey", "sqlite"].map(str::to_owned).into(),
            quick: true,
            ..BenchOptions::default()
        };
        assert_eq!(some.features(), "sqlite,redis");
        assert!(BenchOptions::default().features().ends_with(",hybrid"));
    }

    #[test]
    fn every_server_is_known() {
        for server in BACKENDS.iter().flat_map(|(.., servers)| *servers) {
            assert!(idem_servers::server(server).is_ok(), "{server}");
        }
    }
}
