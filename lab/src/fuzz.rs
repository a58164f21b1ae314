//! `prove fuzz`: lets coverage guide the fuzz targets of `lab/fuzz`, on the stable compiler.
//!
//! The compiler's own coverage pass is available without nightly; only the flags of `cargo fuzz` are
//! not. Everything is built with it, in a target folder of its own. Unsafe code is forbidden in the
//! family, so no sanitizer is needed; overflow checks are on.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

use idem_core::BoxError;
use idem_fuzz::corpus::{corpus, crash, keep};
use serde_json::Value;

/// What makes the compiler count edges and show libFuzzer what is compared.
const FLAGS: &str = "--cfg fuzzing --cfg fuzzing_libfuzzer -Ccodegen-units=1 -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// The most inputs of a committed corpus.
const COMMITTED: usize = 200;

/// The longest input.
const LONGEST: u32 = 2048;

/// What to fuzz, and for how long.
#[derive(Debug, Clone, clap::Args)]
pub struct Orders {
    /// Only the targets whose name contains this, such as `stored::canonical`
    target: Option<String>,
    /// How long altogether
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// Puts what was found, minimised, into the committed corpora
    #[arg(long)]
    keep: bool,
}

impl Default for Orders {
    fn default() -> Self {
        Self {
            target: None,
            minutes: 10,
            keep: false,
        }
    }
}

/// Fuzzes one target after the other. Returns whether none failed: a failure prints the line of its
/// input for the file `crashes`, which ordinary tests replay.
///
/// # Errors
///
/// The targets cannot be built or started.
pub fn run(orders: &Orders) -> Result<bool, BoxError> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let program = build(&workspace)?;
    let mut targets = targets(&program)?;
    if let Some(wanted) = &orders.target {
        targets.retain(|target| target.contains(wanted.as_str()));
    }
    if targets.is_empty() {
        return Err("there is no such target".into());
    }
    let seconds = (orders.minutes * 60 / targets.len() as u64).max(1);
    let mut is_clean = true;
    for name in &targets {
        let target = Target::new(&program, name)?;
        println!("{name}: {seconds} s");
        is_clean &= target.fuzz(seconds)?;
        if orders.keep {
            println!("{name}: {} inputs in its corpus", target.keep()?);
        }
    }
    Ok(is_clean)
}

/// Builds the targets with coverage, and returns their program.
fn build(workspace: &Path) -> Result<PathBuf, BoxError> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(workspace.join("target"), Into::into);
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .current_dir(workspace)
        .args([
            "test",
            "--manifest-path",
            "lab/fuzz/Cargo.toml",
            "--test",
            "targets",
        ])
        .args(["--no-run", "--message-format", "json-render-diagnostics"])
        // Build scripts and macros are not instrumented.
        .args(["--target", &host()?])
        .env("CARGO_TARGET_DIR", target.join("fuzz"))
        .env("RUSTFLAGS", FLAGS)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .stderr(Stdio::inherit());
    let output = command.output()?;
    if !output.status.success() {
        return Err("the targets cannot be built".into());
    }
    let messages = String::from_utf8(output.stdout)?;
    let mut programs = messages.lines().filter_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let program = message["executable"].as_str()?;
        (message["target"]["name"] == "targets").then(|| PathBuf::from(program))
    });
    programs
        .next_back()
        .ok_or_else(|| "cargo named no program".into())
}

/// Returns the target triple of this machine.
fn host() -> Result<String, BoxError> {
    let output = Command::new("rustc").arg("-vV").output()?;
    let text = String::from_utf8(output.stdout)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.ok_or("rustc names no host")?.to_owned())
}

fn targets(program: &Path) -> Result<Vec<String>, BoxError> {
    let output = Command::new(program).arg("--list").output()?;
    let text = String::from_utf8(output.stdout)?;
    let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
    Ok(names.map(str::to_owned).collect())
}

struct Target<'a> {
    program: &'a Path,
    name: &'a str,
    /// What this and earlier runs found, beside the program.
    found: PathBuf,
    /// Inputs that failed, beside the program.
    crashes: PathBuf,
}

impl<'a> Target<'a> {
    /// Unpacks the committed corpus into the folder of what was found.
    fn new(program: &'a Path, name: &'a str) -> Result<Self, BoxError> {
        let beside = program.parent().ok_or("a program without a folder")?;
        let folder = beside.join("corpora").join(name.replace("::", "."));
        let target = Self {
            program,
            name,
            found: folder.join("found"),
            crashes: folder.join("crashes"),
        };
        fs::create_dir_all(&target.found)?;
        let _ = fs::remove_dir_all(&target.crashes);
        fs::create_dir_all(&target.crashes)?;
        for (number, input) in corpus(name)?.iter().enumerate() {
            fs::write(target.found.join(format!("committed-{number}")), input)?;
        }
        Ok(target)
    }

    /// Returns whether no input failed. Prints those that did.
    fn fuzz(&self, seconds: u64) -> Result<bool, BoxError> {
        let options = [
            format!("-max_total_time={seconds}"),
            format!("-max_len={LONGEST}"),
            "-timeout=20".to_owned(),
            "-rss_limit_mb=4096".to_owned(),
            "-print_final_stats=1".to_owned(),
            "-verbosity=1".to_owned(),
            format!("-artifact_prefix={}/", self.crashes.display()),
        ];
        let is_clean = self.libfuzzer(&options, &[&self.found])?;
        for input in inputs(&self.crashes)? {
            println!("a line for lab/fuzz/crashes: {}", crash(self.name, &input));
        }
        Ok(is_clean)
    }

    fn libfuzzer(&self, options: &[String], folders: &[&PathBuf]) -> Result<bool, BoxError> {
        let folders = folders.iter().map(|folder| folder.display().to_string());
        let arguments: Vec<String> = options.iter().cloned().chain(folders).collect();
        let status = Command::new(self.program)
            .args([self.name, "--exact", "--nocapture", "--test-threads=1"])
            .env("BOLERO_LIBFUZZER_ARGS", arguments.join(" "))
            // It starts itself again to merge.
            .env("BOLERO_LIBTEST_HARNESS", "1")
            .env("BOLERO_TEST_NAME", self.name)
            .stdin(Stdio::null())
            .status()?;
        Ok(status.success())
    }

    /// Puts the smallest inputs that reach everything into the committed corpus. Returns their number.
    fn keep(&self) -> Result<usize, BoxError> {
        let least = self.found.with_extension("least");
        let _ = fs::remove_dir_all(&least);
        fs::create_dir_all(&least)?;
        let merge = ["-set_cover_merge=1".to_owned()];
        if !self.libfuzzer(&merge, &[&least, &self.found])? {
            return Err("the corpus cannot be minimised".into());
        }
        let mut inputs = inputs(&least)?;
        inputs.sort_by(|one, other| (one.len(), one).cmp(&(other.len(), other)));
        inputs.truncate(COMMITTED);
        keep(self.name, &inputs)?;
        Ok(inputs.len())
    }
}

/// Returns the contents of the files.
fn inputs(folder: &Path) -> io::Result<Vec<Vec<u8>>> {
    fs::read_dir(folder)?
        .map(|entry| fs::read(entry?.path()))
        .collect()
}
