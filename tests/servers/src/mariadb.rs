use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::certificate::Certificate;
use crate::greeting;
use crate::server::{holds, in_sbin, on_path};
use crate::{Durability, Image, Product, Result, Server, Site, Transport};

pub(crate) const PROGRAMS: &[&str] = &["mariadbd"];
const PORT: u16 = 3306;

/// What every server that speaks MySQL's protocol gets: user and database `idem`, password `idem`. One statement
/// a line. An anonymous user at `localhost` would go before one at `%`, so all three are named.
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
#[derive(Clone, Copy, Debug)]
pub struct MariaDb;

impl Server for MariaDb {
    fn name(&self) -> &'static str {
        "mariadb"
    }

    fn product(&self) -> &'static str {
        "MariaDB"
    }

    fn packages(&self) -> &'static [&'static str] {
        &["mariadb-server"]
    }

    fn account(&self) -> &'static str {
        "mysql"
    }

    fn programs(&self) -> Option<PathBuf> {
        on_path(PROGRAMS).or_else(|| in_sbin(PROGRAMS))
    }

    fn image(&self) -> Option<Image> {
        Some(Image {
            default: "mariadb:11.8.3",
            port: PORT,
            environment: &[
                ("MARIADB_ALLOW_EMPTY_ROOT_PASSWORD", "1"),
                ("ACCOUNTS", ACCOUNTS),
            ],
            // The image's own variables make a user without the privileges that tests need.
            arguments: &[
                "sh",
                "-c",
                "printf %s \"$ACCOUNTS\" > /docker-entrypoint-initdb.d/idem.sql && \
                 exec docker-entrypoint.sh mariadbd --max-connections=500 --skip-log-bin \
                 --innodb-buffer-pool-size=64M --innodb-flush-log-at-trx-commit=2",
            ],
            licence: None,
        })
    }

    fn prepare(&self, site: &Site<'_>) -> Result<()> {
        make_data(site)?;
        if site.options().transport() == Transport::Tls {
            Certificate::make(site)?;
        }
        Ok(())
    }

    fn command(&self, site: &Site<'_>) -> Command {
        let mut command = site.command("mariadbd");
        command.args(settings(site)).arg("--skip-log-bin");
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

/// What a client of a server that speaks MySQL's protocol connects to.
pub(crate) fn url(port: u16) -> String {
    format!("mysql://idem:idem@127.0.0.1:{port}/idem")
}

/// A folder of data with the accounts in it.
pub(crate) fn make_data(site: &Site<'_>) -> Result<()> {
    let accounts = site.write("accounts.sql", ACCOUNTS)?;
    let mut install = site.command(tool(site.programs(), "mariadb-install-db"));
    install.args([
        "--no-defaults",
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
        "--skip-name-resolve",
        "--innodb-flush-method=nosync",
    ]);
    install.arg(option("datadir", &site.path("data")));
    // Of its own: each server that starts removes the temporary tables that it finds, whosever they are.
    install.arg(option("tmpdir", site.folder()));
    site.run(install.arg(option("extra-file", &accounts)))
}

/// What every server of our own is started with. `--no-defaults` has to come first.
pub(crate) fn settings(site: &Site<'_>) -> Vec<OsString> {
    let mut settings: Vec<OsString> = vec![
        "--no-defaults".into(),
        option("datadir", &site.path("data")),
        option("tmpdir", site.folder()),
        option("socket", &site.path("s")),
        option("pid-file", &site.path("server-pid")),
        format!("--port={}", site.port()).into(),
        "--bind-address=127.0.0.1".into(),
        "--max-connections=500".into(),
    ];
    settings.extend(
        match site.options().durability() {
            // 2: written at each commit, so that it survives a kill of the process, and never forced to disk.
            Durability::Fast => &[
                "--innodb-flush-log-at-trx-commit=2",
                "--innodb-flush-method=nosync",
                "--innodb-buffer-pool-size=64M",
                "--innodb-log-file-size=32M",
            ][..],
            Durability::Durable => &["--innodb-buffer-pool-size=1G", "--innodb-log-file-size=1G"],
        }
        .iter()
        .map(Into::into),
    );
    if site.options().transport() == Transport::Tls {
        settings.extend(Certificate::options(site));
    }
    settings
}

/// `--name=path`.
pub(crate) fn option(name: &str, path: &Path) -> OsString {
    let mut option = OsString::from(format!("--{name}="));
    option.push(path);
    option
}

/// A program that comes with the server: beside it, in `bin` where the server is in `sbin`, or in the `scripts` of
/// an unpacked archive.
pub(crate) fn tool(programs: &Path, name: &str) -> PathBuf {
    ["", "../bin", "../scripts"]
        .iter()
        .map(|place| programs.join(place))
        .find(|folder| holds(folder, &[name]))
        .or_else(|| on_path(&[name]))
        .unwrap_or_else(|| programs.into())
        .join(name)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{ACCOUNTS, option, tool};

    #[test]
    fn accounts_are_one_statement_a_line() {
        assert!(ACCOUNTS.lines().all(|line| line.ends_with(';')));
    }

    #[test]
    fn an_option_names_its_path() {
        assert_eq!(option("socket", Path::new("/tmp/x/s")), "--socket=/tmp/x/s");
    }

    #[test]
    fn a_tool_is_found_beside_its_server_or_in_bin() {
        assert_eq!(tool(Path::new("/bin"), "sh"), Path::new("/bin/sh"));
        assert_eq!(
            tool(Path::new("/usr/sbin"), "env"),
            Path::new("/usr/sbin/../bin/env")
        );
        assert_eq!(
            tool(Path::new("/nowhere"), "idem-no-such-tool"),
            Path::new("/nowhere/idem-no-such-tool")
        );
    }
}
