//! The core of an operator's work on each server that is there, in tables of its own.

mod support;

use std::process::ExitCode;
use std::sync::Arc;

use idem_core::{AttemptId, BoxError, IdempotencyStore, Response};
use idem_hybrid::{HybridStore, RedisCache};
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;
use support::{File, HOUR, Ran, claimed, completed, idem_at, is_lost, key};

/// The servers, by their names in `idem-servers`.
const SERVERS: [&str; 9] = [
    "postgres",
    "pgbouncer",
    "mariadb",
    "mysql",
    "mssql",
    "redis",
    "redis-cluster",
    "valkey",
    "mongo",
];

fn main() -> ExitCode {
    let trials = SERVERS.map(|name| {
        let url = idem_servers::url_for(name);
        if url.is_none() {
            eprintln!("{name}: ignored, {}", idem_servers::missing_reason(name));
        }
        let is_missing = url.is_none();
        let run = move || url.map_or(Ok(()), |url| run(name, url));
        Trial::test(format!("{name}::an_operator_frees_a_stuck_key"), run)
            .with_ignored_flag(is_missing)
    });
    let cache = idem_servers::url_for("redis");
    let is_missing = cache.is_none();
    let run = move || cache.map_or(Ok(()), |cache| run_with_cache(&cache));
    let with_cache = Trial::test("redis::a_deletion_ends_what_a_cache_holds", run);
    let mut trials: Vec<_> = trials.into();
    trials.push(with_cache.with_ignored_flag(is_missing));
    let name = "without_a_server::a_first_connection_that_fails_says_where_and_what_to_do";
    trials.push(Trial::test(name, || in_runtime(first_connections())));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn run_with_cache(cache: &str) -> Result<(), Failed> {
    in_runtime(deletes_behind_a_cache(cache))
}

fn in_runtime(done: impl Future<Output = Result<(), BoxError>>) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime
        .block_on(done)
        .map_err(|error| error.to_string().into())
}

/// The stores, by the schemes of their URLs.
const SCHEMES: [&str; 6] = ["postgres", "mysql", "mssql", "mongodb", "redis", "sqlite"];

/// Connects the store of this scheme, or on this server, in tables of its own.
async fn connect(
    store: &str,
    url: &str,
    (table, is_unprepared): (&str, bool),
) -> idem_core::Result<Arc<dyn IdempotencyStore>> {
    Ok(match store {
        "postgres" | "pgbouncer" => {
            let mut config = idem_postgres::Config::new().with_table(table)?;
            if is_unprepared {
                config = config.with_statement_mode(idem_postgres::StatementMode::Unprepared);
            }
            Arc::new(idem_postgres::PostgresStore::connect(url, config).await?)
        }
        "mariadb" | "mysql" => {
            let config = idem_mysql::Config::new().with_table(table)?;
            Arc::new(idem_mysql::MySqlStore::connect(url, config).await?)
        }
        "mssql" => {
            let config = idem_mssql::Config::new().with_table(table)?;
            Arc::new(idem_mssql::MssqlStore::connect(url, config).await?)
        }
        "mongo" | "mongodb" => {
            let config = idem_mongo::Config::new().with_collection(table)?;
            Arc::new(idem_mongo::MongoStore::connect(url, config).await?)
        }
        "sqlite" => {
            let config = idem_sqlite::Config::new().with_table(table)?;
            Arc::new(idem_sqlite::SqliteStore::connect(url, config).await?)
        }
        "redis-cluster" => {
            let config = idem_redis::Config::new().with_namespace(table)?;
            let urls: Vec<_> = url.split(',').collect();
            Arc::new(idem_redis::RedisStore::connect_cluster(&urls, config).await?)
        }
        _ => {
            let config = idem_redis::Config::new().with_namespace(table)?;
            Arc::new(idem_redis::RedisStore::connect(url, config).await?)
        }
    })
}

