//! `cargo xtask check`: checks of the code without running it.

use std::process::Command;

use crate::Result;
use crate::step::{self, cargo, has, output};
use crate::workspace;

/// The program of a contender in the benchmarks, which has a workspace of its own.
pub(crate) const RIVAL: &str = "benches/idempotent/Cargo.toml";

/// Runs every check, also after a failure. Returns whether all succeed.
pub(crate) fn run() -> Result<bool> {
    let mut hold = step::run("format", &mut cargo("fmt --all --check"))?;
    let mut rival = cargo("fmt --check --manifest-path");
    hold &= step::run("format of benches/idempotent", rival.arg(RIVAL))?;
    hold &= clippy()?;
    let mut documentation = cargo("doc --quiet --workspace --no-deps --all-features");
    documentation.env("RUSTDOCFLAGS", "-D warnings");
    hold &= step::run("documentation", &mut documentation)?;
    hold &= dependencies()?;
    for (what, wrong) in [
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

/// Runs Clippy over everything, and over each set of features of the packages with features.
fn clippy() -> Result<bool> {
    let deny = ["--", "-D", "warnings"];
    let workspace = workspace::members()?;
    let mut all = cargo("clippy --quiet --all-targets --workspace");
    let mut hold = step::run("clippy", all.args(deny))?;
    let mut rival = cargo("clippy --quiet --all-targets --locked --ignore-rust-version");
    rival.args(["--manifest-path", RIVAL, "--target-dir"]);
    rival.arg(&workspace.target_directory);
    hold &= step::run("clippy of benches/idempotent", rival.args(deny))?;
    let packages = workspace.packages.iter();
    for package in packages.filter(|package| !package.features.is_empty()) {
        for features in ["--no-default-features", "--all-features"] {
            let title = format!("clippy of {} with {features}", package.name);
            let mut command = cargo("clippy --quiet --lib --package");
            command.args([&package.name, features]).args(deny);
            hold &= step::run(&title, &mut command)?;
        }
    }
    Ok(hold)
}

fn dependencies() -> Result<bool> {
    if has("cargo-deny", &["--version"]) {
        return step::run("cargo-deny", &mut cargo("deny check"));
    }
    println!("<== cargo-deny: skipped, it is not installed (`cargo install --locked cargo-deny`)");
    Ok(true)
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
