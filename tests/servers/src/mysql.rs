use std::path::Path;
use std::process::Command;

use crate::Server;
use crate::mariadb::{self, accounts, probe};
use crate::server::Image;
use crate::tools::run;
use crate::unpacked::Unpacked;

/// Oracle's MySQL: user `idem` with every privilege, password `idem` (`caching_sha2_password`),
/// database `idem`.
pub(crate) const SERVER: Server = Server {
    product: "MySQL",
    // Of Debian's suites only sid has it; in the stable ones that name is MariaDB.
    unpacked: Some(Unpacked {
        name: "mysql",
        suites: "sid",
        packages: "mysql-server-core mysql-client-core",
    }),
    cached: Some("mysql/usr/sbin"),
    programs: &["mysqld"],
    url: mariadb::SERVER.url,
    files: &[(
        "accounts.sql",
        concat!("SET SESSION sql_log_bin = 0;\n", accounts!()),
    )],
    setup: &[
        "mysqld --no-defaults --basedir={programs}/.. --datadir={folder}/data \
             --tmpdir={folder} --secure-file-priv=NULL --initialize-insecure \
             --innodb-redo-log-capacity=8M --innodb-flush-log-at-trx-commit=0 \
             --innodb-flush-method=nosync",
    ],
    // The accounts are created at each start, before the server takes connections: it cannot create
    // them while it creates the data. They are not in its binary log: each server of a group has its
    // own.
    arguments: "--no-defaults --basedir={programs}/.. --datadir={folder}/data \
                --tmpdir={folder} --secure-file-priv=NULL \
                --plugin-dir={programs}/../lib/mysql/plugin \
                --pid-file={folder}/server-pid --socket={folder}/s \
                --bind-address=127.0.0.1 --port={port} \
                --init-file={folder}/accounts.sql --performance-schema=OFF",
    options: "--max-connections=500 --skip-log-bin --mysqlx=OFF",
    // 2: written at each commit, so that it survives a kill of the process, and never forced to
    // disk.
    fast: "--innodb-flush-log-at-trx-commit=2 --innodb-flush-method=nosync \
           --innodb-buffer-pool-size=64M --innodb-redo-log-capacity=32M",
    durable: "--innodb-buffer-pool-size=1G --innodb-redo-log-capacity=1G",
    tls: mariadb::SERVER.tls,
    setting: mariadb::SERVER.setting,
    image: Some(Image::new(3306)),
    accepts,
    ..Server::new("mysql", probe)
};

/// Checks that `mysqld` is not MariaDB's, as on many systems.
fn accepts(folder: &Path) -> bool {
    let mut mysqld = Command::new(folder.join("mysqld"));
    let version = run(mysqld.args(["--no-defaults", "--version"]));
    version.is_ok_and(|version| !version.contains("MariaDB"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::accepts;

    #[test]
    fn a_folder_without_a_mysqld_is_not_taken() {
        assert!(!accepts(Path::new("/nowhere")));
    }
}
