//! The budgets: what a user or a developer pays for is counted, and a limit holds it down.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde::Deserialize;

use crate::step::{cargo, output};
use crate::{Result, workspace};

const FILE: &str = "budgets.toml";

/// A limit, and what it says of itself.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Budget {
    most: usize,
    /// Why the limit was raised last; one that was never raised has none.
    #[serde(default)]
    raised: Option<String>,
}

/// Counts everything. Returns which budgets are exceeded.
///
/// # Errors
///
/// The file is missing, or names something that nothing counts.
pub(crate) fn exceeded() -> Result<Option<String>> {
    let text = std::fs::read_to_string(FILE).map_err(|error| format!("{FILE}: {error}"))?;
    let budgets: BTreeMap<String, Budget> =
        toml::from_str(&text).map_err(|error| format!("{FILE}: {error}"))?;
    judged(&budgets, &counts()?)
}

fn judged(
    budgets: &BTreeMap<String, Budget>,
    counts: &[(&'static str, usize)],
) -> Result<Option<String>> {
    let unknown = budgets
        .keys()
        .find(|name| !counts.iter().any(|(known, _)| known == name));
    if let Some(name) = unknown {
        return Err(format!("{FILE}: nothing counts `{name}`").into());
    }
    let mut wrong = Vec::new();
    for (name, count) in counts {
        let Some(Budget { most, raised }) = budgets.get(*name) else {
            wrong.push(format!("{FILE} has no `{name}`; it is {count}"));
            continue;
        };
        let reason = raised.as_deref().unwrap_or_default();
        println!(
            "    {name}: {count} of {most}{}{reason}",
            if raised.is_some() { "; raised: " } else { "" }
        );
        if count > most {
            wrong.push(format!("{name} is {count}, at most {most}"));
        }
    }
    let advice = "make it less, or raise the limit with the reason in the same file (`raised`)";
    Ok((!wrong.is_empty()).then(|| format!("{}; {advice}", wrong.join("; "))))
}

/// Counts what the budgets name.
fn counts() -> Result<Vec<(&'static str, usize)>> {
    let files = output(Command::new("git").args(["ls-files"]))?;
    let files: Vec<_> = files.lines().collect();
    let is_rust = |file: &&&str| file.ends_with(".rs");
    let is_product = |file: &&&str| file.starts_with("idem-") && file.contains("/src/");
    let readme = std::fs::read_to_string("README.md")?;
    let root = std::fs::read_to_string("docs/api/idem-core.txt")?;
    let default: Vec<_> = workspace::default_members()?;
    let mut second = cargo("tree --quiet --prefix none --no-dedupe --edges normal,build,dev");
    for name in &default {
        second.args(["--package", name]);
    }
    let first =
        cargo("tree --quiet --prefix none --no-dedupe --edges normal,build --package idem-storm");
    Ok(vec![
        ("crates_of_the_first_command", crates(first)?),
        ("crates_of_the_second_command", crates(second)?),
        (
            "test_programs_of_the_second_command",
            test_programs(&default)?,
        ),
        ("files", files.len()),
        (
            "lines_of_the_workspace",
            lines(
                files
                    .iter()
                    .filter(is_rust)
                    .filter(|file| !file.starts_with("lab/")),
            )?,
        ),
        (
            "lines_of_the_lab",
            lines(
                files
                    .iter()
                    .filter(is_rust)
                    .filter(|file| file.starts_with("lab/")),
            )?,
        ),
        (
            "lines_of_product_sources",
            lines(files.iter().filter(is_rust).filter(is_product))?,
        ),
        ("names_at_the_root_of_idem_core", names_at_the_root(&root)),
        ("words_of_the_readme", readme.split_whitespace().count()),
    ])
}

/// Counts the packages of a tree.
fn crates(mut tree: Command) -> Result<usize> {
    let tree = output(&mut tree)?;
    let names = tree.lines().filter_map(|line| line.split(" (").next());
    Ok(names
        .filter(|name| !name.is_empty())
        .collect::<BTreeSet<_>>()
        .len())
}

/// Counts the programs that `cargo test` links for these members.
fn test_programs(members: &[String]) -> Result<usize> {
    let workspace = workspace::members()?;
    let packages = workspace.packages.iter();
    let packages = packages.filter(|package| members.contains(&package.name.to_string()));
    let targets = packages.flat_map(|package| &package.targets);
    Ok(targets.filter(|target| target.test).count())
}

fn lines<'f>(files: impl Iterator<Item = &'f &'f str>) -> Result<usize> {
    let mut lines = 0;
    for file in files {
        match std::fs::read_to_string(file) {
            Ok(text) => lines += text.lines().count(),
            // Deleted, and not committed yet.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(format!("{file}: {error}").into()),
        }
    }
    Ok(lines)
}

/// Counts the types, traits, functions, constants and modules of `idem_core::NAME`.
fn names_at_the_root(api: &str) -> usize {
    let kinds = [
        "struct", "enum", "trait", "type", "fn", "const", "mod", "macro", "static",
    ];
    let names = api.lines().filter_map(|line| {
        let rest = line.strip_prefix("pub ")?;
        let (_, name) = kinds
            .iter()
            .find_map(|kind| rest.split_once(&format!("{kind} idem_core::")))?;
        let name = name
            .split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':')
            .next()?;
        (!name.contains("::")).then_some(name)
    });
    names.collect::<BTreeSet<_>>().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_count_over_its_limit_is_reported() {
        let budgets = "[files]\nmost = 3\n[words]\nmost = 2\nraised = \"a table\"\n";
        let budgets: BTreeMap<String, Budget> = toml::from_str(budgets).unwrap();
        let counted = |files, words| judged(&budgets, &[("files", files), ("words", words)]);
        assert_eq!(counted(3, 2).unwrap(), None);
        let wrong = counted(4, 3).unwrap().unwrap();
        assert!(
            wrong.starts_with("files is 4, at most 3; words is 3, at most 2; make"),
            "{wrong}"
        );
        assert!(judged(&budgets, &[("files", 1)]).is_err());
        let wrong = judged(&BTreeMap::new(), &[("files", 1)]).unwrap().unwrap();
        assert!(
            wrong.starts_with("budgets.toml has no `files`; it is 1"),
            "{wrong}"
        );
    }

    #[test]
    fn only_names_of_the_root_count() {
        let api = "pub mod idem_core\npub mod idem_core::guide\npub struct idem_core::Key\n\
                   impl idem_core::Key\npub fn idem_core::Key::new(a: &str) -> idem_core::Key\n\
                   pub async fn idem_core::run<T>(t: T)\npub struct idem_core::guide::Deep\n";
        assert_eq!(names_at_the_root(api), 3);
    }
}
