//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Parser, Subcommand};

use crate::commands::{
    completions, doctor, expire_abandoned, import, ls, man, migrate, purge, rewrap, show, stats,
    step, watch,
};
use crate::url::StoreUrl;
use crate::when;

const EXIT_CODES: &str = "\
Exit codes: 0 done; 1 a problem was found, or the step was refused; 2 usage or configuration; \
3 the store cannot be reached or failed.";

/// Operates idempotency stores: lists keys, frees stuck ones, checks servers.
#[derive(Debug, Parser)]
#[command(name = "idem", version, after_help = EXIT_CODES, after_long_help = EXIT_CODES)]
#[command(
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// Prints lines of JSON instead of tables.
    #[arg(long, global = true, help_heading = "Output")]
    pub(crate) json: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where the store is.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Store")]
pub(crate) struct StoreArgs {
    /// The store: `sqlite:PATH`, `postgres://…`, `mysql://…`, `mariadb://…`, `mssql://…`,
    /// `mongodb://…`, `mongodb+srv://…`, `redis://…`, `rediss://…`, `redis-cluster://host,host`,
    /// `redis-sentinel://host,host/GROUP`.
    ///
    /// Prefer the variable: other users of the machine see the arguments of a program.
    #[arg(long = "store", value_name = "URL", global = true)]
    #[arg(env = "IDEM_STORE", hide_env_values = true)]
    url: Option<StoreUrl>,

    /// The name of the table, of MongoDB's collection, or the prefix of Redis' keys.
    ///
    /// Default: `idem_records`; in Redis `idem`.
    #[arg(long, value_name = "NAME", global = true, env = "IDEM_TABLE")]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) table: Option<String>,

    /// The schema of the table (PostgreSQL, SQL Server), or its database (MySQL, MongoDB).
    ///
    /// Default: what the connection has.
    #[arg(long, value_name = "NAME", global = true, env = "IDEM_SCHEMA")]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) schema: Option<String>,

    /// The Redis of a cache in front of the store (`idem-hybrid`): forced steps end what it holds.
    #[arg(long, value_name = "URL", global = true, requires = "cache_namespace")]
    #[arg(env = "IDEM_CACHE", hide_env_values = true)]
    cache: Option<StoreUrl>,

    /// The namespace of that cache, as the services name it.
    #[arg(long, value_name = "NAME", global = true, env = "IDEM_CACHE_NAMESPACE")]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    cache_namespace: Option<String>,

    /// The file with the keys of encrypted results: on each line an id, and 32 bytes as base64. The
    /// first key encrypts.
    ///
    /// The variable IDEM_KEYS may hold the same text in place of a file.
    #[arg(long, value_name = "FILE", global = true, env = "IDEM_KEYS_FILE")]
    pub(crate) keys: Option<PathBuf>,

    /// PostgreSQL: keeps no prepared statements, for PgBouncer before 1.21, similar poolers in
    /// transaction mode, and RDS Proxy.
    #[arg(long, global = true, env = "IDEM_UNPREPARED")]
    pub(crate) unprepared: bool,

    /// The time limit of an operation.
    #[arg(long, value_name = "DURATION", global = true, env = "IDEM_TIMEOUT")]
    #[arg(value_parser = when::duration, default_value = "10s")]
    pub(crate) timeout: Duration,
}

impl StoreArgs {
    /// Returns the URL.
    ///
    /// # Errors
    ///
    /// A usage error when there is none.
    pub(crate) fn url(&self) -> crate::failure::Result<&StoreUrl> {
        let missing = || {
            crate::Failure::usage(
                "no store is named; add `--store URL`, or set IDEM_STORE (`idem --help` lists the forms)",
            )
        };
        self.url.as_ref().ok_or_else(missing)
    }

    /// Returns the same without prepared statements, if the store is on PostgreSQL and has them.
    pub(crate) fn as_unprepared(&self) -> Option<Self> {
        let scheme = self.url().ok()?.scheme();
        (scheme.starts_with("postgres") && !self.unprepared).then(|| Self {
            unprepared: true,
            ..self.clone()
        })
    }

    /// Returns the URL and the namespace of the cache.
    ///
    /// # Errors
    ///
    /// A usage error for a cache without a namespace.
    pub(crate) fn cache(&self) -> crate::failure::Result<Option<(&StoreUrl, &str)>> {
        match (&self.cache, &self.cache_namespace) {
            (None, _) => Ok(None),
            (Some(url), Some(namespace)) => Ok(Some((url, namespace))),
            (Some(_), None) => Err(crate::Failure::usage(
                "a cache has a namespace; add `--cache-namespace NAME`, or set IDEM_CACHE_NAMESPACE",
            )),
        }
    }

