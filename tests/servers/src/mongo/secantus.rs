//! A server that speaks MongoDB's protocol, for machines where no MongoDB can be had: no package registry brings one.
//!
//! It is a program under the GPL. Nothing here links to it or depends on it: it is built once from the Rust registry,
//! kept outside this workspace, and started as a process of its own.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Doing;
use crate::server::{holds, on_path};
use crate::site::run;
use crate::{Durability, Error, Result, Site, packages, root};

pub(super) const PRODUCT: &str = "secantusd (MongoDB-compatible)";
const PROGRAM: &str = "secantusd-rs";
const CRATE: &str = "secantus-mdb";
const VERSION: &str = "0.5.3-beta.193";

/// Programs that the build takes, and Debian's packages of them.
const TOOLS: &[(&str, &str)] = &[("cmake", "cmake"), ("cc", "gcc"), ("c++", "g++")];

/// Its own profile takes four times as long to build and is no faster in tests.
const PROFILE: &[(&str, &str)] = &[
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1"),
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
];

/// The folder of the program, once it was built. It is kept from run to run.
pub(super) fn programs() -> Option<PathBuf> {
    Some(root::cache()?.join("secantus/bin")).filter(|folder| holds(folder, &[PROGRAM]))
}

pub(super) fn command(site: &Site<'_>) -> Command {
    let mut command = site.command(PROGRAM);
    command.args(["--host", "127.0.0.1"]);
    command.args(["--port", &site.port().to_string()]);
    command.arg("--storage-path").arg(site.path("data"));
    command.args(["--cache-size", "256M", "--log-level", "WARNING"]);
    if site.options().durability() == Durability::Durable {
        command.arg("--sync-on-commit");
    }
    command
}

/// Builds it, unless that was done before, and says that it is missing whatever goes wrong: no compiler, no network.
pub(super) fn install(progress: fn(&str)) -> Result<()> {
    let path = root::cache().map(|cache| cache.join("secantus"));
    let path =
        path.ok_or_else(|| Error::missing("no folder to keep programs in: HOME is not set"))?;
    progress(&format!(
        "building {CRATE} {VERSION} once, for lack of a mongod: some six minutes"
    ));
    tools()
        .and_then(|()| build_into(&path))
        .inspect_err(|error| progress(&format!("{error:?}")))
        .map_err(|error| {
            Error::missing(format!("{CRATE} of the Rust registry cannot be built"))
                .with_source(error)
        })
}

fn tools() -> Result<()> {
    let missing = TOOLS
        .iter()
        .filter(|(program, _)| on_path(&[program]).is_none());
    let missing: Vec<_> = missing.map(|(_, package)| *package).collect();
    if missing.is_empty() {
        Ok(())
    } else {
        packages::install(&missing)
    }
}

fn build_into(path: &Path) -> Result<()> {
    let what = || format!("cannot use {}", path.display());
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).doing(what)?;
    }
    let lock = File::create(path.with_extension("lock")).doing(what)?;
    lock.lock().doing(what)?;
    if path.is_dir() {
        return Ok(());
    }
    let [target, fresh] = ["target", "new"].map(|end| path.with_extension(end));
    let built =
        run(&mut cargo(&target, &fresh)).and_then(|()| fs::rename(&fresh, path).doing(what));
    for rest in [target, fresh] {
        let _ = fs::remove_dir_all(rest);
    }
    built
}

/// Away from this workspace, whose settings are not for it.
fn cargo(target: &Path, into: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir("/").args(["install", "--quiet", CRATE]);
    command.args(["--version", VERSION, "--locked", "--ignore-rust-version"]);
    command.args(["--no-default-features", "--features", "bin"]);
    command.arg("--root").arg(into);
    command.arg("--target-dir").arg(target);
    command.envs(PROFILE.iter().copied());
    for variable in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET"] {
        command.env_remove(variable);
    }
    command
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{VERSION, cargo};

    #[test]
    fn that_version_is_built_and_no_other() {
        let command = cargo(Path::new("/t"), Path::new("/r"));
        let arguments: Vec<_> = command.get_args().collect();
        assert!(arguments.contains(&VERSION.as_ref()) && arguments.contains(&"--locked".as_ref()));
    }
}
