//! Hashes the code that a row of a ledger is about, so that a change of the code voids the row.

use std::io;
use std::path::Path;
use std::process::Command;

use sha2::{Digest, Sha256};

/// Returns a hash of the files below `folders`, as they are in the working tree at `root`.
///
/// Empty lines, lines that are only a comment, and modules of tests do not count: neither a word of
/// documentation nor a test voids a row. A file that git ignores does not count either.
///
/// # Errors
///
/// `git` does not run, a folder has no files, or a file is not text.
pub fn hash_of(root: &Path, folders: &[&str]) -> io::Result<String> {
    let mut hash = Sha256::new();
    for folder in folders {
        let mut code = String::new();
        for file in files(root, folder)? {
            match std::fs::read_to_string(root.join(&file)) {
                Ok(text) => code.extend(lines(&text)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(io::Error::other(format!("{file}: {error}"))),
            }
        }
        if code.is_empty() {
            return Err(io::Error::other(format!("{folder} has no code")));
        }
        hash.update(without_tests(code.trim()));
    }
    let hash = hash.finalize();
    Ok(hash[..6].iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns the files below the folder that git knows or would add, in the order of their paths.
fn files(root: &Path, folder: &str) -> io::Result<Vec<String>> {
    let output = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(["ls-files", "-z", "--cached", "--others"])
        .args(["--exclude-standard", "--deduplicate", "--", folder])
        .output()?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!("git ls-files: {message}")));
    }
    let list = String::from_utf8(output.stdout).map_err(io::Error::other)?;
    let mut files: Vec<_> = list.split_terminator('\0').map(str::to_owned).collect();
    files.sort_unstable();
    Ok(files)
}

/// Returns the lines that are neither empty nor only a comment of Rust.
fn lines(text: &str) -> impl Iterator<Item = String> + '_ {
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    text.lines().filter(is_code).map(|line| format!("{line}\n"))
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_a_comment_nor_a_test_voids_a_row_and_code_does() {
        let root = std::env::temp_dir().join(format!("idem-ledger-{}", std::process::id()));
        let source = root.join("idem-x/src/lib.rs");
        std::fs::create_dir_all(source.parent().unwrap()).unwrap();
        let init = Command::new("git").args(["init", "-q"]).arg(&root).status();
        assert!(init.unwrap().success());
        let hash = || hash_of(&root, &["idem-x/src"]).unwrap();
        let written = |text: &str| {
            std::fs::write(&source, text).unwrap();
            hash()
        };
        let one = written("//! A crate.\nfn one() {}\n");
        for same in [
            "//! The crate.\n\n    // So it is.\nfn one() {}\n",
            "fn one() {}\n\n#[cfg(test)]\nmod tests {\n    fn three() {\n    }\n}\n",
            "fn one() {}\n\n#[cfg(all(test, unix))]\nmod tests {\n    fn four() {\n    }\n}\n",
        ] {
            assert_eq!(written(same), one, "{same}");
        }
        let two = written("fn two() {}\n");
        assert_ne!(two, one);
        let beside = source.with_file_name("more.sql");
        std::fs::write(&beside, "SELECT 1;\n").unwrap();
        assert_ne!(hash(), two);
        std::fs::remove_file(beside).unwrap();
        assert_eq!(hash(), two);
        assert!(hash_of(&root, &["idem-y/src"]).is_err());
        std::fs::remove_dir_all(root).unwrap();
    }
}
