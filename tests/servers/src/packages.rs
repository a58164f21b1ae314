use std::process::Command;
use std::sync::LazyLock;

use crate::folder::is_root;
use crate::tools::{on_path, run};
use crate::{Error, Result, Server};

/// Debian runs this script before an installed package starts its services, and 101 means no. An
/// existing script (container images have one) is left alone.
const POLICY: &str = "/usr/sbin/policy-rc.d";
const APT: &str = r#"
if [ ! -e "$0" ]; then
    trap 'rm -f "$0"' EXIT
    printf '#!/bin/sh\nexit 101\n' > "$0"
    chmod 755 "$0"
fi
apt-get -q -o DPkg::Lock::Timeout=300 "$@"
"#;

/// Returns whether these packages of the distribution are installed.
pub fn is_installed(packages: &[&str]) -> bool {
    packages.iter().all(|package| {
        let mut query = Command::new("dpkg-query");
        let query = query.args(["-W", "-f", "${db:Status-Status}", package]);
        let output = query.output();
        output.is_ok_and(|output| output.stdout == b"installed")
    })
}

/// Installs the programs of a server, or unpacks them if it has packages for that and the
/// distribution has none, or this user may not install them.
pub(crate) fn install_for(server: &Server, progress: fn(&str)) -> Result<()> {
    let what = format!("no package brings {}", server.product);
    let mut installed = Err(Error::missing(what));
    if !server.packages.is_empty() {
        let list = server.packages.join(" ");
        progress(&format!("installing packages: {list}"));
        installed = install(server.packages);
    }
    match (server.unpacked, installed) {
        (Some(unpacked), Err(_)) => unpacked.install(progress),
        (_, installed) => installed,
    }
}

/// Unpacks the programs of a server, and installs nothing.
pub(crate) fn unpack_for(server: &Server, progress: fn(&str)) -> Result<()> {
    let missing = || Error::missing(format!("no package brings {}", server.product));
    server.unpacked.ok_or_else(missing)?.install(progress)
}

/// Installs packages of Debian or Ubuntu, without recommended packages and without starting
/// services.
///
/// # Errors
///
/// An error when they cannot be installed. Without root, or on another system, it says what to do
/// instead.
pub fn install(packages: &[&str]) -> Result<()> {
    let list = packages.join(" ");
    let refused = |reason| Error::missing(format!("{reason}: `apt-get install {list}`"));
    if on_path("apt-get").is_none() {
        return Err(refused("packages are installed on Debian and Ubuntu only"));
    }
    if !is_root() {
        return Err(refused("not root"));
    }
    let updated = UPDATED.as_ref();
    updated.map_err(|reason| Error::failed(reason.clone()))?;
    apt(&[&["install", "-y", "--no-install-recommends"], packages].concat()).map(drop)
}

/// Updates the package lists, once per process.
static UPDATED: LazyLock<Result<String, String>> =
    LazyLock::new(|| apt(&["update"]).map_err(|error| error.to_string()));

fn apt(arguments: &[&str]) -> Result<String> {
    let mut command = Command::new("sh");
    command.args(["-e", "-c", APT, POLICY]).args(arguments);
    run(command.env("DEBIAN_FRONTEND", "noninteractive"))
}

#[cfg(test)]
mod tests {
    use super::install_for;
    use crate::server;

    #[test]
    fn nothing_is_installed_for_a_server_without_packages() {
        let error = install_for(server("mssql").unwrap(), |_| {}).unwrap_err();
        assert_eq!(error.to_string(), "no package brings SQL Server");
    }
}
