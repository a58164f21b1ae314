//! Regress: brings faults back, and sees that they are caught.
//!
//! `lab/patches` holds patches of the workspace. Each begins with lines `Name: value` that say
//! what it breaks and which command catches it. Some are faults that idem once had, the others are
//! statements that are wrong on purpose.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use idem_core::BoxError;
use idem_servers::{Options, start_private};
use serde::{Deserialize, Serialize};

use crate::campaign::git;
use crate::report;

/// The folder of the patches, in the workspace.
pub const FOLDER: &str = "lab/patches";

/// How `prove` is run in the patched workspace.
const PROVE: &[&str] = &["run", "--quiet", "--manifest-path", MANIFEST, "--"];

/// The workspace of `prove`.
const MANIFEST: &str = "lab/Cargo.toml";

/// The arguments of `prove regress`.
#[derive(Debug, Args)]
pub struct RegressArguments {
    /// The patches, by the beginnings of their names. Default: all
    names: Vec<String>,
    /// Lists them, and applies none
    #[arg(long)]
    list: bool,
    /// The file to which the results are added
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
}

/// A patch that breaks the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    /// The name of its file, without the ending.
    pub name: String,
    /// What it breaks.
    pub defect: String,
    /// The crate.
    pub package: String,
    /// Whether idem once had it: where it was found, and the commit that fixed it. Otherwise the
    /// statement is wrong on purpose.
    pub found: Option<(String, String)>,
    /// The command that catches it, in the patched workspace: `prove …`, whose exit status is then 1,
    /// or `cargo test …`, which fails.
    pub caught_by: String,
    /// The server that the command needs, and finds by its URL in the environment.
    pub server: Option<String>,
    /// A text of its output that shows that it failed for the right reason.
    pub shows: String,
    file: PathBuf,
}

/// When a patch was last caught.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caught {
    /// The commit.
    pub commit: String,
    /// How long the command took, without the build.
    pub seconds: u64,
}

impl Patch {
    /// Reads every patch of the workspace, in the order of their names.
    ///
    /// # Errors
    ///
    /// A file without one of the lines.
    pub fn all(root: &Path) -> Result<Vec<Self>, BoxError> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(root.join(FOLDER))? {
            let file = entry?.path();
            if file.extension().is_some_and(|end| end == "patch") {
                files.push(file);
            }
        }
        files.sort();
        files.into_iter().map(Self::read).collect()
    }

    fn read(file: PathBuf) -> Result<Self, BoxError> {
        let text = std::fs::read_to_string(&file)?;
        let head = text.split("\ndiff --git").next().unwrap_or_default();
        let lines = head.lines().filter_map(|line| line.split_once(": "));
        let mut lines: BTreeMap<&str, &str> = lines.collect();
        let mut take = |name: &str| {
            let value = lines.remove(name).map(str::to_owned);
            value.ok_or_else(|| format!("{}: no line `{name}: …`", file.display()))
        };
        let (defect, package) = (take("Defect")?, take("Crate")?);
        let (caught_by, shows) = (take("Caught-by")?, take("Shows")?);
        let server = take("Server").ok();
        let found = match (take("Found"), take("Fixed")) {
            (Ok(found), Ok(fixed)) => Some((found, fixed)),
            (Err(_), Err(_)) => None,
            (Err(error), _) | (_, Err(error)) => return Err(error.into()),
        };
        let name = file.file_stem().unwrap_or_default();
        Ok(Self {
            name: name.to_string_lossy().into_owned(),
            defect,
            package,
            found,
            caught_by,
            server,
            shows,
            file,
        })
    }
}

/// Reads every patch, and returns how many there are.
///
/// # Errors
///
/// Those of the files, and a line that a patch lacks.
pub fn count(root: &Path) -> Result<usize, BoxError> {
    Ok(Patch::all(root)?.len())
}

/// Applies each patch to a copy of the commit, and runs the command that has to catch it. Returns 0
/// when all were caught, 2 otherwise.
///
/// # Errors
///
/// Those of `git` and of the files.
pub fn run(arguments: &RegressArguments) -> Result<ExitCode, BoxError> {
    let root = std::env::current_dir()?;
    let mut patches = Patch::all(&root)?;
    if !arguments.names.is_empty() {
        for name in &arguments.names {
            if !patches
                .iter()
                .any(|patch| patch.name.starts_with(name.as_str()))
            {
                return Err(format!("no patch `{name}` in {FOLDER}").into());
            }
        }
        let is_named = |patch: &Patch| {
            arguments
                .names
                .iter()
                .any(|name| patch.name.starts_with(name.as_str()))
        };
        patches.retain(is_named);
    }
    if arguments.list {
        for patch in &patches {
            println!(
                "{:40} {}\n    {}",
                patch.name, patch.defect, patch.caught_by
            );
        }
        return Ok(ExitCode::SUCCESS);
    }
    let copy = Copy::create(&root)?;
    let mut missed = 0;
    for patch in &patches {
        match copy.catch(patch) {
            Ok(time) => {
                println!("{}: caught in {} s", patch.name, time.as_secs());
                if let Some(file) = &arguments.results {
                    note(&copy.commit, file, patch, time)?;
                }
            }
            Err(why) => {
                missed += 1;
                println!("{}: NOT CAUGHT: {why}", patch.name);
            }
        }
    }
    println!("{} patches, {missed} not caught", patches.len());
    Ok(ExitCode::from(if missed == 0 { 0 } else { 2 }))
}

