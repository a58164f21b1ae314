use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use crate::site::{is_root, run};
use crate::{Error, Result};

const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Whether these packages of the distribution are installed.
pub fn is_installed(packages: &[&str]) -> bool {
    packages.iter().all(|package| {
        let mut query = Command::new("dpkg-query");
        let output = query
            .args(["-W", "-f", "${db:Status-Status}", package])
            .output();
        output.is_ok_and(|output| output.stdout == b"installed")
    })
}

/// Whether we can install that package: the distribution has it, and we may.
pub(crate) fn is_installable(package: &str) -> bool {
    if !is_debian() || !is_root() || update().is_err() {
        return false;
    }
    let output = Command::new("apt-cache")
        .args(["show", "--no-all-versions", package])
        .output();
    output.is_ok_and(|output| output.status.success() && !output.stdout.is_empty())
}

/// Installs packages of Debian or Ubuntu, without what they merely recommend and without starting services.
/// As anybody but root, or on another system, it says what to do instead.
pub fn install(packages: &[&str]) -> Result<()> {
    let list = packages.join(" ");
    if !is_debian() {
        return Err(Error::missing(format!(
            "packages can be installed on Debian and Ubuntu only (here: {list})"
        )));
    }
    if !is_root() {
        return Err(Error::missing(format!(
            "not root: `sudo apt-get install {list}`"
        )));
    }
    update()?;
    let _quiet = NoServices::begin();
    let mut command = apt();
    run(command
        .args(["install", "-y", "--no-install-recommends"])
        .args(packages))
}

/// Lists are fetched once a process.
fn update() -> Result<()> {
    static DONE: OnceLock<Option<String>> = OnceLock::new();
    match DONE.get_or_init(|| {
        run(apt().arg("update"))
            .err()
            .map(|error| error.to_string())
    }) {
        None => Ok(()),
        Some(message) => Err(Error::failed(message.clone())),
    }
}

fn apt() -> Command {
    let mut command = Command::new("apt-get");
    command
        .env("DEBIAN_FRONTEND", "noninteractive")
        .args(["-q", "-o", "DPkg::Lock::Timeout=300"]);
    command
}

fn is_debian() -> bool {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    says_debian(&release)
}

fn says_debian(release: &str) -> bool {
    let values = release
        .lines()
        .filter_map(|line| line.strip_prefix("ID=").or(line.strip_prefix("ID_LIKE=")));
    values
        .flat_map(|value| value.trim_matches('"').split(' '))
        .any(|id| id == "debian" || id == "ubuntu")
}

/// While it lives, installed packages do not start their services: Debian asks this file, and 101 is no.
/// One that is there already (container images have it) is left alone.
struct NoServices {
    ours: bool,
}

impl NoServices {
    fn begin() -> Self {
        use std::os::unix::fs::PermissionsExt;
        let ours = !Path::new(POLICY).exists()
            && std::fs::write(POLICY, "#!/bin/sh\nexit 101\n").is_ok()
            && std::fs::set_permissions(POLICY, std::fs::Permissions::from_mode(0o755)).is_ok();
        Self { ours }
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if self.ours {
            let _ = std::fs::remove_file(POLICY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::says_debian;

    #[test]
    fn debian_and_what_is_like_it_are_known() {
        assert!(says_debian("NAME=\"Debian GNU/Linux\"\nID=debian\n"));
        assert!(says_debian("ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n"));
        assert!(!says_debian("ID=fedora\nNAME=\"not debian\"\n"));
    }
}
