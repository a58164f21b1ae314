//! A server that speaks MongoDB's protocol, for machines without MongoDB: no package registry has
//! it.
//!
//! It is a program under the GPL. Nothing here links to it or depends on it: it is built once from
//! the Rust registry, outside this workspace, and started as a separate process.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tools::{find, holds, run};
use crate::unpacked::{cache, make_once};
use crate::{Durability, Error, Result, Site, packages};

pub(crate) const PRODUCT: &str = "secantusd (MongoDB-compatible)";
const PROGRAM: &str = "secantusd-rs";
const CRATE: &str = "secantus-mdb";
const VERSION: &str = "0.5.3-beta.193";

/// Programs that the build needs, and Debian's packages of them.
const TOOLS: &[(&str, &str)] = &[("cmake", "cmake"), ("cc", "gcc"), ("c++", "g++")];

/// Its own profile takes four times as long to build and is no faster in tests.
const PROFILE: &[(&str, &str)] = &[
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1"),
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
];

/// Returns the folder of the program, if it was built. The folder stays between runs.
pub(crate) fn programs() -> Option<PathBuf> {
    Some(cache()?.join("secantus/bin")).filter(|folder| holds(folder, &[PROGRAM]))
}

pub(crate) fn command(site: &Site<'_>) -> Command {
    let mut command = site.command(&[PROGRAM]);
    command.args(["--host", "127.0.0.1"]);
    command.args(["--port", &site.port.to_string()]);
    command.arg("--storage-path").arg(site.path("data"));
    command.args(["--cache-size", "256M", "--log-level", "WARNING"]);
    if site.options.durability == Durability::Durable {
        command.arg("--sync-on-commit");
    }
    command
}

/// Builds the program if it is missing.
///
/// # Errors
///
/// All are [`ErrorKind::Missing`](crate::ErrorKind::Missing): no compiler, no network.
pub(crate) fn install(progress: fn(&str)) -> Result<()> {
    progress(&format!(
        "building {CRATE} {VERSION} once, for lack of a mongod: some six minutes"
    ));
    let missing = TOOLS
        .iter()
        .filter(|(program, _)| find(&[program]).is_none());
    let missing: Vec<_> = missing.map(|(_, package)| *package).collect();
    let tools = match missing.as_slice() {
        [] => Ok(()),
        missing => packages::install(missing),
    };
    tools
        .and_then(|()| {
            make_once("secantus", |target, fresh| {
                run(&mut cargo(target, fresh)).map(drop)
            })
        })
        .map_err(|error| {
            progress(&format!("{error:?}"));
            let what = format!("{CRATE} of the Rust registry cannot be built");
            Error::missing(what).with_source(error)
        })
}

/// Builds outside this workspace, whose settings do not apply to it.
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
