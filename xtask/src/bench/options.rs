use crate::bench::backends;

/// Which subjects are measured, and where the figures go.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct BenchOptions {
    /// Measures these backends only.
    #[arg(long, value_name = "NAME", num_args = 1.., value_parser = backends::names())]
    pub(crate) backend: Vec<String>,
    /// Measures these paths only, such as `claim_fresh` and `replay`, and nothing but ratios.
    #[arg(long, value_name = "NAME", num_args = 1..)]
    pub(crate) path: Vec<String>,
    /// Fewer and shorter rounds, no instruction counts and none of criterion's pages.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Leaves criterion's benchmarks out, and with them its HTML report.
    #[arg(long)]
    pub(crate) no_criterion: bool,
    /// Leaves the instruction counts out, and installs nothing for them.
    #[arg(long)]
    pub(crate) no_instructions: bool,
    /// Writes the figures and the charts into `docs/`.
    #[arg(long, conflicts_with = "profile")]
    pub(crate) docs: bool,
    /// Measures nothing: shows the figures of the last run again, with the reasons as
    /// `benches/reasons.toml` has them now.
    #[arg(long)]
    pub(crate) show: bool,
    /// Measures the servers that `IDEM_…_URL` name, where they do; by default all are private ones
    /// with durable settings.
    #[arg(long)]
    pub(crate) from_environment: bool,
    /// Measures nothing: draws a flamegraph of this path for each of the backends.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["path", "show"])]
    pub(crate) profile: Option<String>,
}

impl BenchOptions {
    /// Whether criterion's benchmarks are run.
    pub(crate) fn draws_pages(&self) -> bool {
        !self.quick && !self.no_criterion
    }

    /// Whether instructions are counted.
    pub(crate) fn counts_instructions(&self) -> bool {
        !self.quick && !self.no_instructions
    }

    /// Whether a backend is wanted.
    pub(crate) fn wants(&self, backend: &str) -> bool {
        self.backend.is_empty() || self.backend.iter().any(|name| name == backend)
    }
}
