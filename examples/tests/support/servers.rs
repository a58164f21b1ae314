//! Programs on every available server.

use libtest_mimic::{Failed, Trial};

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
    ("redis-cluster", &["redis-cluster"], " cluster"),
    ("hybrid", &["redis", "postgres"], " behind Redis "),
];

/// Returns a trial for each store, which gets the store's URL and its product name in the output.
pub(crate) fn trials(
    what: &'static str,
    run: fn(store: &str, product: &str),
) -> impl Iterator<Item = Trial> {
    STORES.iter().map(move |store| trial(what, store, run))
}

/// Visibly ignored without a server; failed where a server is required.
fn trial(
    what: &str,
    &(name, servers, product): &Store,
    run: fn(store: &str, product: &str),
) -> Trial {
    let found: Result<Vec<String>, String> = servers.iter().map(|server| url_for(server)).collect();
    let is_required = servers.iter().any(|server| is_required(server));
    if let Err(missing) = &found {
        eprintln!("{what} on {name} is not run: {missing}");
    }
    let ignored = found.is_err() && !is_required;
    let name = name.replace('-', "_");
    let trial = Trial::test(format!("{what}_on_{name}"), move || {
        let store = match &found.map_err(Failed::from)?[..] {
            [cache, database] => format!("hybrid+{cache}+{database}"),
            urls => urls.concat(),
        };
        run(&store, product);
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
