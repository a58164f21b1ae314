use crate::bench::backends;

/// The measured subjects, and the destination of the figures.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct BenchOptions {
    /// Measures only these backends.
    #[arg(long, value_name = "NAME", num_args = 1.., value_parser = backends::names())]
    pub(crate) backend: Vec<String>,
    /// Measures only these paths, such as `claim_fresh` and `replay`, and only ratios.
    #[arg(long, value_name = "NAME", num_args = 1..)]
    pub(crate) path: Vec<String>,
    /// Fewer and shorter rounds, without instruction counts and criterion's pages.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Leaves out criterion's benchmarks and their HTML report.
    #[arg(long)]
    pub(crate) no_criterion: bool,
    /// Leaves out the instruction counts, and installs nothing for them.
    #[arg(long)]
    pub(crate) no_instructions: bool,
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

    /// Returns whether instructions are counted.
    pub(crate) fn counts_instructions(&self) -> bool {
        !self.quick && !self.no_instructions
    }

    /// Returns whether a backend is wanted.
    pub(crate) fn wants(&self, backend: &str) -> bool {
        self.backend.is_empty() || self.backend.iter().any(|name| name == backend)
    }
}
