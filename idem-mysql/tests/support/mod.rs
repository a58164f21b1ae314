//! Access of the tests to MariaDB, MySQL and a Galera cluster.

use std::ops::Deref;

use idem_conformance::{CaseError, CaseResult, Context, Missing, Profile};
use idem_core::BoxError;
use idem_mysql::{Config, MySqlStore};
use idem_stores::{Adapter, MySql, Suite, found};
use sqlx::Row;
use sqlx::mysql::{MySqlConnectOptions, MySqlDatabaseError, MySqlPoolOptions};

/// Returns the promises of this target.
pub(crate) fn profile(name: &str) -> Profile {
    let core = Profile::new().batch().checkpoints().watermarks().admin();
    let core = core.with_claims_that_ask_again();
    if name.ends_with("-hostile") {
        return core.transactions().row_locks();
    }
    let profile = core
        .shared_between_processes()
        .durable()
        .password()
        .server_clock()
        .network();
    // A node locks nothing on another: there a claim wins, and the open transaction fails to
    // commit.
    match name {
        "galera" => profile,
        _ => profile.transactions().row_locks(),
    }
}

/// Creates the adapter of the target of this name.
pub(crate) fn adapter(name: &str) -> Result<MySql, Missing> {
    Ok(MySqlHarness::of(name)?.0)
}

/// Creates the target of this name. Through a proxy, stores are on their own connections on MySQL,
/// and on a caller's pool elsewhere.
pub(crate) fn target(name: &str) -> Result<Suite<MySql>, Missing> {
    let MySqlHarness(adapter) = MySqlHarness::of(name)?;
    let product = match name {
        "galera" => "MariaDB Galera, three nodes",
        "galera-node" => "MariaDB Galera, one node",
        name if name.starts_with("mysql") => "MySQL",
        _ => "MariaDB",
    };
    let suite = Suite::new(name, adapter.clone(), profile(name)).with_product(product);
    Ok(match name {
        "mysql" => suite,
        _ => suite.with_proxied(adapter.with_pool(10)),
    })
}

/// Creates the target for stores whose sessions begin with settings that change the meaning or the
/// course of statements: those that `init_connect` sets for the user [`HOSTILE_USER`].
pub(crate) async fn hostile(name: &str) -> Result<Suite<MySql>, Missing> {
    let suite = target(name)?;
    let set = set_hostile(suite.adapter(), name).await;
    set.map_err(|error| Missing::new(format!("no hostile settings: {error}")))?;
    Ok(suite)
}

/// Creates the user and its settings, unless the server's owner has an `init_connect`.
async fn set_hostile(server: &MySql, name: &str) -> Result<(), BoxError> {
    let mut connection = server.connect().await?;
    let row = sqlx::raw_sql("SELECT CAST(@@GLOBAL.init_connect AS CHAR)")
        .fetch_one(&mut connection)
        .await?;
    let there: Option<String> = row.try_get(0)?;
    let there = there.unwrap_or_default();
    if !there.is_empty() && !there.contains(HOSTILE_USER) {
        return Err("the server has an init_connect of its own".into());
    }
    server.execute(hostile_settings(name)).await
}

/// The server of a case of this crate.
pub(crate) struct MySqlHarness(MySql);

impl Deref for MySqlHarness {
    type Target = MySql;

    fn deref(&self) -> &MySql {
        &self.0
    }
}

impl MySqlHarness {
    /// Returns the server of the target with this name.
    pub(crate) fn of(name: &str) -> Result<Self, Missing> {
        let server = match name {
            "galera" | "galera-node" => "galera",
            name if name.starts_with("mysql") => "mysql",
            _ => "mariadb",
        };
        let url = found(server)?;
        let adapter = match name {
            "galera" => MySql::new(url).with_causal_reads(),
            "galera-node" => MySql::new(url.nodes()[0]),
            _ => MySql::new(url),
        };
        Ok(Self(if name.ends_with("-insert-first") {
            adapter.with_config(Config::new().with_inserts_first(true))
        } else if name.ends_with("-hostile") {
            adapter.with_login(HOSTILE_USER)
        } else {
            adapter
        }))
    }

    /// Opens a store of the concrete type.
    pub(crate) async fn store(&self, namespace: &str) -> Result<MySqlStore, BoxError> {
        Adapter::store(&self.0, namespace).await
    }

    /// Opens the same, whose claims send this statement first.
    pub(crate) async fn store_in_order(
        &self,
        namespace: &str,
        inserts_first: bool,
    ) -> Result<MySqlStore, BoxError> {
        let config = self.config(namespace)?.with_inserts_first(inserts_first);
        let adapter = self.0.clone().with_config(config);
        Adapter::store(&adapter, namespace).await
    }