/// Checks that the connection fails, that the first line says all of this, and so does the line
/// that a `main` prints when it returns the error. Neither has the password.
async fn refuses(store: &str, url: &str, words: &[&str]) {
    let error = connect(store, url, ("idem", false)).await.expect_err(url);
    let error: BoxError = error.into();
    let (shown, main) = (error.to_string(), format!("Error: {error:?}"));
    for line in [&shown, &main].map(|text| text.lines().next().unwrap_or_default()) {
        for word in words.iter().chain(&["connect: "]) {
            assert!(line.contains(word), "{word} of {url}: {line}");
        }
        assert!(!line.contains("s3cret"), "{url}: {line}");
    }
}

async fn first_connections() -> Result<(), BoxError> {
    for store in SCHEMES {
        for other in SCHEMES.into_iter().filter(|other| *other != store) {
            let url = format!("{other}://me:s3cret@127.0.0.1:1/shop");
            refuses(store, &url, &[other, "of another database"]).await;
        }
        if store == "sqlite" {
            let url = "sqlite:/no/such/folder/idem.db";
            refuses(
                store,
                url,
                &["/no/such/folder/idem.db: ", "cannot be opened"],
            )
            .await;
            continue;
        }
        let at = |place: &str| {
            // It has no database of that name.
            let path = if store == "redis" { "0" } else { "shop" };
            format!("{store}://me:s3cret@{place}/{path}")
        };
        let idem = |url: &str| idem_at(url, &[], &["ls"]).ends(3);
        for (place, what) in [
            ("127.0.0.1:1", "nothing listens there (connection refused)"),
            ("nowhere.invalid:1", "the host is not known"),
        ] {
            refuses(store, &at(place), &[place, what, "URL"]).await;
            let ran = idem(&at(place)).complains(what);
            assert!(!ran.err.contains("s3cret"), "{}", ran.err);
        }
        let unreadable = at("127.0.0.1:port");
        refuses(store, &unreadable, &["the URL", "it is "]).await;
    }
    Ok(())
}

/// A service has a cache in front of SQLite, which replays the record without asking the file.
async fn deletes_behind_a_cache(url: &str) -> Result<(), BoxError> {
    let file = File::new().await;
    let random = u128::from_be_bytes(*AttemptId::random().as_bytes());
    let namespace = format!("idem_cli_{:016x}", random as u64);
    let cache = RedisCache::new(url, &namespace, &idem_redis::Config::new())?;
    let service = HybridStore::new(cache, file.store.clone());
    let key = key("1");
    completed(&service, &key).await;
    while service.metrics().hits == 0 {
        assert!(service.get(&key).await?.is_some());
        service.settled().await;
    }
    let delete = [
        "delete",
        "tenant:pay:1",
        "--reason",
        "wrong result",
        "--yes",
    ];
    let through = |more: &[&str]| {
        let args: Vec<_> = delete.iter().chain(more).copied().collect();
        file.idem(&args)
    };
    let refused = through(&["--token", "current", "--cache", url]).ends(2);
    assert!(refused.err.contains("--cache-namespace"), "{}", refused.err);
    let cache = ["--cache", url, "--cache-namespace", &namespace];
    let args: Vec<_> = ["--token", "current"]
        .iter()
        .chain(&cache)
        .copied()
        .collect();
    through(&args).ends(0);
    assert!(service.get(&key).await?.is_none(), "the cache replays it");
    Ok(())
}

fn run(name: &str, url: String) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let server = Server::new(name, url);
    runtime.block_on(server.refusals());
    let done = runtime.block_on(server.work());
    let removed = runtime.block_on(server.remove());
    done.and(removed).map_err(|error| error.to_string().into())
}

/// A server, and a name for tables of its own.
struct Server {
    name: String,
    url: String,
    table: String,
    is_unprepared: bool,
}

impl Server {
    fn new(name: &str, url: String) -> Self {
        let random = u128::from_be_bytes(*AttemptId::random().as_bytes());
        Self {
            name: name.to_owned(),
            url,
            table: format!("idem_cli_{:016x}", random as u64),
            is_unprepared: name == "pgbouncer",
        }
    }

