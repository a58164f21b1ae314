//! The members that a landing touches: what changed since the last one.

use std::collections::BTreeSet;
use std::process::Command;

use cargo_metadata::{DependencyKind, Metadata, Package};

use crate::step::output;
use crate::{Result, ledger, workspace};

/// The variable that names the commit of the last landing.
const BASE: &str = "IDEM_CI_BASE";

/// A change of one of these affects every member.
const COMMON: &[&str] = &[
    "Cargo.toml",
    "Cargo.lock",
    ".cargo/config.toml",
    "deny.toml",
];

/// What changed since a commit.
#[derive(Debug)]
pub(crate) struct Touched {
    /// The commit.
    pub(crate) base: String,
    /// The members with a changed file.
    pub(crate) changed: BTreeSet<String>,
    /// The members with a changed source or manifest.
    pub(crate) sources: BTreeSet<String>,
    /// These, and the members that depend on one of them.
    pub(crate) affected: BTreeSet<String>,
    files: Vec<String>,
}

impl Touched {
    /// Compares with the commit that `IDEM_CI_BASE` names. Without it: with the last commit that is
    /// half a day older than the newest, before which the work of this landing has not begun.
    pub(crate) fn find() -> Result<Self> {
        let base = match std::env::var(BASE) {
            Ok(base) if !base.is_empty() => base,
            _ => half_a_day_before()?,
        };
        let mut diff = Command::new("git");
        diff.args(["diff", "--name-only", "--no-renames", &base]);
        let files: Vec<_> = output(&mut diff)?.lines().map(str::to_owned).collect();
        let workspace = workspace::members()?;
        let changed = changed(&files, &workspace);
        let is_source = |file: &&String| file.contains("src/") || file.ends_with("Cargo.toml");
        let sources: Vec<_> = files.iter().filter(is_source).cloned().collect();
        let sources = self::changed(&sources, &workspace);
        let is_common = files.iter().any(|file| COMMON.contains(&file.as_str()));
        let affected = match is_common {
            true => workspace
                .packages
                .iter()
                .map(|it| it.name.to_string())
                .collect(),
            false => dependants(&changed, &workspace),
        };
        Ok(Self {
            base,
            changed,
            sources,
            affected,
            files,
        })
    }

    /// Returns whether a file below this folder changed.
    pub(crate) fn has_folder(&self, folder: &str) -> bool {
        let common = self
            .files
            .iter()
            .any(|file| COMMON.contains(&file.as_str()));
        common || self.files.iter().any(|file| file.starts_with(folder))
    }
}

fn half_a_day_before() -> Result<String> {
    let mut date = Command::new("git");
    let date = output(date.args(["log", "-1", "--format=%ct"]))?;
    let before = date.trim().parse::<u64>()?.saturating_sub(12 * 60 * 60);
    let mut base = Command::new("git");
    base.args(["rev-list", "-1", &format!("--before={before}"), "HEAD"]);
    let base = output(&mut base)?.trim().to_owned();
    if !base.is_empty() {
        return Ok(base);
    }
    let mut first = Command::new("git");
    let first = output(first.args(["rev-list", "--max-parents=0", "HEAD"]))?;
    Ok(first.lines().last().unwrap_or("HEAD").to_owned())
}

/// Returns the members that have one of the files; prose, pictures and the ledger are in none.
fn changed(files: &[String], workspace: &Metadata) -> BTreeSet<String> {
    let owner = |file: &String| {
        let file = workspace.workspace_root.join(file);
        let packages = workspace.packages.iter();
        let owners = packages.filter_map(|package| {
            let folder = package.manifest_path.parent()?;
            file.starts_with(folder)
                .then_some((folder.as_str().len(), package))
        });
        let (_, owner) = owners.max_by_key(|(length, _)| *length)?;
        Some(owner.name.to_string())
    };
    let is_prose = |file: &&String| {
        file.ends_with(".md") || file.ends_with(".svg") || file.as_str() == ledger::FILE
    };
    files
        .iter()
        .filter(|file| !is_prose(file))
        .filter_map(owner)
        .collect()
}

/// Returns the members that are, or whose tests are built from, one of these.
fn dependants(changed: &BTreeSet<String>, workspace: &Metadata) -> BTreeSet<String> {
    let names = workspace
        .packages
        .iter()
        .map(|package| package.name.as_str());
    let affected = names.filter(|name| !built_from(name, workspace).is_disjoint(changed));
    affected.map(str::to_owned).collect()
}

