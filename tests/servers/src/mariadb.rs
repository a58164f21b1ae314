use std::path::Path;
use std::process::Command;

use crate::server::{Image, Setting, Tls};
use crate::tools::{ask, decoded, parse, tool};
use crate::{Product, Result, Server};

/// The accounts of every server with MySQL's protocol: user and database `idem`, password `idem`.
/// One statement per line. An anonymous user at `localhost` would take precedence over one at `%`,
/// so all three are named.
macro_rules! accounts {
    () => {
        "\
FLUSH PRIVILEGES;
CREATE DATABASE IF NOT EXISTS idem;
CREATE USER IF NOT EXISTS 'idem'@'%' IDENTIFIED BY 'idem';
CREATE USER IF NOT EXISTS 'idem'@'localhost' IDENTIFIED BY 'idem';
CREATE USER IF NOT EXISTS 'idem'@'127.0.0.1' IDENTIFIED BY 'idem';
GRANT ALL PRIVILEGES ON *.* TO 'idem'@'%' WITH GRANT OPTION;
GRANT ALL PRIVILEGES ON *.* TO 'idem'@'localhost' WITH GRANT OPTION;
GRANT ALL PRIVILEGES ON *.* TO 'idem'@'127.0.0.1' WITH GRANT OPTION;
"
    };
}
pub(crate) use accounts;

const ACCOUNTS: &str = accounts!();

/// MariaDB: user `idem` with every privilege, password `idem`, database `idem`.
pub(crate) const SERVER: Server = Server {
    product: "MariaDB",
    packages: &["mariadb-server"],
    programs: &["mariadbd"],
    url: "mysql://idem:idem@127.0.0.1:{port}/idem",
    files: &[("accounts.sql", ACCOUNTS)],
    // A separate `tmpdir`: each starting server removes the temporary tables that it finds, even
    // those of other servers.
    setup: &["mariadb-install-db --no-defaults \
             --auth-root-authentication-method=normal --skip-test-db \
             --skip-name-resolve --innodb-flush-method=nosync \
             --innodb-log-file-size=32M \
             --datadir={folder}/data --tmpdir={folder} \
             --extra-file={folder}/accounts.sql"],
    // `--no-defaults` has to come first.
    arguments: "--no-defaults --datadir={folder}/data --tmpdir={folder} \
                --pid-file={folder}/server-pid --socket={folder}/s \
                --bind-address=127.0.0.1 --port={port}",
    options: "--max-connections=500 --skip-log-bin",
    // 2: written at each commit, so that it survives a kill of the process, and never forced to
    // disk.
    fast: "--innodb-flush-log-at-trx-commit=2 --innodb-flush-method=nosync \
           --innodb-buffer-pool-size=64M --innodb-log-file-size=32M",
    durable: "--innodb-buffer-pool-size=1G --innodb-log-file-size=1G",
    tls: Some(Tls {
        arguments: "--ssl-ca={folder}/ca.crt --ssl-cert={folder}/server.crt \
                    --ssl-key={folder}/server.key",
        scheme: None,
    }),
    // Of two with one name the later counts.
    setting: Setting::Arguments("--{name}={value}"),
    image: Some(Image::new(3306)),
    ..Server::new("mariadb", probe)
};

/// Returns the server at `url`, by its version.
pub(crate) fn probe(server: &Server, url: &str, programs: &Path) -> Result<Product> {
    let url = parse(url)?;
    let mut client = client(programs);
    client.arg("--protocol=tcp");
    client.arg(format!("--host={}", url.host_str().unwrap_or("localhost")));
    client.arg(format!("--port={}", url.port().unwrap_or(3306)));
    if let Some(user) = decoded(Some(url.username())) {
        client.arg(format!("--user={user}"));
    }
    client.env("MYSQL_PWD", decoded(url.password()).unwrap_or_default());
    let version = ask(client.arg("--execute=SELECT version()"))?;
    Ok(Product::returned(server.product, &version))
}

/// Returns the client program of MariaDB or MySQL, which prints values without column names.
pub(crate) fn client(programs: &Path) -> Command {
    let mut client = tool(programs, &["mariadb", "mysql"]);
    client.args(["--no-defaults", "--connect-timeout=5"]);
    client.args(["--batch", "--skip-column-names"]);
    client
}

#[cfg(test)]
mod tests {
    use super::ACCOUNTS;

    #[test]
    fn accounts_are_one_statement_a_line() {
        assert!(ACCOUNTS.lines().all(|line| line.ends_with(';')));
    }
}