    fn idem(&self, args: &[&str]) -> Ran {
        let unprepared = self.is_unprepared.to_string();
        let variables = [
            ("IDEM_TABLE", &*self.table),
            ("IDEM_UNPREPARED", &*unprepared),
            ("IDEM_WHO", "ada"),
        ];
        idem_at(&self.url, &variables, args)
    }

    async fn store(&self) -> Result<Arc<dyn IdempotencyStore>, BoxError> {
        let config = (&*self.table, self.is_unprepared);
        Ok(connect(&self.name, &self.url, config).await?)
    }

    /// A login and a database that the server does not have.
    async fn refusals(&self) {
        let (store, login, database) = match &*self.name {
            "postgres" => ("postgres", "the user or the password", "3D000"),
            "mariadb" | "mysql" => ("mysql", "the user, the password", "1049"),
            "redis" | "valkey" => ("redis", "user and password", "number"),
            _ => return,
        };
        let (scheme, rest) = self.url.split_once("://").expect("a URL");
        let (own, rest) = rest.rsplit_once('@').unwrap_or(("", rest));
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let url = format!("{scheme}://nobody:s3cret@{host}/{path}");
        refuses(store, &url, &[host, login, "URL"]).await;
        let other = if store == "redis" {
            "4711"
        } else {
            "idem_missing"
        };
        let own = if own.is_empty() {
            String::new()
        } else {
            format!("{own}@")
        };
        let url = format!("{scheme}://{own}{host}/{other}");
        refuses(store, &url, &[host, database, "URL"]).await;
    }

