//! `cargo xtask bench --profile`: flamegraphs.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::bench::{BenchOptions, backends};
use crate::pool::Pool;
use crate::step;

/// Draws a flamegraph of the path for each backend whose server runs. Returns whether all
/// succeeded.
///
/// # Errors
///
/// An error when a tool is not available.
pub(crate) fn run(
    options: &BenchOptions,
    path: &str,
    servers: &Pool,
    target: &Path,
) -> Result<bool> {
    let flamegraph = flamegraph(target)?;
    let mut drawn = true;
    for backend in backends::ready(options, servers.instances()) {
        let name = format!("flame-{backend}-{path}");
        let picture = target.join("idem").join(format!("{name}.svg"));
        let data = picture.with_extension("perf");
        // The kernel's processor clock: virtual machines have no counters. The frequency is not
        // round, so that it does not coincide with periodic work.
        let record = format!(
            "record -q -e cpu-clock -F 499 --call-graph dwarf,16384 -o {}",
            data.display()
        );
        let mut command = Command::new(&flamegraph);
        command.args(["--no-inline", "--min-width", "0.2", "--cmd", &record]);
        command.args(["--title", &format!("{backend}: {path}")]);
        command.arg("--output").arg(&picture).arg("--");
        command.arg(target.join("release/ratios"));
        command.args(["--backend", backend, "--path", path, "--quick"]);
        drawn &= step::run(&name, command.envs(servers.variables()))?;
        // The file does not exist if nothing was recorded.
        let _ = std::fs::remove_file(data);
        println!("{}", picture.display());
    }
    Ok(drawn)
}

/// Returns the program `flamegraph`, and installs it, with the `perf` that it runs, if it is
/// missing.
fn flamegraph(target: &Path) -> Result<PathBuf> {
    if !step::has("perf", &["--version"]) {
        println!("    installing packages: linux-perf");
        idem_servers::install(&["linux-perf"])?;
    }
    step::installed("flamegraph", None, &target.join("idem/tools"))
}
