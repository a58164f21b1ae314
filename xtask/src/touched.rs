//! The members that a landing touches: what changed since the last one.

use std::collections::BTreeSet;
use std::process::Command;

use cargo_metadata::{DependencyKind, Metadata};

use crate::step::output;
use crate::{Result, workspace};

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

/// Returns the members that have one of the files; prose and pictures are in none.
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
    let is_prose = |file: &&String| file.ends_with(".md") || file.ends_with(".svg");
    files
        .iter()
        .filter(|file| !is_prose(file))
        .filter_map(owner)
        .collect()
}

/// Returns these members, and those that depend on one of them, directly or not.
fn dependants(changed: &BTreeSet<String>, workspace: &Metadata) -> BTreeSet<String> {
    let mut affected = changed.clone();
    loop {
        let before = affected.len();
        for package in &workspace.packages {
            let mut dependencies = package.dependencies.iter();
            if dependencies.any(|other| other.path.is_some() && affected.contains(&other.name)) {
                affected.insert(package.name.to_string());
            }
        }
        if affected.len() == before {
            return affected;
        }
    }
}

/// Returns the folders with the code of a member and of the members that it is built from.
pub(crate) fn code_of(package: &str, workspace: &Metadata) -> Vec<String> {
    let mut names = BTreeSet::from([package.to_owned()]);
    loop {
        let before = names.len();
        for package in &workspace.packages {
            if names.contains(package.name.as_str()) {
                let parts = package.dependencies.iter();
                let parts =
                    parts.filter(|part| part.path.is_some() && part.kind == DependencyKind::Normal);
                names.extend(parts.map(|part| part.name.clone()));
            }
        }
        if names.len() == before {
            break;
        }
    }
    let packages = workspace.packages.iter();
    let packages = packages.filter(|package| names.contains(package.name.as_str()));
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
        assert!(changed_by(&["idem-redis/README.md"]).is_empty());
    }

    #[test]
    fn a_row_is_about_the_code_that_it_is_built_from() {
        let workspace = workspace::members().unwrap();
        assert_eq!(
            code_of("idem-postgres", &workspace),
            ["idem-core/src", "idem-sql/src", "idem-postgres/src"]
        );
    }
}