/// Returns the members that the tests of this one are built from, with all features of this one, and
/// of the others those that are asked for.
fn built_from(package: &str, workspace: &Metadata) -> BTreeSet<String> {
    let find = |name: &str| {
        let mut packages = workspace.packages.iter();
        packages.find(|package| package.name.as_str() == name)
    };
    let mut found = BTreeSet::new();
    let all = find(package).map(|package| package.features.keys().cloned().collect());
    let mut left: Vec<(String, Vec<String>)> = vec![(package.to_owned(), all.unwrap_or_default())];
    // The tests of a member may need one that is built from it.
    let mut seen = BTreeSet::new();
    while let Some((name, features)) = left.pop() {
        if !seen.insert((name.clone(), features.clone())) {
            continue;
        }
        let Some(member) = find(&name) else {
            continue;
        };
        let optional = turned_on(member, &features);
        for part in &member.dependencies {
            let is_own = name == package || part.kind != DependencyKind::Development;
            let is_on = !part.optional || optional.contains(&part.name);
            if part.path.is_some() && part.name != name && is_own && is_on {
                let mut features = part.features.clone();
                if part.uses_default_features {
                    features.push("default".to_owned());
                }
                left.push((part.name.clone(), features));
            }
        }
        found.insert(name);
    }
    found
}

/// Returns the optional dependencies that these features of a package turn on.
fn turned_on(package: &Package, features: &[String]) -> BTreeSet<String> {
    let (mut on, mut seen) = (BTreeSet::new(), BTreeSet::new());
    let mut left = features.to_vec();
    while let Some(feature) = left.pop() {
        if let Some(dependency) = feature.strip_prefix("dep:") {
            on.insert(dependency.to_owned());
        } else if let Some((dependency, _)) = feature.split_once('/') {
            if !dependency.ends_with('?') {
                on.insert(dependency.to_owned());
            }
        } else if seen.insert(feature.clone()) {
            left.extend(
                package
                    .features
                    .get(&feature)
                    .into_iter()
                    .flatten()
                    .cloned(),
            );
        }
    }
    on
}

/// Published members that test the others.
const SUITE: [&str; 2] = ["idem-conformance", "idem-containers"];

/// Returns the folders with the code that the tests of a member are about: its own, and that of the
/// published members that they are built from, except the suite.
pub(crate) fn code_of(package: &str, workspace: &Metadata) -> Vec<String> {
    let names = built_from(package, workspace);
    let is_part = |other: &&Package| {
        let name = other.name.as_str();
        let is_product = workspace::is_published(other) && !SUITE.contains(&name);
        name == package || (names.contains(name) && is_product)
    };
    let packages = workspace.packages.iter().filter(is_part);
    let folders = packages.filter_map(|package| {
        let folder = package.manifest_path.parent()?;
        let folder = folder.strip_prefix(&workspace.workspace_root).ok()?;
        Some(folder.join("src").into_string())
    });
    folders.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed_by(files: &[&str]) -> BTreeSet<String> {
        let files: Vec<_> = files.iter().map(|file| (*file).to_owned()).collect();
        changed(&files, &workspace::members().unwrap())
    }

    #[test]
    fn a_file_touches_its_member_and_those_that_depend_on_it() {
        let changed = changed_by(&["idem-redis/src/lib.rs", "README.md", "docs/proof.md"]);
        assert_eq!(changed, BTreeSet::from(["idem-redis".to_owned()]));
        let affected = dependants(&changed, &workspace::members().unwrap());
        assert!(affected.contains("idem-hybrid") && affected.contains("idem-cli"));
        assert!(!affected.contains("idem-postgres"));
        // The nearest manifest counts.
        let servers = changed_by(&["tests/servers/src/lib.rs"]);
        assert_eq!(servers, BTreeSet::from(["idem-servers".to_owned()]));
        assert!(changed_by(&["idem-redis/README.md", ledger::FILE]).is_empty());
    }

    #[test]
    fn a_row_is_about_the_code_that_it_is_built_from() {
        let workspace = workspace::members().unwrap();
        assert_eq!(
            code_of("idem-postgres", &workspace),
            ["idem-core/src", "idem-sql/src", "idem-postgres/src"]
        );
        let hybrid = code_of("idem-hybrid", &workspace);
        assert!(hybrid.contains(&"idem-mysql/src".to_owned()), "{hybrid:?}");
        assert!(!hybrid.contains(&"idem-mongo/src".to_owned()), "{hybrid:?}");
    }
}