fn note(commit: &str, file: &Path, patch: &Patch, time: Duration) -> Result<(), BoxError> {
    let mut results: BTreeMap<String, Caught> = report::read(file)?;
    let caught = Caught {
        commit: commit.to_owned(),
        seconds: time.as_secs(),
    };
    results.insert(patch.name.clone(), caught);
    let text = serde_json::to_string_pretty(&results)? + "\n";
    Ok(std::fs::write(file, text)?)
}

/// A copy of the commit that patches may break. Dropping it removes it.
struct Copy {
    root: PathBuf,
    /// What is not committed is not in the copy, and a later commit neither.
    commit: String,
    folder: PathBuf,
    /// Its own target folder: cargo takes what it has built of another copy of the workspace for
    /// that of this one, and the other way round.
    target: PathBuf,
}

impl Copy {
    fn create(root: &Path) -> Result<Self, BoxError> {
        let folder = std::env::temp_dir().join("idem-prove-patched");
        let target = std::env::var_os("CARGO_TARGET_DIR");
        let target = target.map_or_else(|| root.join("target"), PathBuf::from);
        let commit = crate::campaign::commit(root)?;
        let copy = Self {
            root: root.to_owned(),
            commit: commit.trim_end_matches('+').to_owned(),
            folder,
            target: target.join("idem/patched"),
        };
        copy.remove();
        let folder = copy.folder.display().to_string();
        git(
            root,
            &["worktree", "add", "--quiet", "--detach", &folder, "HEAD"],
        )?;
        Ok(copy)
    }

    /// Returns how long the command took to catch the patch.
    fn catch(&self, patch: &Patch) -> Result<Duration, BoxError> {
        let file = patch.file.display().to_string();
        git(
            &self.folder,
            &["checkout", "--quiet", "--force", "HEAD", "--", "."],
        )?;
        git(&self.folder, &["apply", &file])?;
        let words: Vec<&str> = patch.caught_by.split_whitespace().collect();
        let of_cargo: Vec<&str> = match words.as_slice() {
            ["prove", rest @ ..] => [PROVE, rest].concat(),
            ["cargo", "test", rest @ ..] => [&["test"], rest].concat(),
            _ => return Err(format!("`{}` is neither prove nor a test", patch.caught_by).into()),
        };
        // The build is not part of the time, and a patch that does not compile shows nothing.
        let build: Vec<&str> = match words[0] {
            "prove" => vec!["build", "--quiet", "--manifest-path", MANIFEST],
            _ => {
                let of_tests = of_cargo.iter().skip(1).take_while(|word| **word != "--");
                ["test", "--no-run"]
                    .iter()
                    .chain(of_tests)
                    .copied()
                    .collect()
            }
        };
        let built = self.cargo(&build).output()?;
        if !built.status.success() {
            let said = String::from_utf8_lossy(&built.stderr);
            return Err(format!("the patched code does not build: {said}").into());
        }
        let mut command = self.cargo(&of_cargo);
        let server = patch.server.as_deref();
        let server =
            server.map(|name| Ok::<_, BoxError>((name, start_private(name, &Options::new())?)));
        let server = server.transpose()?;
        if let Some((name, instance)) = &server {
            command.env(idem_servers::server(name)?.url_variable(), instance.url());
        }
        let started = Instant::now();
        let output = command.output()?;
        let time = started.elapsed();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        if output.status.success() {
            return Err(format!("`{}` passes", patch.caught_by).into());
        }
        // 2 is not proven: the harness failed, or the search gave up.
        if words[0] == "prove" && output.status.code() != Some(1) {
            let code = output.status;
            return Err(format!("`{}` refuses nothing: {code}", patch.caught_by).into());
        }
        if !text.contains(&patch.shows) {
            let from = text.len().saturating_sub(600);
            let end = text.get(from..).unwrap_or_default();
            return Err(format!("its output lacks `{}`: …{end}", patch.shows).into());
        }
        Ok(time)
    }

    fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("cargo");
        command
            .args(arguments)
            .current_dir(&self.folder)
            .env("CARGO_TARGET_DIR", &self.target)
            .stdin(Stdio::null());
        command
    }

    fn remove(&self) {
        let folder = self.folder.display().to_string();
        let _ = git(&self.root, &["worktree", "remove", "--force", &folder]);
        let _ = std::fs::remove_dir_all(&self.folder);
        let _ = git(&self.root, &["worktree", "prune"]);
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        self.remove();
    }
}
