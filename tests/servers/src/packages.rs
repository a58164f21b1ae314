use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use crate::folder::is_root;
use crate::tools::run;
use crate::{Error, Result, Server};

const POLICY: &str = "/usr/sbin/policy-rc.d";

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
/// distribution has none.
pub(crate) fn install_for(server: &Server, progress: fn(&str)) -> Result<()> {
    let mut packages = server.packages.iter();
    let has_packages = !server.packages.is_empty();
    match server.unpacked {
        Some(unpacked) if !(has_packages && packages.all(|package| is_installable(package))) => {
            unpacked.install(progress)
        }
        _ if has_packages => {
            let list = server.packages.join(" ");
            progress(&format!("installing packages: {list}"));
            install(server.packages)
        }
        _ => {
            let what = format!("no package brings {}", server.product);
            Err(Error::missing(what))
        }
    }
}

/// Returns whether the distribution has that package and this user may install it.
fn is_installable(package: &str) -> bool {
    if may_install().is_err() || update().is_err() {
        return false;
    }
    let mut show = Command::new("apt-cache");
    let output = show.args(["show", "--no-all-versions", package]).output();
    output.is_ok_and(|output| output.status.success() && !output.stdout.is_empty())
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
    may_install()
        .map_err(|reason| Error::missing(format!("{reason}: `apt-get install {list}`")))?;
    update()?;
    let _quiet = NoServices::begin();
    let mut command = apt();
    command.args(["install", "-y", "--no-install-recommends"]);
    run(command.args(packages)).map(drop)
}

fn may_install() -> Result<(), &'static str> {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    match (is_debian(&release, true), is_root()) {
        (false, _) => Err("packages can be installed on Debian and Ubuntu only"),
        (true, false) => Err("not root"),
        (true, true) => Ok(()),
    }
}

/// Updates the package lists once per process.
fn update() -> Result<()> {
    static DONE: OnceLock<Option<String>> = OnceLock::new();
    let failure = DONE.get_or_init(|| {
        let updated = run(apt().arg("update"));
        updated.err().map(|error| error.to_string())
    });
    failure
        .clone()
        .map_or(Ok(()), |message| Err(Error::failed(message)))
}

pub(crate) fn apt() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command.args(["-q", "-o", "DPkg::Lock::Timeout=300"]);
    command
}

/// Returns whether an `os-release` names Debian, or, if relatives count, a system based on it.
pub(crate) fn is_debian(release: &str, relatives: bool) -> bool {
    let mut fields = release.lines().filter_map(|line| line.split_once('='));
    fields.any(|(name, value)| {
        let mut ids = value.trim_matches('"').split(' ');
        (name == "ID" || name == "ID_LIKE" && relatives)
            && ids.any(|id| id == "debian" || id == "ubuntu" && relatives)
    })
}

/// Prevents installed packages from starting their services while it lives: Debian runs this script
/// first, and 101 means no. An existing script (container images have one) is left alone.
struct NoServices {
    ours: bool,
}

impl NoServices {
    fn begin() -> Self {
        let executable = fs::Permissions::from_mode(0o755);
        let ours = !Path::new(POLICY).exists()
            && fs::write(POLICY, "#!/bin/sh\nexit 101\n").is_ok()
            && fs::set_permissions(POLICY, executable).is_ok();
        Self { ours }
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if self.ours {
            let _ = fs::remove_file(POLICY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{install_for, is_debian};
    use crate::server;

    #[test]
    fn debian_and_its_relatives_are_known() {
        assert!(is_debian("NAME=\"Debian GNU/Linux\"\nID=debian\n", false));
        assert!(is_debian("ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n", true));
        assert!(!is_debian("ID=ubuntu\nID_LIKE=debian\n", false));
        assert!(!is_debian("ID=fedora\nNAME=\"not debian\"\n", true));
    }

    #[test]
    fn nothing_is_installed_for_a_server_without_packages() {
        let error = install_for(server("mssql").unwrap(), |_| {}).unwrap_err();
        assert_eq!(error.to_string(), "no package brings SQL Server");
    }
}
