//! A certificate authority for one server, and the server's certificate for `localhost` and
//! 127.0.0.1. There are two certificates, because clients refuse an authority's own as a server's.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tools::run;
use crate::{Result, Site};

pub(crate) const AUTHORITY: &str = "ca.crt";
pub(crate) const KEY: &str = "server.key";
pub(crate) const OWN: &str = "server.crt";

/// Makes both in the server's folder, with `openssl`, if the server has to speak TLS.
pub(crate) fn make(site: &Site<'_>) -> Result<()> {
    if !site.has_tls() {
        return Ok(());
    }
    request(site, "ca.key", AUTHORITY, "idem test authority", &[])?;
    let by_authority = ["-CA", AUTHORITY, "-CAkey", "ca.key"];
    let extensions = [
        "basicConstraints=CA:FALSE",
        "extendedKeyUsage=serverAuth",
        "subjectAltName=DNS:localhost,IP:127.0.0.1",
    ];
    let extensions = extensions.iter().flat_map(|text| ["-addext", text]);
    let more: Vec<_> = by_authority.into_iter().chain(extensions).collect();
    request(site, KEY, OWN, "localhost", &more)?;
    site.hand_over(&site.path(KEY))?;
    site.hand_over(&site.path(OWN))
}

fn request(site: &Site<'_>, key: &str, out: &str, name: &str, more: &[&str]) -> Result<()> {
    let mut command = Command::new("openssl");
    command
        .current_dir(site.folder)
        .args(["req", "-x509", "-nodes"]);
    command.args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]);
    command.args(["-days", "3650", "-keyout", key, "-out", out]);
    command.args(["-subj", &format!("/CN={name}")]).args(more);
    run(&mut command).map(drop)
}

/// Returns settings of MySQL and MariaDB.
pub(crate) fn options(site: &Site<'_>) -> Vec<OsString> {
    let files = [("ssl-ca", AUTHORITY), ("ssl-cert", OWN), ("ssl-key", KEY)];
    let files = files.iter().filter(|_| site.has_tls());
    files
        .map(|(name, file)| option(name, &site.path(file)))
        .collect()
}

/// Returns `--name=path`.
pub(crate) fn option(name: &str, path: &Path) -> OsString {
    let mut option = OsString::from(format!("--{name}="));
    option.push(path);
    option
}

/// Returns the authority's certificate of the server in that folder, if it has one.
pub(crate) fn authority(folder: &Path) -> Option<PathBuf> {
    Some(folder.join(AUTHORITY)).filter(|path| path.is_file())
}
