//! The storm on every server that there is.

use libtest_mimic::{Failed, Trial};

use super::Storm;

/// Names of servers, and what the program calls them.
const SERVERS: &[(&str, &str)] = &[
    ("postgres", "PostgreSQL "),
    ("mariadb", "MariaDB "),
    ("mysql", "MySQL "),
    ("galera", "MariaDB "),
];

pub(crate) fn trials() -> impl Iterator<Item = Trial> {
    SERVERS.iter().map(|&(name, product)| trial(name, product))
}

/// Ignored visibly where there is no server; failed where one is required.
fn trial(name: &'static str, product: &'static str) -> Trial {
    let url = idem_servers::url_for(name);
    let missing = move || idem_servers::missing_reason(name);
    let required = std::env::var("IDEM_REQUIRE").is_ok_and(|names| {
        let mut names = names.split(',').map(str::trim);
        names.any(|required| required == name || required == "all")
    });
    if url.is_none() {
        eprintln!("storm on {name} is not run: {}", missing());
    }
    let ignored = url.is_none() && !required;
    let trial = Trial::test(format!("every_effect_happens_once_on_{name}"), move || {
        let url = url.ok_or_else(|| Failed::from(missing()))?;
        let storm = Storm::run(&["--store", &url, "--requests=60", "--crash-rate=0.1"]);
        storm.is_clean(60, 300);
        let ran = storm.json["product"].as_str().unwrap_or_default();
        assert!(ran.starts_with(product), "{ran}");
        Ok(())
    });
    trial.with_ignored_flag(ignored)
}
