//! `cargo xtask check`: checks of the code without running it.

use std::process::Command;

use crate::Result;
use crate::step::{self, cargo, has, output};
use crate::workspace;

/// The program of a contender in the benchmarks, which has a workspace of its own.
pub(crate) const RIVAL: &str = "benches/idempotent/Cargo.toml";

/// Runs every check, also after a failure. Returns whether all succeed.
pub(crate) fn run() -> Result<bool> {
    let mut hold = step::run("format", &mut cargo(&["fmt", "--all", "--check"]))?;
    let mut format = cargo(&["fmt", "--check", "--manifest-path", RIVAL]);
    hold &= step::run("format of benches/idempotent", &mut format)?;
    hold &= clippy()?;
    hold &= documentation()?;
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
    let base = ["clippy", "--quiet", "--all-targets"];
    let mut hold = step::run("clippy", cargo(&base).arg("--workspace").args(deny))?;
    let mut rival = cargo(&base);
    rival.args([
        "--locked",
        "--ignore-rust-version",
        "--manifest-path",
        RIVAL,
    ]);
    rival
        .arg("--target-dir")
        .arg(&workspace::members()?.target_directory);
    hold &= step::run("clippy of benches/idempotent", rival.args(deny))?;
    let workspace = workspace::members()?;
    let packages = workspace.packages.iter();
    for package in packages.filter(|package| !package.features.is_empty()) {
        for features in ["--no-default-features", "--all-features"] {
            let title = format!("clippy of {} with {features}", package.name);
            let mut command = cargo(&["clippy", "--quiet", "--lib", "--package", &package.name]);
            hold &= step::run(&title, command.arg(features).args(deny))?;
        }
    }
    Ok(hold)
}

fn documentation() -> Result<bool> {
    let mut command = cargo(&[
        "doc",
        "--quiet",
        "--workspace",
        "--no-deps",
        "--all-features",
    ]);
    step::run("documentation", command.env("RUSTDOCFLAGS", "-D warnings"))
}

fn dependencies() -> Result<bool> {
    if has("cargo-deny", &["--version"]) {
        return step::run("cargo-deny", &mut cargo(&["deny", "check"]));
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
    let arguments = [
        "tree",
        "--workspace",
        "--edges",
        "normal",
        "--all-features",
        "--prefix",
        "none",
    ];
    let tree = output(&mut cargo(&arguments))?;
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
        "deb.debian",
        "snapshot.debian",
        "index.crates",
        "static.crates",
        "files.pythonhosted",
        "registry.npmjs",
    ];
    let mut command = Command::new("git");
    command.args(["grep", "--files-with-matches", "--fixed-strings"]);
    for (host, end) in hosts
        .iter()
        .zip([".org", ".org", ".io", ".io", ".org", ".org"])
    {
        command.arg("-e").arg(format!("{host}{end}"));
    }
    // git exits with 1 when it finds none.
    let found = command.output()?;
    let files = String::from_utf8_lossy(&found.stdout)
        .trim()
        .replace('\n', ", ");
    Ok((!files.is_empty()).then(|| {
        format!("{files} name a package registry's host; take it from the machine's own settings")
    }))
}
