//! Servers in containers, by the program of `idem-containers`: this crate does without its
//! dependencies.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::error::Doing;
use crate::state::target;
use crate::tools::{environment, on_path, run};
use crate::{Error, Product, Result, Server, variable};

const PROGRAM: &str = "idem-containers";
const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/containers/Cargo.toml");

/// What the program prints once the server answers.
#[derive(Deserialize)]
struct Started {
    url: String,
    version: Option<String>,
}

/// Returns the program that starts this server in a container, in the folder that
/// `IDEM_CONTAINERS_BIN_DIR` names. Without that variable cargo builds it, into the target folder of
/// this workspace, if an engine may be there.
pub(crate) fn program(server: &Server, progress: fn(&str)) -> Result<PathBuf> {
    let product = server.product;
    let missing = || Error::missing(format!("there is no container image of {product}"));
    let licence = server.image.ok_or_else(missing)?.licence;
    let is_accepted = |variable: &str| environment(variable).is_some_and(|value| value == "Y");
    if let Some(variable) = licence.filter(|variable| !is_accepted(variable)) {
        let what = format!("the licence of its image is not accepted ({variable}=Y does so)");
        return Err(Error::missing(what));
    }
    if environment("DOCKER_HOST").is_none() && on_path("docker").is_none() {
        let what = "no container engine: DOCKER_HOST is not set, and no `docker` is on $PATH";
        return Err(Error::missing(what));
    }
    if let Some(folder) = environment(&variable("containers", "BIN_DIR")) {
        return Ok(Path::new(&folder).join(PROGRAM));
    }
    let missing = || Error::missing("this program is in no target folder");
    let target = target().ok_or_else(missing)?;
    progress("building idem-containers, once: some two minutes");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args([
        "build",
        "--quiet",
        "--manifest-path",
        MANIFEST,
        "--target-dir",
    ]);
    run(cargo.arg(&target))
        .map_err(|error| Error::missing("idem-containers cannot be built").with_source(error))?;
    Ok(target.join("debug").join(PROGRAM))
}

/// Returns the URL and the product of a server that has started, from the program's output.
pub(crate) fn started(server: &Server, log: &Path) -> Result<(String, Product)> {
    let printed = std::fs::read_to_string(log).doing(|| "no output".into())?;
    let mut started = printed
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let starting = || Error::failed("the container is not ready");
    let Started { url, version } = started.next().ok_or_else(starting)?;
    let product = Product::returned(server.product, &version.unwrap_or_default());
    Ok((url, product))
}