    /// Returns the variables that name the same store to another process of this program.
    #[cfg(feature = "certify")]
    pub(crate) fn variables(&self) -> crate::failure::Result<Vec<(&'static str, String)>> {
        let mut variables = vec![
            ("IDEM_STORE", self.url()?.as_str().to_owned()),
            ("IDEM_UNPREPARED", self.unprepared.to_string()),
            ("IDEM_TIMEOUT", format!("{}ms", self.timeout.as_millis())),
        ];
        variables.extend(self.table.clone().map(|table| ("IDEM_TABLE", table)));
        variables.extend(self.schema.clone().map(|schema| ("IDEM_SCHEMA", schema)));
        Ok(variables)
    }

    /// Returns the store of this name beside this one: in tables of its own, or in SQLite in a file
    /// of its own.
    #[cfg(feature = "certify")]
    pub(crate) fn with_namespace(&self, namespace: &str) -> crate::failure::Result<Self> {
        let url = self.url()?;
        let mut other = self.clone();
        if url.scheme() == "sqlite" {
            let (file, parameters) = match url.as_str().split_once('?') {
                Some((file, parameters)) => (file, format!("?{parameters}")),
                None => (url.as_str(), String::new()),
            };
            other.url = Some(StoreUrl::from(format!("{file}.{namespace}{parameters}")));
        } else {
            other.table = Some(namespace.to_owned());
        }
        Ok(other)
    }

    /// Returns a store at this URL.
    #[cfg(test)]
    pub(crate) fn of(url: &str) -> Self {
        Self {
            url: Some(StoreUrl::from(url.to_owned())),
            timeout: Duration::from_secs(10),
            ..Self::default()
        }
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Creates the tables and indexes that are missing.
    Migrate(migrate::Options),
    /// Prints what `migrate` would run, without connecting.
    Schema,
    /// Checks that server and tables suit this version.
    Verify,
    /// Examines the server: schema, clock, durability, eviction, TLS, poolers, role.
    Doctor(doctor::Options),
    /// Lists records.
    Ls(ls::Options),
    /// Shows one key: its record, its result, and the steps that people forced.
    Show(show::Options),
    /// Frees a key in flight whose holder is gone.
    Release(step::Options),
    /// Fails a key in flight, so that callers get this failure.
    Fail(step::FailOptions),
    /// Deletes the record of a completed or failed key, so that its work can run again.
    Delete(step::Options),
    /// Deletes the records and watermarks whose retention has ended.
    Purge(purge::Options),
    /// Re-encrypts all sealed records under the first of the keys.
    Rewrap(rewrap::Options),
    /// Fails the abandoned claims that must not run again.
    ExpireAbandoned(expire_abandoned::Options),
    /// Stores the results that an older table has kept, from lines of JSON.
    ///
    /// Each line is an object: `scope`, `operation` and `id` of the key; `status` (200) and
    /// `headers`, as pairs; the body as one of `body` (a text), `json` (a value, stored as it is
    /// written) and `base64`; or in place of them `failure` with `code` and `message`; and
    /// `expires_at` (RFC 3339, by this machine's clock). Lines that have expired are left out.
    ///
    /// The records match every request of their keys. Existing records stay as they are, so an
    /// import that was stopped is run again as a whole.
    Import(import::Options),
    /// Counts records by state, operation and age.
    Stats(stats::Options),
    /// Shows operations, rates and stuck keys, again and again.
    #[command(visible_alias = "top")]
    Watch(watch::Options),
    /// Serves the console: a web page with the same.
    #[cfg(feature = "console")]
    Serve(crate::commands::serve::Options),
    /// Runs the conformance suite against this server, in tables of its own.
    #[cfg(feature = "certify")]
    Certify(crate::commands::certify::Options),
    /// Prints the completions for a shell.
    Completions(completions::Options),
    /// Prints the manual page, or writes one for each command.
    Man(man::Options),
}

/// The key of a command.
#[derive(Debug, Clone, Args)]
pub(crate) struct KeyArgs {
    /// Scope, operation and id, or all as one path `scope:operation:id`, as `ls` prints it.
    ///
    /// Within a path, `%`, `:`, `{` and `}` of a part are `%25`, `%3A`, `%7B` and `%7D`. Put `--`
    /// before a key that begins with a hyphen.
    #[arg(value_name = "KEY", num_args = 1..=3, required = true)]
    key: Vec<String>,
}

impl KeyArgs {
    /// Returns the key.
    ///
    /// # Errors
    ///
    /// A usage error when it is none.
    pub(crate) fn key(&self) -> crate::failure::Result<idem_core::Key> {
        match self.key.as_slice() {
            [path] => Ok(idem_core::Key::from_path(path)?),
            [scope, operation, id] => Ok(idem_core::Key::stored(scope, operation, id)?),
            _ => Err(crate::Failure::usage(
                "a key is three arguments, SCOPE OPERATION ID, or one path `scope:operation:id`",
            )),
        }
    }
}
