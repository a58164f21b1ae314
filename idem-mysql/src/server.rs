//! Facts about the server and its settings.

use std::sync::{Arc, OnceLock};

use idem_core::{Effect, Error, ErrorKind, Result};
use idem_sql::cells::{Columns, Row};
use idem_sql::schema::misconfigured;
use idem_sql::sqlx::{Ready, SqlxRow};
use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Executor};

use crate::config::Config;
use crate::session::Session;
use crate::statements::Dialect;

/// The bytes that a statement may take beside the result in it.
const STATEMENT_BYTES: u64 = 64 << 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Server {
    version: String,
    dialect: Dialect,
    max_packet: u64,
    /// Of a new session.
    isolation: String,
    rollback_on_timeout: bool,
    is_galera: bool,
    reads_only: bool,
}

/// The facts about the server that operations need; read once for a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) dialect: Dialect,
    /// Whether 1205 comes at once and leaves a transaction unchanged, so that the statement may be
    /// sent again in it.
    pub(crate) keeps_transaction: bool,
    /// Whether sessions lock gaps by default.
    pub(crate) locks_gaps: bool,
    /// Whether it is a node of a Galera cluster.
    pub(crate) is_galera: bool,
}

/// The parser behind every pooler says which product it is: only MariaDB reads the text in
/// `/*M! … */`. MySQL with Galera says so in its comment.
pub(crate) const FACTS: &str = "SELECT CAST(VERSION() AS BINARY), 0 /*M! + 1 */, \
                     CAST(@@max_allowed_packet AS SIGNED), \
                     CAST(/*!80000 @@transaction_isolation */ /*M! @@tx_isolation */ AS BINARY), \
                     CAST(@@innodb_rollback_on_timeout AS SIGNED), \
                     @@version_comment LIKE '%wsrep%' /*M! OR EXISTS (SELECT 1 \
                     FROM information_schema.GLOBAL_VARIABLES \
                     WHERE VARIABLE_NAME = 'WSREP_ON' AND VARIABLE_VALUE = 'ON') */, \
                     @@innodb_read_only OR CAST(@@read_only AS BINARY) NOT IN (_binary'0', _binary'OFF')";

/// Parts of the version of servers that speak MySQL's protocol and lock and isolate in another way
/// (<https://vitess.io/docs/reference/compatibility/mysql-compatibility/>,
/// <https://docs.pingcap.com/tidb/stable/mysql-compatibility/>).
const FOREIGN: &[&str] = &["TiDB", "Vitess"];

impl Server {
    /// Reads the facts.
    pub(crate) async fn read(session: &mut Session<'_>) -> Result<Self> {
        let rows = session.unprepared(FACTS).await?;
        let row = rows.first().map(Columns::of);
        Self::of(row.ok_or_else(|| Error::corrupt("the server's settings have no row"))?)
    }

    fn of(row: Columns<'_>) -> Result<Self> {
        let text = |index| -> Result<String> {
            Ok(String::from_utf8_lossy(row.bytes(index)?).into_owned())
        };
        Ok(Self {
            version: text(0)?,
            dialect: match row.number(1)? {
                0 => Dialect::MySql,
                _ => Dialect::MariaDb,
            },
            max_packet: row.number(2)?.unsigned_abs(),
            isolation: text(3)?,
            rollback_on_timeout: row.number(4)? != 0,
            is_galera: row.number(5)? != 0,
            reads_only: row.number(6)? != 0,
        })
    }

    pub(crate) fn facts(&self) -> Facts {
        let locks_gaps = !["READ-COMMITTED", "READ-UNCOMMITTED"].contains(&&*self.isolation);
        Facts {
            dialect: self.dialect,
            keeps_transaction: self.dialect == Dialect::MariaDb && !self.rollback_on_timeout,
            locks_gaps,
            is_galera: self.is_galera,
        }
    }

    fn number(&self) -> (u32, u32) {
        // Old proxies show MariaDB's version behind one that old replicas understand.
        let version = self.version.strip_prefix("5.5.5-").unwrap_or(&self.version);
        let mut parts = version.split(|character: char| !character.is_ascii_digit());
        let mut part = || parts.next().and_then(|part| part.parse().ok()).unwrap_or(0);
        (part(), part())
    }

    /// Refuses a server that is read only: a replica, which may lag.
    pub(crate) fn check_reads(&self) -> Result<()> {
        if self.reads_only {
            return Err(Error::new(
                ErrorKind::Unavailable,
                Effect::None,
                "a server that is read only answers reads (read_only, innodb_read_only); connect to the \
                 primary, and have a proxy that splits reads from writes send it all statements of this \
                 user",
            ));
        }
        Ok(())
    }

