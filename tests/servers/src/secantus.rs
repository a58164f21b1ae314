//! A server that speaks MongoDB's protocol, for machines without MongoDB: no package registry has
//! it.
//!
//! It is a program under the GPL. Nothing here links to it or depends on it: it is built once from
//! the Rust registry, outside this workspace, and started as a separate process.

use std::path::Path;
use std::process::Command;

use crate::mongo::{self, is_ready, probe};
use crate::server::words;
use crate::tools::{on_path, run};
use crate::unpacked::make_once;
use crate::{Error, Result, Server, packages};

/// The crate and its exact version.
const CRATE: &str = "secantus-mdb@0.5.3-beta.193";
/// How cargo builds it.
const INSTALL: &str = "install --quiet --locked --ignore-rust-version --no-default-features \
                       --features bin";

pub(crate) const SERVER: Server = Server {
    product: "secantusd (MongoDB-compatible)",
    cached: Some("secantus/bin"),
    programs: &["secantusd-rs"],
    url: mongo::URL,
    arguments: "--host 127.0.0.1 --port {port} --storage-path {folder}/data \
                --cache-size 256M --log-level WARNING",
    durable: "--sync-on-commit",
    is_ready,
    ..Server::new("mongo", probe)
};

/// Programs that the build needs, and Debian's packages of them.
const TOOLS: &[(&str, &str)] = &[("cmake", "cmake"), ("cc", "gcc"), ("c++", "g++")];

/// Its own profile takes four times as long to build and is no faster in tests.
const PROFILE: &[(&str, &str)] = &[
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1"),
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
];

/// Builds the program if it is missing.
///
/// # Errors
///
/// All are [`ErrorKind::Missing`](crate::ErrorKind::Missing): no compiler, no network.
pub(crate) fn install(progress: fn(&str)) -> Result<()> {
    progress(&format!(
        "building {CRATE} once, for lack of a mongod: some six minutes"
    ));
    let missing = TOOLS
        .iter()
        .filter(|(program, _)| on_path(program).is_none());
    let missing: Vec<_> = missing.map(|(_, package)| *package).collect();
    let tools = match missing.as_slice() {
        [] => Ok(()),
        missing => packages::install(missing),
    };
    let build = |target: &Path, fresh: &Path| run(&mut cargo(target, fresh)).map(drop);
    let built = tools.and_then(|()| make_once("secantus", build));
    let what = format!("{CRATE} of the Rust registry cannot be built");
    built.map_err(|error| Error::missing(what).with_source(error))
}

/// Builds outside this workspace, whose settings do not apply to it.
fn cargo(target: &Path, into: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir("/").args(words(INSTALL)).arg(CRATE);
    command.arg("--root").arg(into);
    command.arg("--target-dir").arg(target);
    command.envs(PROFILE.iter().copied());
    for variable in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET"] {
        command.env_remove(variable);
    }
    command
}
