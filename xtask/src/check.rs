//! `cargo xtask check`: checks of the code without running it.

use std::process::Command;

use crate::step::{self, cargo, output};
use crate::{Result, api, prove, tools, workspace};

/// The program of a contender in the benchmarks, which has a workspace of its own.
pub(crate) const RIVAL: &str = "benches/idempotent/Cargo.toml";

/// The release of cargo-deny.
const DENY: &str = "0.20.2";

/// The package whose only feature adds a program: without it, Clippy would see the same code again.
const BENCHES: &str = "idem-benches";

/// What to do.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckOptions {
    /// Only writes the public API of each published crate into `docs/api`.
    #[arg(long)]
    accept_api: bool,
}

/// Runs every check, also after a failure. Returns whether all succeed.
pub(crate) fn run(options: &CheckOptions) -> Result<bool> {
    if options.accept_api {
        let wrong = api::differences(true)?;
        println!("{}", wrong.as_deref().unwrap_or("docs/api is written"));
        return Ok(wrong.is_none());
    }
    let mut hold = step::run("format", &mut cargo("fmt --all --check"))?;
    let mut rival = cargo("fmt --check --manifest-path");
    hold &= step::run("format of benches/idempotent", rival.arg(RIVAL))?;
    let mut lab = cargo("fmt --check --package idem-prove --package idem-fuzz --manifest-path");
    hold &= step::run("format of lab", lab.arg(prove::MANIFEST))?;
    hold &= clippy()?;
    let mut documentation = cargo("doc --quiet --no-deps");
    documentation.args(workspace::everything_unlinked()?);
    documentation.env("RUSTDOCFLAGS", "-D warnings");
    hold &= step::run("documentation", &mut documentation)?;
    hold &= dependencies()?;
    hold &= archives()?;
    for (what, wrong) in [
        ("public API", api::differences(false)?),
        ("rust-version", too_new()?),
        ("one TLS stack", second_tls_stack()?),
        ("registry hosts", registry_hosts()?),
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

/// Packs what is published, and checks each package as it is in its archive: a file that an archive
/// lacks is found here. `cargo publish --dry-run` also does it, but compiles all dependencies to machine
/// code; that took a third of this command's time.
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
    let mut hold = true;
    for package in published {
        // Alone, so that it has no feature of a dependency that another package turns on.
        let mut check = cargo("check --quiet --config");
        check.arg(root.join("Cargo.toml")).arg("--target-dir");
        check.arg(&workspace.target_directory).current_dir(&folder);
        check.args(["--package", &package.name]);
        hold &= step::run(&format!("{}, from its archive", package.name), &mut check)?;
    }
    Ok(hold)
}

/// Runs Clippy over everything with all features, and over each package with none of its features;
/// over what is published, with all; and over published libraries, with each feature alone.
fn clippy() -> Result<bool> {
    let deny = ["--", "-D", "warnings"];
    let workspace = workspace::members()?;
    let mut all = cargo("clippy --quiet --all-targets");
    let mut hold = step::run(
        "clippy",
        all.args(workspace::everything_unlinked()?).args(deny),
    )?;
    let mut rival = cargo("clippy --quiet --all-targets --locked --ignore-rust-version");
    rival.args(["--manifest-path", RIVAL, "--target-dir"]);
    rival.arg(&workspace.target_directory);
    hold &= step::run("clippy of benches/idempotent", rival.args(deny))?;
    let mut lab = cargo("clippy --quiet --workspace --all-targets --locked");
    lab.args(["--manifest-path", prove::MANIFEST, "--target-dir"]);
    lab.arg(&workspace.target_directory);
    hold &= step::run("clippy of lab", lab.args(deny))?;
    let packages = workspace.packages.iter();
    for package in packages.filter(|it| it.name != BENCHES) {
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
        }
        if is_published && !all.is_empty() {
            sets.push(format!("--features {}", all.join(",")));
        }
        let targets = if is_library { "--lib" } else { "--bins" };
        for features in sets {
            let title = format!("clippy of {} with {features}", package.name);
            let mut command = cargo("clippy --quiet --package");
            command
                .args([&*package.name, targets])
                .args(features.split(' '));
            hold &= step::run(&title, command.args(deny))?;
        }
    }
    Ok(hold)
}

/// Checks licences, sources and bans, and known vulnerabilities where their database can be fetched.
fn dependencies() -> Result<bool> {
    let target = workspace::members()?.target_directory;
    let deny = tools::crate_program("cargo-deny", Some(DENY), target.as_std_path())?;
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
    lab.args(["check", "--config", "deny.toml"]);
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
