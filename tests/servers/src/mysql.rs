use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::certificate::Certificate;
use crate::greeting;
use crate::mariadb::{ACCOUNTS, option, url};
use crate::root::{self, Root, loader};
use crate::server::{in_sbin, on_path};
use crate::site::has_account;
use crate::{Durability, Image, Product, Result, Server, Site, Transport};

const PROGRAMS: &[&str] = &["mysqld"];
const PORT: u16 = 3306;

/// Of Debian's suites only sid has it; the stable ones have MariaDB by that name.
const ROOT: Root = Root {
    name: "mysql",
    suites: &["sid"],
    packages: &["mysql-server-core"],
    without: &["perl", "perl-base"],
};

/// Oracle's MySQL: user `idem` with every privilege, password `idem` (`caching_sha2_password`), database `idem`.
#[derive(Clone, Copy, Debug)]
pub struct MySql;

impl Server for MySql {
    fn name(&self) -> &'static str {
        "mysql"
    }

    fn product(&self) -> &'static str {
        "MySQL"
    }

    fn packages(&self) -> &'static [&'static str] {
        ROOT.packages
    }

    fn install(&self, progress: fn(&str)) -> Result<()> {
        ROOT.install(progress)
    }

    fn advice(&self) -> String {
        "Put a `mysqld` that is not MariaDB's on `$PATH`".into()
    }

    fn account(&self) -> &'static str {
        if has_account("mysql") {
            "mysql"
        } else {
            "nobody"
        }
    }

    fn programs(&self) -> Option<PathBuf> {
        on_path(PROGRAMS)
            .filter(|folder| is_mysql(folder))
            .or_else(|| in_sbin(PROGRAMS).filter(|folder| is_mysql(folder)))
            .or_else(|| ROOT.programs("usr/sbin", PROGRAMS))
    }

    fn image(&self) -> Option<Image> {
        Some(Image {
            default: "mysql:9.4.0",
            port: PORT,
            environment: &[("MYSQL_ALLOW_EMPTY_PASSWORD", "1"), ("ACCOUNTS", ACCOUNTS)],
            arguments: &[
                "sh",
                "-c",
                "printf %s \"$ACCOUNTS\" > /docker-entrypoint-initdb.d/idem.sql && \
                 exec docker-entrypoint.sh mysqld --max-connections=500 --skip-log-bin --mysqlx=OFF \
                 --innodb-buffer-pool-size=64M --innodb-flush-log-at-trx-commit=2",
            ],
            licence: None,
        })
    }

    fn prepare(&self, site: &Site<'_>) -> Result<()> {
        site.write("accounts.sql", ACCOUNTS)?;
        if site.options().transport() == Transport::Tls {
            Certificate::make(site)?;
        }
        let mut initialize = mysqld(site);
        initialize.args([
            "--initialize-insecure",
            "--innodb-redo-log-capacity=8M",
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-flush-method=nosync",
        ]);
        site.run(&mut initialize)
    }

    /// The accounts are made at each start, before the server takes connections: while the data is being made it
    /// cannot make them.
    fn command(&self, site: &Site<'_>) -> Command {
        let mut command = mysqld(site);
        command.args(settings(site)).args([
            "--bind-address=127.0.0.1",
            "--mysqlx=OFF",
            "--max-connections=500",
            "--performance-schema=OFF",
            "--skip-log-bin",
        ]);
        command
    }

    fn url(&self, port: u16) -> String {
        url(port)
    }

    fn probe(&self, url: &str) -> Result<Product> {
        let version = greeting::version(url)?;
        Ok(Product::new(
            self.product(),
            Some(greeting::number(&version)),
        ))
    }
}

/// The server, told where everything of it is.
fn mysqld(site: &Site<'_>) -> Command {
    let programs = site.programs();
    let mut command = root::command(site, "mysqld");
    command.arg("--no-defaults");
    if loader(programs).is_some() {
        command.args(places(programs));
    }
    command
        .arg(option("datadir", &site.path("data")))
        .arg(option("tmpdir", site.folder()))
        .arg("--secure-file-priv=NULL");
    command
}

/// Its own files, in a folder that it was not built for.
fn places(programs: &Path) -> Vec<OsString> {
    let base = programs.parent().unwrap_or(programs);
    [
        ("basedir", ""),
        ("lc-messages-dir", "share/mysql"),
        ("character-sets-dir", "share/mysql/charsets"),
        ("plugin-dir", "lib/mysql/plugin"),
    ]
    .map(|(name, place)| option(name, &base.join(place)))
    .into()
}

fn settings(site: &Site<'_>) -> Vec<OsString> {
    let mut settings = vec![
        format!("--port={}", site.port()).into(),
        option("socket", &site.path("s")),
        option("pid-file", &site.path("server-pid")),
        option("init-file", &site.path("accounts.sql")),
    ];
    settings.extend(
        match site.options().durability() {
            // 2: written at each commit, so that it survives a kill of the process, and never forced to disk.
            Durability::Fast => &[
                "--innodb-flush-log-at-trx-commit=2",
                "--innodb-flush-method=nosync",
                "--innodb-buffer-pool-size=64M",
                "--innodb-redo-log-capacity=32M",
            ][..],
            Durability::Durable => &[
                "--innodb-buffer-pool-size=1G",
                "--innodb-redo-log-capacity=1G",
            ],
        }
        .iter()
        .map(Into::into),
    );
    if site.options().transport() == Transport::Tls {
        settings.extend(Certificate::options(site));
    }
    settings
}

/// On many systems `mysqld` is MariaDB's.
fn is_mysql(folder: &Path) -> bool {
    let output = Command::new(folder.join("mysqld"))
        .args(["--no-defaults", "--version"])
        .output();
    output.is_ok_and(|output| {
        output.status.success() && !String::from_utf8_lossy(&output.stdout).contains("MariaDB")
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{is_mysql, places};

    #[test]
    fn files_are_looked_for_beside_the_programs() {
        let places = places(Path::new("/c/usr/sbin"));
        assert!(
            places.contains(&"--lc-messages-dir=/c/usr/share/mysql".into()),
            "{places:?}"
        );
    }

    #[test]
    fn a_folder_without_a_mysqld_is_not_taken() {
        assert!(!is_mysql(Path::new("/nowhere")));
    }
}
