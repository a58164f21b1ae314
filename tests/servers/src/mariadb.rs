use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use crate::certificate::{self, option};
use crate::server::{Kind, Tls};
use crate::tools::{ask, decoded, parse, run, tool};
use crate::{Durability, Image, Product, Result, Server, Site};

/// The accounts of every server with MySQL's protocol: user and database `idem`, password `idem`.
/// One statement per line. An anonymous user at `localhost` would take precedence over one at `%`,
/// so all three are named.
pub(crate) const ACCOUNTS: &str = "\
FLUSH PRIVILEGES;
CREATE DATABASE IF NOT EXISTS idem;
CREATE USER IF NOT EXISTS 'idem'@'%' IDENTIFIED BY 'idem';
CREATE USER IF NOT EXISTS 'idem'@'localhost' IDENTIFIED BY 'idem';
CREATE USER IF NOT EXISTS 'idem'@'127.0.0.1' IDENTIFIED BY 'idem';
GRANT ALL PRIVILEGES ON *.* TO 'idem'@'%' WITH GRANT OPTION;
GRANT ALL PRIVILEGES ON *.* TO 'idem'@'localhost' WITH GRANT OPTION;
GRANT ALL PRIVILEGES ON *.* TO 'idem'@'127.0.0.1' WITH GRANT OPTION;
";

/// MariaDB: user `idem` with every privilege, password `idem`, database `idem`.
pub(crate) static SERVER: Server = Server {
    product: "MariaDB",
    packages: &["mariadb-server"],
    programs: &["mariadbd"],
    accounts: &["mysql"],
    tls: Tls::SamePort,
    image: Some(Image {
        environment: &[
            ("MARIADB_ALLOW_EMPTY_ROOT_PASSWORD", "1"),
            ("ACCOUNTS", ACCOUNTS),
        ],
        // The image's own variables create a user without the privileges that tests need.
        arguments: &[
            "sh",
            "-c",
            "printf %s \"$ACCOUNTS\" > /docker-entrypoint-initdb.d/idem.sql && \
             exec docker-entrypoint.sh mariadbd --max-connections=500 --skip-log-bin \
             --innodb-buffer-pool-size=64M --innodb-flush-log-at-trx-commit=2",
        ],
        question: &[
            "mariadb",
            "-h127.0.0.1",
            "-uidem",
            "-pidem",
            "-BNeSELECT version()",
        ],
        ..Image::new("mariadb:11.8.3", 3306)
    }),
    ..Server::new("mariadb", &MariaDb)
};

#[derive(Debug)]
struct MariaDb;

impl Kind for MariaDb {
    fn prepare(&self, site: &Site<'_>) -> Result<()> {
        make_data(site)?;
        certificate::make(site)
    }

    fn command(&self, site: &Site<'_>) -> Command {
        let mut command = site.command(&["mariadbd"]);
        command.args(settings(site)).arg("--skip-log-bin");
        command
    }

    fn url(&self, port: u16) -> String {
        url(port)
    }

    fn probe(&self, url: &str, programs: &Path) -> Result<Product> {
        probe("MariaDB", url, programs)
    }
}

/// Returns the URL for clients of a server that speaks MySQL's protocol.
pub(crate) fn url(port: u16) -> String {
    format!("mysql://idem:idem@127.0.0.1:{port}/idem")
}

/// Returns the server at `url`, by its version.
pub(crate) fn probe(product: &str, url: &str, programs: &Path) -> Result<Product> {
    let url = parse(url)?;
    let mut client = client(programs);
    client.arg(format!("--host={}", url.host_str().unwrap_or("localhost")));
    client.arg(format!("--port={}", url.port().unwrap_or(3306)));
    if let Some(user) = decoded(Some(url.username())) {
        client.arg(format!("--user={user}"));
    }
    client.env("MYSQL_PWD", decoded(url.password()).unwrap_or_default());
    let version = ask(
        client.args(["--protocol=tcp", "--execute=SELECT version()"]),
        "",
    )?;
    Ok(Product::returned(product, &version))
}

/// Returns the client program of MariaDB or MySQL, which prints values without column names.
pub(crate) fn client(programs: &Path) -> Command {
    let mut client = tool(programs, &["mariadb", "mysql"]);
    client.args([
        "--no-defaults",
        "--connect-timeout=5",
        "--batch",
        "--skip-column-names",
    ]);
    client
}

/// Creates a data folder with the accounts in it.
pub(crate) fn make_data(site: &Site<'_>) -> Result<()> {
    let accounts = site.write("accounts.sql", ACCOUNTS)?;
    let mut install = site.command(&["mariadb-install-db"]);
    install.args([
        "--no-defaults",
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
        "--skip-name-resolve",
        "--innodb-flush-method=nosync",
    ]);
    install.arg(option("datadir", &site.path("data")));
    // A separate folder: each starting server removes the temporary tables that it finds, even
    // those of other servers.
    install.arg(option("tmpdir", site.folder));
    run(install.arg(option("extra-file", &accounts))).map(drop)
}

/// Returns the settings of every MariaDB. `--no-defaults` has to come first.
pub(crate) fn settings(site: &Site<'_>) -> Vec<OsString> {
    let mut settings = vec![
        "--no-defaults".into(),
        option("datadir", &site.path("data")),
        "--bind-address=127.0.0.1".into(),
        "--max-connections=500".into(),
    ];
    settings.extend(places(site));
    let durability: &[&str] = match site.options.durability {
        // 2: written at each commit, so that it survives a kill of the process, and never forced to
        // disk.
        Durability::Fast => &[
            "--innodb-flush-log-at-trx-commit=2",
            "--innodb-flush-method=nosync",
            "--innodb-buffer-pool-size=64M",
            "--innodb-log-file-size=32M",
        ],
        Durability::Durable => &["--innodb-buffer-pool-size=1G", "--innodb-log-file-size=1G"],
    };
    settings.extend(durability.iter().map(Into::into));
    settings.extend(certificate::options(site));
    settings
}

/// Returns port, socket and files of a running server that speaks MySQL's protocol.
pub(crate) fn places(site: &Site<'_>) -> [OsString; 4] {
    [
        format!("--port={}", site.port).into(),
        option("socket", &site.path("s")),
        option("tmpdir", site.folder),
        option("pid-file", &site.path("server-pid")),
    ]
}

#[cfg(test)]
mod tests {
    use super::ACCOUNTS;

    #[test]
    fn accounts_are_one_statement_a_line() {
        assert!(ACCOUNTS.lines().all(|line| line.ends_with(';')));
    }
}
