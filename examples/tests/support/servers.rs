//! The storm on every server that there is.

use libtest_mimic::{Failed, Trial};

use super::Storm;

/// The name of a store, its servers, and what the program calls them.
type Store = (&'static str, &'static [&'static str], &'static str);

const STORES: &[Store] = &[
    ("postgres", &["postgres"], "PostgreSQL "),
    ("mariadb", &["mariadb"], "MariaDB "),
    ("mysql", &["mysql"], "MySQL "),
    ("galera", &["galera"], "MariaDB "),
    ("mongo", &["mongo"], "MongoDB"),
    ("redis", &["redis"], "Redis "),
    ("valkey", &["valkey"], "Valkey "),
    ("redis-cluster", &["redis-cluster"], " cluster"),
    ("hybrid", &["redis", "postgres"], " behind Redis "),
];

pub(crate) fn trials() -> impl Iterator<Item = Trial> {
    STORES.iter().map(trial)
}

/// Ignored visibly where there is no server; failed where one is required.
fn trial(&(name, servers, product): &Store) -> Trial {
    let found: Result<Vec<String>, String> = servers.iter().map(|server| url_for(server)).collect();
    let is_required = servers.iter().any(|server| is_required(server));
    if let Err(missing) = &found {
        eprintln!("storm on {name} is not run: {missing}");
    }
    let ignored = found.is_err() && !is_required;
    let name = name.replace('-', "_");
    let trial = Trial::test(format!("every_effect_happens_once_on_{name}"), move || {
        let store = match &found.map_err(Failed::from)?[..] {
            [cache, database] => format!("hybrid+{cache}+{database}"),
            urls => urls.concat(),
        };
        let storm = Storm::run(&["--store", &store, "--requests=60", "--crash-rate=0.1"]);
        storm.is_clean(60, 300);
        let ran = storm.json["product"].as_str().unwrap_or_default();
        assert!(ran.contains(product), "{ran}");
        Ok(())
    });
    trial.with_ignored_flag(ignored)
}

fn url_for(server: &str) -> Result<String, String> {
    idem_servers::url_for(server).ok_or_else(|| idem_servers::missing_reason(server))
}

fn is_required(server: &str) -> bool {
    std::env::var("IDEM_REQUIRE").is_ok_and(|names| {
        let mut names = names.split(',').map(str::trim);
        names.any(|required| required == server || required == "all")
    })
}
