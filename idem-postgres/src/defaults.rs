//! The state that a session begins with: the server, and settings of the role, the database or the
//! pooler.
//!
//! The statements are written so that most settings do not matter. They name the server's functions
//! and types with their schema, and have no string that is escaped. They read the clock as a
//! number, answer in binary, and bound their own waits for locks. Where a stricter isolation level
//! lets them fail, they are repeated. The store refuses the other settings.

use std::time::Duration;

use idem_core::{Effect, Error, ErrorKind, Result};
use idem_sql::schema::misconfigured;
use sqlx::Row;
use sqlx::postgres::PgConnection;

use crate::error::{Access, classify, decode};

/// The first release with everything that the statements use.
const MIN_SERVER_VERSION: i32 = 120_000;

/// The name that the store's sessions have; [`SESSION`] searches for it.
pub(crate) const APPLICATION_NAME: &str = "idem";

/// Reads a session's state, without a search of the server's catalogue, which costs a new session
/// more than its start.
///
/// The last column is true where `application_name` is the one of the start-up packet, which the
/// transaction of the two statements falls back to: then this session is the client's own. A pooler
/// in transaction mode gives a server's session the name of each client with SET, as `PgBouncer`
/// does, or leaves the server with its own.
const SESSION: &str = "SET LOCAL application_name TO DEFAULT;
SELECT
    CAST(pg_catalog.current_setting('server_version_num') AS integer),
    pg_catalog.current_setting('server_encoding'),
    pg_catalog.current_setting('default_transaction_read_only') = 'on'
        AND NOT pg_catalog.pg_is_in_recovery(),
    CAST((pg_catalog.current_schemas(true))[1] AS pg_catalog.text),
    CAST(EXTRACT(EPOCH FROM CAST(
        pg_catalog.current_setting('idle_session_timeout', true) AS interval)) * 1000 AS bigint),
    pg_catalog.current_setting('application_name') = 'idem',
    pg_catalog.version()";

/// Parts of the text of `version()` on servers that speak PostgreSQL's protocol and do not run the
/// statements: they have no `ctid`
/// (<https://github.com/yugabyte/yugabyte-db/issues/24843>,
/// <https://www.cockroachlabs.com/docs/stable/postgresql-compatibility>).
const FOREIGN: &[(&str, &str)] = &[("CockroachDB", "CockroachDB"), ("-YB-", "YugabyteDB")];

/// Reads the schemas that the session searches before `pg_catalog` and that have an operator with a
/// name that the statements use: the server would use that operator instead.
const HIDING_SCHEMAS: &str =
    "SELECT pg_catalog.string_agg(CAST(n.nspname AS pg_catalog.text), ', ')
    FROM pg_catalog.pg_namespace AS n
    WHERE pg_catalog.array_position(pg_catalog.current_schemas(true), n.nspname)
        < pg_catalog.array_position(pg_catalog.current_schemas(true), 'pg_catalog')
    AND EXISTS (SELECT FROM pg_catalog.pg_operator AS o WHERE o.oprnamespace = n.oid
        AND o.oprname IN ('=', '<>', '<', '<=', '>', '>=', '+', '-', '*', '/'))";

/// How many reads tell whether a proxy sends some of them to a standby: proxies take turns.
const READS: usize = 4;

/// Refuses a standby, also one to which a proxy sends some of the reads: it lags behind the
/// primary, so a caller who lost a race may not find the winner.
pub(crate) async fn check_reads(connection: &mut PgConnection) -> Result<()> {
    for _ in 0..READS {
        let read = sqlx::raw_sql("SELECT pg_catalog.pg_is_in_recovery()");
        let row = read.fetch_one(&mut *connection).await;
        let row = row.map_err(|error| classify(error, Access::Read))?;
        if row.try_get(0).map_err(decode)? {
            return Err(Error::new(
                ErrorKind::Unavailable,
                Effect::None,
                "a standby answers reads (pg_is_in_recovery); connect to the primary, and have a proxy \
                 that splits reads from writes send it all statements of this role",
            ));
        }
    }
    Ok(())
}

/// The state of a session.
#[derive(Debug)]
pub(crate) struct SessionState {
    version: i32,
    encoding: String,
    reads_only: bool,
    hiding_schemas: Option<String>,
    idle_session_millis: Option<i64>,
    is_direct: Option<bool>,
    product: String,
}

