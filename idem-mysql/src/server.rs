//! What the server is and how it is set up.

use idem_core::{Effect, Error, ErrorKind, Result};
use sqlx::Row;

use crate::config::Config;
use crate::error::{Sent, decode};
use crate::session::Session;

/// Modes of MariaDB under which an empty text is NULL, or a statement means something else.
const UNSUITABLE_MODES: [&str; 2] = ["EMPTY_STRING_IS_NULL", "ORACLE"];

/// Room for a statement beside the result in it.
const STATEMENT_BYTES: u64 = 64 << 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Server {
    version: String,
    autocommit: bool,
    sql_mode: String,
    max_packet: u64,
}

impl Server {
    pub(crate) async fn read(session: &mut Session<'_>) -> Result<Self> {
        let query = || {
            sqlx::query(
                "SELECT CAST(VERSION() AS BINARY), @@autocommit, CAST(@@sql_mode AS BINARY), \
                 CAST(@@max_allowed_packet AS SIGNED)",
            )
        };
        let rows = session.rows(query, Sent::Harmless).await?;
        let row = rows
            .first()
            .ok_or_else(|| Error::corrupt("the server's settings have no row"))?;
        let text = |index| -> Result<String> {
            let bytes: &[u8] = row.try_get_unchecked(index).map_err(decode)?;
            Ok(String::from_utf8_lossy(bytes).into_owned())
        };
        Ok(Self {
            version: text(0)?,
            autocommit: row.try_get_unchecked::<i64, _>(1).map_err(decode)? != 0,
            sql_mode: text(2)?,
            max_packet: row
                .try_get_unchecked::<i64, _>(3)
                .map_err(decode)?
                .unsigned_abs(),
        })
    }

    fn is_mariadb(&self) -> bool {
        self.version.to_ascii_lowercase().contains("mariadb")
    }

    /// Whether INSERT has RETURNING: MariaDB since 10.5.
    pub(crate) fn has_returning(&self) -> bool {
        self.is_mariadb() && self.number() >= (10, 5)
    }

    fn number(&self) -> (u32, u32) {
        // Old proxies show MariaDB's version behind one that old replicas understand.
        let version = self.version.strip_prefix("5.5.5-").unwrap_or(&self.version);
        let mut parts = version.split(|character: char| !character.is_ascii_digit());
        let mut part = || parts.next().and_then(|part| part.parse().ok()).unwrap_or(0);
        (part(), part())
    }

    /// Whether this crate works on it, and with these limits.
    pub(crate) fn check(&self, config: &Config) -> Result<()> {
        let (product, needed) = if self.is_mariadb() {
            ("MariaDB", (10, 6))
        } else {
            ("MySQL", (8, 0))
        };
        if self.number() < needed {
            return Err(misconfigured(format!(
                "the server's version is {}; {product} {}.{} or later is needed",
                self.version, needed.0, needed.1
            )));
        }
        if !self.autocommit {
            return Err(misconfigured(
                "autocommit is off, so nothing would be kept; set autocommit = 1 on the server or in the pool's \
                 `after_connect`"
                    .to_owned(),
            ));
        }
        let mut modes = self.sql_mode.split(',');
        if let Some(mode) = modes.find(|mode| UNSUITABLE_MODES.contains(mode)) {
            return Err(misconfigured(format!(
                "sql_mode has {mode}, under which statements mean something else; take it out for this user or \
                 pool"
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

pub(crate) fn misconfigured(message: String) -> Error {
    Error::new(ErrorKind::Misconfigured, Effect::None, message)
}

#[cfg(test)]
mod tests {
    use idem_core::Limits;

    use super::*;

    fn server(version: &str) -> Server {
        Server {
            version: version.to_owned(),
            autocommit: true,
            sql_mode: "STRICT_TRANS_TABLES,ONLY_FULL_GROUP_BY".to_owned(),
            max_packet: 16 << 20,
        }
    }

    #[test]
    fn versions_are_told_apart() {
        for (version, returning, suits) in [
            ("10.11.14-MariaDB-0+deb12u2", true, true),
            ("5.5.5-10.6.21-MariaDB-log", true, true),
            ("11.4.2-mariadb", true, true),
            ("10.5.9-MariaDB", true, false),
            ("10.4.1-MariaDB", false, false),
            ("8.0.36", false, true),
            ("8.4.3-log", false, true),
            ("9.7.4-2", false, true),
            ("5.7.44", false, false),
            ("", false, false),
        ] {
            let server = server(version);
            assert_eq!(server.has_returning(), returning, "{version}");
            assert_eq!(server.check(&Config::new()).is_ok(), suits, "{version}");
        }
    }

    #[test]
    fn unsuitable_settings_are_named() {
        let message = |change: fn(&mut Server)| {
            let mut server = server("8.4.0");
            change(&mut server);
            server.check(&Config::new()).unwrap_err().to_string()
        };
        assert!(message(|server| server.autocommit = false).contains("autocommit"));
        assert!(message(|server| server.sql_mode = "ORACLE".into()).contains("ORACLE"));
        assert!(message(|server| server.max_packet = 8 << 20).contains("max_allowed_packet"));
        let small = Config::new().with_limits(Limits::DEFAULT.with_max_result_bytes(1 << 20));
        let mut server = server("8.4.0");
        server.max_packet = 4 << 20;
        assert!(server.check(&small).is_ok());
    }
}
