//! Which code a row is about: the sources of the store's crates.

use std::path::Path;
use std::process::Command;

use idem_core::BoxError;

/// Returns the crates whose code decides what the cells of a product show. A change of one voids
/// its rows.
fn crates_of(product: &str) -> &'static [&'static str] {
    match product {
        "SQLite" => &["idem-core", "idem-sql", "idem-sqlite"],
        "PostgreSQL" => &["idem-core", "idem-sql", "idem-postgres"],
        "MySQL" | "MariaDB" | "MariaDB Galera" => &["idem-core", "idem-sql", "idem-mysql"],
        "Redis" | "Redis Cluster" | "Valkey" => &["idem-core", "idem-redis"],
        "MongoDB-compatible" => &["idem-core", "idem-mongo"],
        // The database of its cells is PostgreSQL, the cache Redis.
        "hybrid" => &[
            "idem-core",
            "idem-sql",
            "idem-postgres",
            "idem-redis",
            "idem-hybrid",
        ],
        _ => &[
            "idem-core",
            "idem-sql",
            "idem-sqlite",
            "idem-postgres",
            "idem-mysql",
            "idem-redis",
            "idem-mongo",
            "idem-hybrid",
        ],
    }
}

/// Returns the commit of the workspace at `root`, with `+` for changes that are not committed.
///
/// # Errors
///
/// `git` does not run, or the folder is no repository.
pub fn commit(root: &Path) -> Result<String, BoxError> {
    let commit = git(root, &["rev-parse", "--short=12", "HEAD"])?;
    let changed = git(
        root,
        &[
            "status",
            "--porcelain",
            "--untracked-files=no",
            "--",
            "*.rs",
        ],
    )?;
    Ok(if changed.is_empty() {
        commit
    } else {
        commit + "+"
    })
}

/// Returns a hash of the code that decides what the cells of a product show.
///
/// # Errors
///
/// `git` does not run, or a crate is missing.
pub fn code_of(root: &Path, product: &str) -> Result<String, BoxError> {
    let folders: Vec<String> = crates_of(product)
        .iter()
        .map(|name| format!("{name}/src"))
        .collect();
    let folders: Vec<&str> = folders.iter().map(String::as_str).collect();
    Ok(idem_ledger::hash_of(root, &folders)?)
}

pub(crate) fn git(root: &Path, arguments: &[&str]) -> Result<String, BoxError> {
    let output = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(arguments)
        .output()
        .map_err(|error| format!("git: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("git {}: {}", arguments.join(" "), said.trim()).into());
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