    /// Migrates, lists, shows, releases, deletes, counts, and examines.
    async fn work(&self) -> Result<(), BoxError> {
        if !self.name.starts_with("redis") && self.name != "valkey" {
            self.idem(&["verify"]).ends(1).complains("idem migrate");
        }
        self.idem(&["migrate", "--yes"]).ends(0);
        self.idem(&["verify"]).ends(0);
        self.doctor();
        let store = self.store().await?;
        if store.admin().is_none() {
            // A store without lists says so.
            self.idem(&["ls"]).ends(2).complains("does not list");
            return Ok(());
        }
        completed(&*store, &key("1")).await;
        let old = claimed(&*store, &key("2")).await;
        let listed = self.idem(&["ls", "--all", "--json"]).ends(0).lines();
        assert_eq!(listed.len(), 2, "{listed:?}");
        let shown = self
            .idem(&["show", "tenant:pay:1", "--json", "--reveal"])
            .ends(0)
            .value();
        assert_eq!(shown["result"]["status"], 201);
        assert_eq!(
            shown["result"]["body"]["text"],
            r#"{"receipt":"s3cret-body"}"#
        );
        let step = |step, id, more: &'static [&'static str]| {
            let key = format!("tenant:pay:{id}");
            let args = [step, &*key, "--json", "--reason", "worker gone", "--yes"];
            let args: Vec<_> = args.into_iter().chain(more.iter().copied()).collect();
            self.idem(&args)
        };
        step("release", "2", &["--token", "7"]).ends(1);
        step("release", "2", &["--token", "current", "--dry-run"]).ends(0);
        let released = step("release", "2", &["--token", "current"])
            .ends(0)
            .value();
        assert_eq!(released["before"]["state"], "in_flight");
        let new = claimed(&*store, &key("2")).await;
        assert!(new.token() > old.token());
        is_lost(
            store
                .complete(&old, &Response::new(200, "late"), HOUR)
                .await,
        );
        store
            .complete(&new, &Response::new(200, "right"), HOUR)
            .await?;
        step("delete", "1", &["--token", "current"]).ends(0);
        let shown = self
            .idem(&["show", "tenant:pay:2", "--json"])
            .ends(0)
            .value();
        assert_eq!(shown["history"][0]["action"], "release");
        assert_eq!(shown["history"][0]["who"], "ada");
        let stats = self.idem(&["stats", "--json"]).ends(0).value();
        assert_eq!(stats["states"]["completed"], 1, "{stats}");
        self.idem(&["watch", "--count", "1", "--json"]).ends(0);
        self.idem(&["purge", "--yes", "--json"]).ends(0);
        Ok(())
    }

    /// Test servers are set to be fast, so some settings are errors; the checks have to be there.
    fn doctor(&self) {
        let ran = self.idem(&["doctor", "--json"]);
        assert!(matches!(ran.code, 0 | 1), "{}{}", ran.out, ran.err);
        let findings = ran.lines();
        let level = |check: &str| -> Option<&Value> {
            let finding = findings.iter().find(|finding| finding["check"] == check);
            finding.map(|finding| &finding["level"])
        };
        for check in ["connection", "schema", "version", "clock"] {
            assert_eq!(
                level(check).and_then(Value::as_str),
                Some("ok"),
                "{check}: {findings:?}"
            );
        }
        let own: &[&str] = match self.name.as_str() {
            "postgres" => &[
                "fsync",
                "synchronous_commit",
                "full_page_writes",
                "role",
                "pooler",
                "tls",
            ],
            "pgbouncer" => &["fsync", "role", "pooler"],
            "mariadb" | "mysql" => &[
                "innodb_flush_log_at_trx_commit",
                "sync_binlog",
                "innodb_doublewrite",
                "role",
                "tls",
            ],
            "mssql" => &["delayed_durability", "role", "tls"],
            "mongo" => &["write concern", "journal", "role", "tls"],
            _ => &["persistence", "eviction", "role", "tls"],
        };
        for check in own {
            assert!(level(check).is_some(), "{check}: {findings:?}");
        }
        if let Some(pooler) = findings.iter().find(|finding| finding["check"] == "pooler") {
            let found = pooler["found"].as_str().unwrap_or_default();
            match self.name.as_str() {
                "pgbouncer" => assert!(found.contains("transaction mode"), "{found}"),
                _ => assert_eq!(found, "none"),
            }
        }
    }

    /// Removes the tables. Redis expires its keys by itself.
    async fn remove(&self) -> Result<(), BoxError> {
        let table = &self.table;
        let marks = format!("{table}_watermarks");
        match self.name.as_str() {
            "postgres" | "pgbouncer" => {
                use idem_postgres::sqlx::{AssertSqlSafe, Connection, PgConnection, raw_sql};
                let options: idem_postgres::sqlx::postgres::PgConnectOptions = self.url.parse()?;
                let options = options.extra_float_digits(None);
                let mut connection = PgConnection::connect_with(&options).await?;
                let script = format!("DROP TABLE IF EXISTS {table}, {marks}");
                raw_sql(AssertSqlSafe(script))
                    .execute(&mut connection)
                    .await?;
            }
            "mariadb" | "mysql" => {
                use idem_mysql::sqlx::{AssertSqlSafe, Connection, MySqlConnection, raw_sql};
                let mut connection = MySqlConnection::connect(&self.url).await?;
                let script = format!("DROP TABLE IF EXISTS {table}, {marks}");
                raw_sql(AssertSqlSafe(script))
                    .execute(&mut connection)
                    .await?;
            }
            "mssql" => {
                let manager = idem_mssql::Manager::from_url(&self.url)?;
                let script = format!("DROP TABLE IF EXISTS {table}; DROP TABLE IF EXISTS {marks};");
                manager.connect().await?.run_script(&script).await?;
            }
            "mongo" => {
                use idem_mongo::mongodb::{Client, bson::Document};
                let client = Client::with_uri_str(&self.url).await?;
                let database = client
                    .default_database()
                    .unwrap_or_else(|| client.database("idem"));
                for name in [table, &marks] {
                    database.collection::<Document>(name).drop().await?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}
