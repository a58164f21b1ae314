//! Programs that are built from the Rust registry, for servers that no distribution packages.
//!
//! Nothing here links to them or depends on them: each is built once, outside this workspace, and
//! started as a separate process.

use std::path::Path;
use std::process::Command;

use crate::server::words;
use crate::tools::{on_path, run};
use crate::unpacked::make_once;
use crate::{Error, Result, packages};

/// A program of the Rust registry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Built {
    /// The name of its folder in the cache.
    pub(crate) name: &'static str,
    /// The crate and its exact version.
    pub(crate) package: &'static str,
    /// The features, as arguments of cargo.
    pub(crate) features: &'static str,
    /// Programs that the build needs, and Debian's packages of them.
    pub(crate) tools: &'static [(&'static str, &'static str)],
    /// Why it is built, and how long it takes.
    pub(crate) reason: &'static str,
}

/// How cargo builds it.
const INSTALL: &str = "install --quiet --locked --ignore-rust-version";

/// The profiles of these crates take far longer to build, and are no faster in tests.
const PROFILE: &[(&str, &str)] = &[
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1"),
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
];

impl Built {
    /// Builds the program if it is missing.
    ///
    /// # Errors
    ///
    /// All are [`ErrorKind::Missing`](crate::ErrorKind::Missing): no compiler, no network.
    pub(crate) fn install(&self, progress: fn(&str)) -> Result<()> {
        let Self {
            name,
            package,
            tools,
            reason,
            ..
        } = self;
        progress(&format!("building {package} once, {reason}"));
        let missing = tools
            .iter()
            .filter(|(program, _)| on_path(program).is_none());
        let missing: Vec<_> = missing.map(|(_, package)| *package).collect();
        let tools = match missing.as_slice() {
            [] => Ok(()),
            missing => packages::install(missing),
        };
        let build = |target: &Path, fresh: &Path| run(&mut self.cargo(target, fresh)).map(drop);
        let built = tools.and_then(|()| make_once(name, build));
        let what = format!("{package} of the Rust registry cannot be built");
        let built = built.map(drop);
        built.map_err(|error| Error::missing(what).with_source(error))
    }

    /// Builds outside this workspace, whose settings do not apply to it.
    fn cargo(&self, target: &Path, into: &Path) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir("/").args(words(INSTALL));
        command.args(words(self.features)).arg(self.package);
        command.arg("--root").arg(into);
        command.arg("--target-dir").arg(target);
        command.envs(PROFILE.iter().copied());
        for variable in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET"] {
            command.env_remove(variable);
        }
        command
    }
}
