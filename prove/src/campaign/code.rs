//! Which code a row is about: the sources of the store's crates in the commit.

use std::path::Path;
use std::process::Command;

use idem_core::BoxError;
use sha2::{Digest, Sha256};

/// Returns the crates whose code decides what the cells of a product show. A change of one voids
/// its rows.
#[must_use]
pub fn crates_of(product: &str) -> &'static [&'static str] {
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

/// Returns a hash of the sources of these crates in the workspace's commit, without the lines that
/// are comments or empty, and without modules of tests: neither a word of documentation nor a test
/// voids a row.
///
/// # Errors
///
/// `git` does not run, or a crate is not in the commit.
pub fn of_crates(root: &Path, crates: &[&str]) -> Result<String, BoxError> {
    let mut hash = Sha256::new();
    for name in crates {
        let folder = format!("{name}/src");
        let text = git(root, &["grep", "-hvE", COMMENT, "HEAD", "--", &folder])?;
        hash.update(without_tests(&text));
    }
    let hash = hash.finalize();
    Ok(hash[..6].iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A line that is empty, or only a comment of Rust.
const COMMENT: &str = "^[[:space:]]*(//.*)?$";

/// Returns the lines that are in no module of tests, each of which ends at the margin.
fn without_tests(text: &str) -> String {
    let mut left = String::with_capacity(text.len());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let module = lines.peek().copied().unwrap_or_default();
        let is_test = line == "#[cfg(test)]" || line.starts_with("#[cfg(all(test,");
        if is_test && module.starts_with("mod ") && module.ends_with('{') {
            lines
                .by_ref()
                .take_while(|line| *line != "}")
                .for_each(drop);
            continue;
        }
        left += line;
        left.push('\n');
    }
    left
}

fn git(root: &Path, arguments: &[&str]) -> Result<String, BoxError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_a_comment_nor_a_test_voids_a_row_and_code_does() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let source = root.join("idem-x/src/lib.rs");
        std::fs::create_dir_all(source.parent().unwrap()).unwrap();
        git(root, &["init", "-q"]).unwrap();
        let mut hashes = Vec::new();
        for text in [
            "//! A crate.\nfn one() {}\n",
            "//! The crate.\n\n    // So it is.\nfn one() {}\n",
            "fn one() {}\n\n#[cfg(test)]\nmod tests {\n    fn three() {\n    }\n}\n",
            "fn one() {}\n\n#[cfg(all(test, unix))]\nmod tests {\n    fn four() {\n    }\n}\n",
            "fn two() {}\n",
        ] {
            std::fs::write(&source, text).unwrap();
            git(root, &["add", "-A"]).unwrap();
            let author = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
            git(root, &[&author[..], &["commit", "-qm", "a"]].concat()).unwrap();
            hashes.push(of_crates(root, &["idem-x"]).unwrap());
        }
        assert_eq!(hashes[0], hashes[1]);
        assert_eq!(hashes[0], hashes[2]);
        assert_eq!(hashes[0], hashes[3]);
        assert_ne!(hashes[3], hashes[4]);
        assert!(of_crates(root, &["idem-y"]).is_err());
    }
}