    /// Creates a user, with the password `secret` and these privileges, by tables of the namespace. A
    /// case is not run where the user of the tests may not do so.
    pub(crate) async fn create_user(
        &self,
        cx: &Context,
        user: &str,
        privileges: &[(&str, &str)],
    ) -> CaseResult {
        let create = format!("CREATE USER '{user}'@'%' IDENTIFIED BY 'secret'");
        let grants = privileges.iter().map(|(privileges, table)| {
            let table = format!("`{}`.{table}", cx.namespace());
            format!("GRANT {privileges} ON {table} TO '{user}'@'%'")
        });
        for sql in std::iter::once(create).chain(grants) {
            if let Err(error) = self.execute(sql).await {
                // Refused as well if the user is not there.
                let _ = self.execute(format!("DROP USER '{user}'@'%'")).await;
                return Err(without_right(cx, error));
            }
        }
        Ok(())
    }

    /// Opens a store on a pool with these options that this crate has not set up.
    pub(crate) async fn store_with(
        &self,
        pool: MySqlPoolOptions,
        options: MySqlConnectOptions,
        namespace: &str,
    ) -> Result<MySqlStore, BoxError> {
        let pool = pool.connect_with(options).await?;
        Ok(MySqlStore::with_config(pool, self.config(namespace)?))
    }
}

/// A user without the privilege that passes over `init_connect`. It stays on the server.
const HOSTILE_USER: &str = "hostile";

/// Settings of a session. The last one changes how the others would be read.
const HOSTILE: &[(&str, &str)] = &[
    ("autocommit", "0"),
    ("completion_type", "'CHAIN'"),
    ("sql_select_limit", "1"),
    ("sql_safe_updates", "1"),
    ("sql_auto_is_null", "1"),
    ("unique_checks", "0"),
    ("foreign_key_checks", "0"),
    ("wait_timeout", "20"),
    ("lock_wait_timeout", "1"),
    ("innodb_lock_wait_timeout", "1"),
    ("group_concat_max_len", "4"),
    ("div_precision_increment", "0"),
    ("auto_increment_increment", "7"),
    ("max_join_size", "100000"),
    ("time_zone", "'-11:30'"),
    ("character_set_connection", "'latin1'"),
    ("collation_connection", "'latin1_swedish_ci'"),
];

/// Returns the statements that create the user and its settings. All users without SUPER run
/// `init_connect`; for others than this one it keeps the settings.
fn hostile_settings(target: &str) -> String {
    let own = match target {
        "mysql-hostile" => [
            ("transaction_isolation", "'SERIALIZABLE'"),
            ("transaction_read_only", "1"),
            (
                "sql_mode",
                "'ANSI,NO_BACKSLASH_ESCAPES,HIGH_NOT_PRECEDENCE,PAD_CHAR_TO_FULL_LENGTH'",
            ),
        ],
        _ => [
            ("tx_isolation", "'SERIALIZABLE'"),
            ("tx_read_only", "1"),
            (
                "sql_mode",
                "'ORACLE,EMPTY_STRING_IS_NULL,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH'",
            ),
        ],
    };
    let init: String = HOSTILE
        .iter()
        .chain(&own)
        .map(|(name, value)| {
            let set = format!("IF(USER() LIKE '{HOSTILE_USER}@%', {value}, @@SESSION.{name})");
            match value.starts_with('\'') {
                true => format!("SET SESSION {name} = {set};"),
                false => format!("SET SESSION {name} = CAST({set} AS UNSIGNED);"),
            }
        })
        .collect();
    format!(
        "CREATE USER IF NOT EXISTS {HOSTILE_USER}@'%' IDENTIFIED BY '{HOSTILE_USER}';
        GRANT SELECT ON idem.* TO {HOSTILE_USER}@'%';
        GRANT ALL ON `idem\\_test\\_%`.* TO {HOSTILE_USER}@'%';
        SET GLOBAL init_connect = '{}'",
        init.replace('\'', "''")
    )
}

/// The server's codes for what a user may not do to other users: no access to the database, to the
/// table, no right at all, and no account with `GRANT`
/// (<https://mariadb.com/kb/en/mariadb-error-code-reference/>).
const REFUSED: &[u16] = &[1044, 1142, 1227, 1410];

/// Returns that a case is not run, if the error tells that the user of the tests lacks a right.
fn without_right(cx: &Context, error: BoxError) -> CaseError {
    let driver = error.downcast_ref::<sqlx::Error>();
    let code = driver.and_then(|driver| {
        let error = driver.as_database_error()?;
        Some(error.try_downcast_ref::<MySqlDatabaseError>()?.number())
    });
    match code {
        Some(code) if REFUSED.contains(&code) => {
            let url = idem_servers::variable(cx.harness().name(), "URL");
            CaseError::not_run(format!("the user of {url} may not GRANT"))
        }
        _ => error.into(),
    }
}

/// Returns the server of a case.
pub(crate) fn harness(cx: &Context) -> Result<MySqlHarness, CaseError> {
    MySqlHarness::of(cx.harness().name()).map_err(|missing| CaseError::new(missing.to_string()))
}
