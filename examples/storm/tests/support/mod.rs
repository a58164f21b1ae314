//! Runs the programs, here and on every available server.

// Each test uses a part of it.
#![allow(dead_code, reason = "each test program uses a part")]

use std::process::{Command, ExitCode, Output, Stdio};

use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;

/// What a program said and how it ended.
pub(crate) struct Ran {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// The last line of standard output; `null` if it is not JSON.
    pub(crate) json: Value,
}

/// Returns the program with these arguments, and nothing to read.
pub(crate) fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    command.env_remove("IDEM_NATS_URL");
    command
}

/// Runs a program to its end.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Ran {
    command(program, arguments).output().unwrap().into()
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let stdout = String::from_utf8(output.stdout).unwrap();
        let last = stdout.lines().last().unwrap_or_default();
        Self {
            status: output.status.code().unwrap(),
            json: serde_json::from_str(last).unwrap_or_default(),
            stdout,
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ran {
    /// Checks the exit status, and that standard output contains all of this.
    #[track_caller]
    pub(crate) fn ended(&self, status: i32, lines: &[&str]) -> &Self {
        let Self { stdout, stderr, .. } = self;
        assert_eq!(self.status, status, "{stdout}{stderr}");
        for line in lines {
            assert!(stdout.contains(line), "no `{line}`:\n{stdout}");
        }
        self
    }

    /// Checks that the program could not make a run, and said all of this.
    #[track_caller]
    pub(crate) fn is_stopped(&self, reasons: &[&str]) {
        let Self { stdout, stderr, .. } = self;
        assert_eq!((self.status, stdout.as_str()), (2, ""), "{stderr}");
        for reason in reasons {
            assert!(stderr.contains(reason), "{reason}: {stderr}");
        }
    }

    /// Returns a number of the JSON.
    #[track_caller]
    pub(crate) fn fact(&self, name: &str) -> u64 {
        self.json[name]
            .as_u64()
            .unwrap_or_else(|| panic!("no number `{name}`:\n{}{}", self.stdout, self.stderr))
    }

    /// Returns the sum of the numbers in the rows with this label and with a remark that ends so.
    #[track_caller]
    pub(crate) fn number(&self, label: &str, remark: &str) -> u64 {
        let rows = self.stdout.lines().filter(|row| row.ends_with(remark));
        let numbers = rows.filter_map(|row| {
            let row = row.trim_start().strip_prefix(label)?;
            let number = row.split_whitespace().next()?.replace(',', "");
            number.parse::<u64>().ok()
        });
        let numbers: Vec<u64> = numbers.collect();
        assert!(!numbers.is_empty(), "no {label}: {}", self.stdout);
        numbers.iter().sum()
    }
}

/// Makes a trial of each function, with its name.
#[allow(unused_macros, reason = "not every program lists functions")]
macro_rules! trials {
    ($($case:ident,)*) => {
        vec![$(libtest_mimic::Trial::test(stringify!($case), || { $case(); Ok(()) })),*]
    };
}
#[allow(unused_imports, reason = "not every program lists functions")]
pub(crate) use trials;

pub(crate) fn main(trials: Vec<Trial>) -> ExitCode {
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// A store's name, its servers, and its product name in the program's output.
type Store = (&'static str, &'static [&'static str], &'static str);

const STORES: &[Store] = &[
    ("postgres", &["postgres"], "PostgreSQL "),
    ("mariadb", &["mariadb"], "MariaDB "),
    ("mysql", &["mysql"], "MySQL "),
    ("galera", &["galera"], "MariaDB "),
    ("mongo", &["mongo"], "MongoDB"),
    ("mssql", &["mssql"], " SQL "),
    ("redis", &["redis"], "Redis "),
    ("valkey", &["valkey"], "Valkey "),
    ("redis-cluster", &["redis-cluster"], "Redis Cluster"),
    ("hybrid", &["redis", "postgres"], " behind Redis "),
];

/// Returns a trial for each store, which gets the store's URL and its product name in the output.
pub(crate) fn on_stores(
    what: &'static str,
    case: fn(store: &str, product: &str),
) -> impl Iterator<Item = Trial> {
    STORES.iter().map(move |&(name, servers, product)| {
        let name = format!("{what}_on_{}", name.replace('-', "_"));
        on_servers(name, servers, move |urls| match urls {
            [cache, database] => case(&format!("hybrid+{cache}+{database}"), product),
            urls => case(&urls.concat(), product),
        })
    })
}

/// Returns a trial that gets the servers' URLs. It is visibly ignored without a server, and failed
/// where a server is required.
pub(crate) fn on_servers(
    name: String,
    servers: &[&'static str],
    case: impl FnOnce(&[String]) + Send + 'static,
) -> Trial {
    let url_for = |&server: &&'static str| {
        idem_servers::url_for(server).ok_or_else(|| idem_servers::missing_reason(server))
    };
    let found: Result<Vec<String>, String> = servers.iter().map(url_for).collect();
    if let Err(missing) = &found {
        eprintln!("{name} is not run: {missing}");
    }
    let ignored = found.is_err() && !servers.iter().any(|server| is_required(server));
    let trial = Trial::test(name, move || {
        case(&found.map_err(Failed::from)?);
        Ok(())
    });
    trial.with_ignored_flag(ignored)
}

fn is_required(server: &str) -> bool {
    std::env::var("IDEM_REQUIRE").is_ok_and(|names| {
        let mut names = names.split(',').map(str::trim);
        names.any(|required| required == server || required == "all")
    })
}
