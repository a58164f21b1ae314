//! `cargo xtask bench --profile`: flamegraphs.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Result;
use crate::bench::{BenchOptions, backends};
use crate::pool::Pool;
use crate::step::{self, cargo};

/// How often a second the stack is looked at: no round number, which something else might do as often.
const FREQUENCY: &str = "499";

/// How much of a stack is kept at each look.
const STACK: &str = "dwarf,16384";

/// Draws a flamegraph of the path for each backend whose server runs; whether all could be drawn.
///
/// # Errors
///
/// A tool cannot be had, or a file not be written.
pub(crate) fn run(
    options: &BenchOptions,
    path: &str,
    servers: &Pool,
    target: &Path,
) -> Result<bool> {
    let tools = tools(target)?;
    let mut drawn = true;
    for backend in backends::ready(options, servers.instances()) {
        let name = format!("flame-{backend}-{path}");
        let data = target.join("idem").join(format!("{name}.perf"));
        let mut record = Command::new("perf");
        record.args(["record", "-q", "-e", "cpu-clock", "-F", FREQUENCY]);
        record
            .args(["--call-graph", STACK, "-o"])
            .arg(&data)
            .arg("--");
        record.arg(target.join("release/ratios"));
        record.args(["--backend", backend, "--path", path, "--quick"]);
        drawn &= step::run(&name, record.envs(servers.variables()))?;
        let picture = data.with_extension("svg");
        let title = format!("{backend}: {path}");
        draw(&tools, &data, &picture, &title)?;
        println!("{}", picture.display());
    }
    Ok(drawn)
}

/// The folder of inferno's programs, which are installed where they are missing; `perf` has to be there.
fn tools(target: &Path) -> Result<PathBuf> {
    if !step::has("perf", &["--version"]) {
        println!("    installing packages: linux-perf");
        idem_servers::install(&["linux-perf"])?;
    }
    let tools = target.join("idem/tools");
    let programs = tools.join("bin");
    if !programs.join("inferno-flamegraph").is_file() {
        let mut install = cargo(&["install", "--quiet", "--locked", "inferno", "--root"]);
        if !step::run("install inferno", install.arg(&tools))? {
            return Err("inferno cannot be installed".into());
        }
    }
    Ok(programs)
}

/// `perf script`, its stacks as lines, these as a picture: each to a file, so that whichever fails says so.
fn draw(tools: &Path, data: &Path, picture: &Path, title: &str) -> Result {
    let stage = |extension: &str| data.with_extension(extension);
    let (script, folded) = (stage("script"), stage("folded"));
    let mut told = Command::new("perf");
    told.args(["script", "--no-inline", "-i"]).arg(data);
    write(&mut told, &script)?;
    write(
        Command::new(tools.join("inferno-collapse-perf")).arg(&script),
        &folded,
    )?;
    let mut flamegraph = Command::new(tools.join("inferno-flamegraph"));
    flamegraph.args(["--title", title, "--minwidth", "0.2"]);
    write(flamegraph.arg(&folded), picture)?;
    for file in [data, &script, &folded] {
        std::fs::remove_file(file)?;
    }
    Ok(())
}

/// What a command prints goes to a file.
fn write(command: &mut Command, file: &Path) -> Result {
    let program = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stderr(Stdio::null());
    let status = command.stdout(File::create(file)?).status();
    let status = status.map_err(|error| format!("{program}: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{program}: {status}").into())
    }
}
