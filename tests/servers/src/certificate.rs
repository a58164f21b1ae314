use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::mariadb::option;
use crate::site::run;
use crate::{Result, Site};

const DAYS: &str = "3650";
const EXTENSIONS: &str = "basicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\nsubjectAltName=DNS:localhost,IP:127.0.0.1\n";

/// A certificate authority of its own for one server, and the server's certificate for `localhost` and 127.0.0.1.
/// Two certificates, because clients refuse an authority's own as a server's.
pub(crate) struct Certificate;

impl Certificate {
    pub(crate) const AUTHORITY: &'static str = "ca.crt";
    pub(crate) const KEY: &'static str = "server.key";
    pub(crate) const OWN: &'static str = "server.crt";

    /// Makes both in the server's folder, with `openssl`.
    pub(crate) fn make(site: &Site<'_>) -> Result<()> {
        let folder = site.folder();
        site.write("server.ext", EXTENSIONS)?;
        request(
            folder,
            "ca.key",
            Self::AUTHORITY,
            "idem test authority",
            &["-x509", "-days", DAYS],
        )?;
        request(folder, Self::KEY, "server.csr", "localhost", &[])?;
        let mut sign = openssl(folder);
        sign.args([
            "x509",
            "-req",
            "-in",
            "server.csr",
            "-CA",
            Self::AUTHORITY,
            "-CAkey",
            "ca.key",
        ]);
        sign.args([
            "-CAcreateserial",
            "-days",
            DAYS,
            "-extfile",
            "server.ext",
            "-out",
            Self::OWN,
        ]);
        run(&mut sign)?;
        site.hand_over(&site.path(Self::KEY))?;
        site.hand_over(&site.path(Self::OWN))
    }

    /// As MySQL and MariaDB are told of them.
    pub(crate) fn options(site: &Site<'_>) -> [OsString; 3] {
        [
            ("ssl-ca", Self::AUTHORITY),
            ("ssl-cert", Self::OWN),
            ("ssl-key", Self::KEY),
        ]
        .map(|(name, file)| option(name, &site.path(file)))
    }

    /// The authority's certificate of the server in that folder, where it has one.
    pub(crate) fn authority(folder: &Path) -> Option<PathBuf> {
        Some(folder.join(Self::AUTHORITY)).filter(|path| path.is_file())
    }
}

fn request(folder: &Path, key: &str, out: &str, name: &str, more: &[&str]) -> Result<()> {
    let mut command = openssl(folder);
    command.args([
        "req",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]);
    command
        .args(["-keyout", key, "-out", out, "-subj", &format!("/CN={name}")])
        .args(more);
    run(&mut command)
}

fn openssl(folder: &Path) -> Command {
    let mut command = Command::new("openssl");
    command.current_dir(folder);
    command
}
