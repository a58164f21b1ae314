use std::path::{Path, PathBuf};
use std::process::Command;

use crate::certificate::{self, option};
use crate::mariadb::{ACCOUNTS, places, probe, url};
use crate::server::{Kind, Tls};
use crate::tools::{find, loader, run};
use crate::unpacked::Unpacked;
use crate::{Durability, Image, Product, Result, Server, Site};

/// Oracle's MySQL: user `idem` with every privilege, password `idem` (`caching_sha2_password`),
/// database `idem`.
pub(crate) static SERVER: Server = Server {
    product: "MySQL",
    // Of Debian's suites only sid has it; in the stable ones that name is MariaDB.
    unpacked: Some(Unpacked {
        name: "mysql",
        suites: &["sid"],
        packages: &["mysql-server-core", "mysql-client-core"],
        without: &["perl", "perl-base"],
        folder: "usr/sbin",
    }),
    programs: &["mysqld"],
    accounts: &["mysql", "nobody"],
    tls: Tls::SamePort,
    image: Some(Image {
        environment: &[("MYSQL_ALLOW_EMPTY_PASSWORD", "1"), ("ACCOUNTS", ACCOUNTS)],
        arguments: &[
            "sh",
            "-c",
            "printf %s \"$ACCOUNTS\" > /docker-entrypoint-initdb.d/idem.sql && \
             exec docker-entrypoint.sh mysqld --max-connections=500 --skip-log-bin --mysqlx=OFF \
             --innodb-buffer-pool-size=64M --innodb-flush-log-at-trx-commit=2",
        ],
        question: &[
            "mysql",
            "-h127.0.0.1",
            "-uidem",
            "-pidem",
            "-BNeSELECT version()",
        ],
        ..Image::new("mysql:9.4.0", 3306)
    }),
    ..Server::new("mysql", &MySql)
};

#[derive(Debug)]
struct MySql;

impl Kind for MySql {
    fn programs(&self, server: &Server) -> Option<PathBuf> {
        find(server.programs)
            .filter(|folder| is_mysql(folder))
            .or_else(|| server.unpacked?.programs(server.programs))
    }

    fn prepare(&self, site: &Site<'_>) -> Result<()> {
        site.write("accounts.sql", ACCOUNTS)?;
        certificate::make(site)?;
        let mut initialize = mysqld(site);
        initialize.arg(option("tmpdir", site.folder));
        run(initialize.args([
            "--initialize-insecure",
            "--innodb-redo-log-capacity=8M",
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-flush-method=nosync",
        ]))
        .map(drop)
    }

    /// The accounts are created at each start, before the server takes connections: it cannot
    /// create them while it creates the data.
    fn command(&self, site: &Site<'_>) -> Command {
        let mut command = mysqld(site);
        command.args(places(site)).args(certificate::options(site));
        command.arg(option("init-file", &site.path("accounts.sql")));
        command.args([
            "--bind-address=127.0.0.1",
            "--mysqlx=OFF",
            "--max-connections=500",
            "--performance-schema=OFF",
            "--skip-log-bin",
        ]);
        let durability: &[&str] = match site.options.durability {
            // 2: written at each commit, so that it survives a kill of the process, and never
            // forced to disk.
            Durability::Fast => &[
                "--innodb-flush-log-at-trx-commit=2",
                "--innodb-flush-method=nosync",
                "--innodb-buffer-pool-size=64M",
                "--innodb-redo-log-capacity=32M",
            ],
            Durability::Durable => &[
                "--innodb-buffer-pool-size=1G",
                "--innodb-redo-log-capacity=1G",
            ],
        };
        command.args(durability);
        command
    }

    fn url(&self, port: u16) -> String {
        url(port)
    }

    fn probe(&self, url: &str, programs: &Path) -> Result<Product> {
        probe("MySQL", url, programs)
    }
}

/// Returns the server, with the paths of its own files if it is in a folder that it was not built
/// for.
fn mysqld(site: &Site<'_>) -> Command {
    let mut command = site.command(&["mysqld"]);
    command.arg("--no-defaults");
    if loader(site.programs).is_some() {
        let base = site.programs.parent().unwrap_or(site.programs);
        for (name, place) in [
            ("basedir", ""),
            ("lc-messages-dir", "share/mysql"),
            ("character-sets-dir", "share/mysql/charsets"),
            ("plugin-dir", "lib/mysql/plugin"),
        ] {
            command.arg(option(name, &base.join(place)));
        }
    }
    command.arg(option("datadir", &site.path("data")));
    command.arg("--secure-file-priv=NULL");
    command
}

/// Checks that `mysqld` is not MariaDB's, as on many systems.
fn is_mysql(folder: &Path) -> bool {
    let mut mysqld = Command::new(folder.join("mysqld"));
    let version = run(mysqld.args(["--no-defaults", "--version"]));
    version.is_ok_and(|version| !version.contains("MariaDB"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::is_mysql;

    #[test]
    fn a_folder_without_a_mysqld_is_not_taken() {
        assert!(!is_mysql(Path::new("/nowhere")));
    }
}