    /// Refuses servers on which this crate, or these limits, do not work.
    pub(crate) fn check(&self, config: &Config) -> Result<()> {
        let is_this = |product: &&&str| self.version.contains(**product);
        if let Some(product) = FOREIGN.iter().find(is_this) {
            return Err(misconfigured(format!(
                "this is {product}, whose locks and isolation levels are not those that the statements \
                 rely on; MySQL or MariaDB is needed"
            )));
        }
        self.check_reads()?;
        let (product, needed) = match self.dialect {
            Dialect::MariaDb => ("MariaDB", (10, 6)),
            Dialect::MySql => ("MySQL", (8, 0)),
        };
        if self.number() < needed {
            return Err(misconfigured(format!(
                "the server's version is {}; {product} {}.{} or later is needed",
                self.version, needed.0, needed.1
            )));
        }
        let result = config.limits().max_result_bytes as u64;
        if result + STATEMENT_BYTES > self.max_packet {
            return Err(misconfigured(format!(
                "max_allowed_packet is {} bytes, results may have {result}; raise it, or lower \
                 `Limits::max_result_bytes`",
                self.max_packet
            )));
        }
        Ok(())
    }
}

/// Sets these settings on a new connection, and keeps the facts that the same text reads. Facts
/// that cannot be read are left to the operation that needs them.
pub(crate) fn set_up<'c>(
    connection: &'c mut MySqlConnection,
    settings: &Arc<str>,
    facts: &Arc<OnceLock<Facts>>,
) -> Ready<'c> {
    let (settings, facts) = (AssertSqlSafe(Arc::clone(settings)), Arc::clone(facts));
    Box::pin(async move {
        // A proxy may return the answer to the first statement only.
        if let Some(row) = connection.fetch_optional(settings).await? {
            let row: Row = Box::new(SqlxRow(row));
            if let Ok(server) = Server::of(Columns::of(&row)) {
                facts.get_or_init(|| server.facts());
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use idem_core::Limits;

    use super::*;

    fn server(dialect: Dialect, version: &str) -> Server {
        Server {
            version: version.to_owned(),
            dialect,
            max_packet: 16 << 20,
            isolation: "REPEATABLE-READ".to_owned(),
            rollback_on_timeout: false,
            is_galera: false,
            reads_only: false,
        }
    }

    #[test]
    fn a_server_that_only_speaks_the_protocol_is_refused() {
        for version in ["8.0.11-TiDB-v8.5.0", "8.0.30-Vitess"] {
            let foreign = server(Dialect::MySql, version);
            let error = foreign.check(&Config::new()).unwrap_err().to_string();
            let product = version.split('-').nth(1).unwrap();
            assert!(error.contains(product), "{error}");
        }
    }

    #[test]
    fn versions_are_distinguished() {
        use Dialect::{MariaDb, MySql};
        for (dialect, version, suits) in [
            (MariaDb, "10.11.14-MariaDB-0+deb12u2", true),
            (MariaDb, "5.5.5-10.6.21-MariaDB-log", true),
            (MariaDb, "11.4.2-mariadb", true),
            (MariaDb, "10.5.9-MariaDB", false),
            (MariaDb, "10.4.1-MariaDB", false),
            (MySql, "8.0.36", true),
            (MySql, "8.4.3-log", true),
            (MySql, "9.7.4-2", true),
            (MySql, "5.7.44", false),
            (MySql, "", false),
        ] {
            let server = server(dialect, version);
            assert_eq!(server.check(&Config::new()).is_ok(), suits, "{version}");
        }
    }

    #[test]
    fn the_settings_decide_whether_a_transaction_survives() {
        let mut server = server(Dialect::MariaDb, "10.11.14-MariaDB");
        let facts = server.facts();
        assert!(facts.keeps_transaction && facts.locks_gaps);
        server.rollback_on_timeout = true;
        server.isolation = "READ-COMMITTED".to_owned();
        server.dialect = Dialect::MySql;
        let facts = server.facts();
        assert!(!facts.keeps_transaction && !facts.locks_gaps);
    }

    #[test]
    fn a_packet_that_is_too_small_is_named() {
        let mut server = server(Dialect::MySql, "8.4.0");
        server.max_packet = 8 << 20;
        let error = server.check(&Config::new()).unwrap_err();
        assert!(error.to_string().contains("max_allowed_packet"));
        let small = Config::new().with_limits(Limits::DEFAULT.with_max_result_bytes(1 << 20));
        server.max_packet = 4 << 20;
        assert!(server.check(&small).is_ok());
    }
}