impl SessionState {
    /// Reads the state, by simple queries, which no pooler mixes up with others.
    pub(crate) async fn read(connection: &mut PgConnection) -> Result<Self> {
        let sent = |error| classify(error, Access::Read);
        let row = sqlx::raw_sql(SESSION).fetch_one(&mut *connection).await;
        let row = row.map_err(sent)?;
        let first_schema: Option<String> = row.try_get(3).map_err(decode)?;
        let hiding_schemas = match first_schema.as_deref() {
            Some("pg_catalog") => None,
            _ => {
                let row = sqlx::raw_sql(HIDING_SCHEMAS).fetch_one(connection).await;
                row.map_err(sent)?.try_get(0).map_err(decode)?
            }
        };
        Ok(Self {
            version: row.try_get(0).map_err(decode)?,
            encoding: row.try_get(1).map_err(decode)?,
            reads_only: row.try_get(2).map_err(decode)?,
            hiding_schemas,
            idle_session_millis: row.try_get(4).map_err(decode)?,
            is_direct: row.try_get(5).map_err(decode)?,
            product: row.try_get(6).map_err(decode)?,
        })
    }

    /// Returns how long the server keeps an idle connection open; a setting since PostgreSQL 14.
    pub(crate) fn idle_session_timeout(&self) -> Option<Duration> {
        let millis = self.idle_session_millis.map(i64::unsigned_abs);
        millis
            .filter(|millis| *millis > 0)
            .map(Duration::from_millis)
    }

    /// Returns whether a pooler may stand between the client and this session.
    pub(crate) fn may_be_pooled(&self) -> bool {
        self.is_direct != Some(true)
    }

    pub(crate) fn check_server(&self) -> Result<()> {
        let Self {
            version, encoding, ..
        } = self;
        let is_this = |foreign: &&(&str, &str)| self.product.contains(foreign.0);
        if let Some((_, product)) = FOREIGN.iter().find(is_this) {
            return Err(misconfigured(format!(
                "this is {product}, which lacks what the statements use, such as ctid; PostgreSQL is \
                 needed"
            )));
        }
        if *version < MIN_SERVER_VERSION {
            return Err(misconfigured(format!(
                "the server's version is {version}; PostgreSQL 12 (120000) or later is needed"
            )));
        }
        if encoding != "UTF8" {
            return Err(misconfigured(format!(
                "the database's encoding is {encoding}; keys need UTF8, create the database with it"
            )));
        }
        Ok(())
    }

    /// Refuses defaults under which statements fail or change their meaning.
    pub(crate) fn check_defaults(&self, needs_write: bool) -> Result<()> {
        if self.reads_only && needs_write {
            return Err(misconfigured(
                "default_transaction_read_only is on for this role, database or server, so nothing can \
                 be claimed; turn it off with ALTER ROLE … SET default_transaction_read_only = off"
                    .to_owned(),
            ));
        }
        match &self.hiding_schemas {
            Some(schemas) => Err(misconfigured(format!(
                "search_path has pg_catalog behind {schemas}, which has operators of its own: the \
                 statements would use those; put pg_catalog first or leave it out"
            ))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> SessionState {
        SessionState {
            version: 150_018,
            encoding: "UTF8".to_owned(),
            reads_only: false,
            hiding_schemas: None,
            idle_session_millis: None,
            is_direct: Some(true),
            product: "PostgreSQL 15.18 on x86_64-pc-linux-gnu".to_owned(),
        }
    }

    #[test]
    fn a_server_that_only_speaks_the_protocol_is_refused() {
        for (version, product) in [
            (
                "CockroachDB CCL v24.3.1 (x86_64-pc-linux-gnu)",
                "CockroachDB",
            ),
            ("PostgreSQL 15.2-YB-2.25.0.0-b489 on x86_64", "YugabyteDB"),
        ] {
            let foreign = SessionState {
                product: version.to_owned(),
                ..state()
            };
            let error = foreign.check_server().unwrap_err().to_string();
            assert!(error.contains(product), "{error}");
        }
    }

    #[test]
    fn an_unusable_setting_is_refused_with_its_remedy() {
        assert!(state().check_server().is_ok() && state().check_defaults(true).is_ok());
        let refused = |result: Result<()>, cure: &str| {
            let error = result.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misconfigured);
            assert!(error.to_string().contains(cure), "{error}");
        };
        let old = SessionState {
            version: 110_022,
            ..state()
        };
        refused(old.check_server(), "PostgreSQL 12");
        let latin = SessionState {
            encoding: "LATIN1".to_owned(),
            ..state()
        };
        refused(latin.check_server(), "UTF8");
        let reading = SessionState {
            reads_only: true,
            ..state()
        };
        refused(reading.check_defaults(true), "ALTER ROLE");
        assert!(reading.check_defaults(false).is_ok());
        let hidden = SessionState {
            hiding_schemas: Some("evil".to_owned()),
            ..state()
        };
        refused(hidden.check_defaults(false), "search_path");
    }
}
