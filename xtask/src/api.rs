//! The public API of each published crate, which is kept as text.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use cargo_metadata::Package;

use crate::Result;
use crate::step::{cargo, output};
use crate::workspace::{self, BUNDLED};

const FOLDER: &str = "docs/api";
const CHANGES: &str = "CHANGELOG.md";

/// Compares or writes the texts, and prints what is wrong. Returns whether nothing is.
pub(crate) fn run(accept: bool) -> Result<bool> {
    let wrong = differences(accept)?;
    if let Some(wrong) = &wrong {
        println!("{wrong}");
    }
    Ok(wrong.is_none())
}

/// Compares each crate's API with its text, or writes the text if the API is accepted. Returns what
/// is wrong.
///
/// # Errors
///
/// An error when rustdoc or git fails. The format of rustdoc's JSON belongs to a release of Rust:
/// with another one, reading fails.
fn differences(accept: bool) -> Result<Option<String>> {
    let root = workspace::members()?.workspace_root;
    let published = published()?;
    let names = published.iter().map(|package| package.name.as_str());
    for mut documented in documented(names)? {
        documented.env("RUSTDOC", root.join("xtask/rustdoc.sh"));
        let flags = "-D warnings -Z unstable-options --output-format json";
        documented.env("RUSTDOCFLAGS", flags);
        output(&mut documented)?;
    }
    let folder = workspace::members()?.target_directory.join("doc");
    let mut wrong = Vec::new();
    for package in published.iter().map(|package| package.name.as_str()) {
        let json = folder.join(package.replace('-', "_") + ".json");
        let api = public_api::Builder::from_rustdoc_json(json)
            .omit_blanket_impls(true)
            .omit_auto_trait_impls(true)
            .omit_auto_derived_impls(true)
            .build()?;
        let file = Path::new(FOLDER).join(format!("{package}.txt"));
        let kept = std::fs::read_to_string(&file).unwrap_or_default();
        let api = api.to_string();
        if accept {
            if !lost(&kept, &api).is_empty() && !is_in_changes()? {
                wrong.push(format!(
                    "{package} lost a part of its API, and {CHANGES} does not say so"
                ));
                continue;
            }
            std::fs::write(&file, api)?;
        } else if kept != api {
            let (gone, new) = (lost(&kept, &api), lost(&api, &kept));
            let gone = gone.iter().map(|item| format!("\n  - {item}"));
            let new = new.iter().map(|item| format!("\n  + {item}"));
            let items: String = gone.chain(new).collect();
            wrong.push(format!("{package}{items}"));
        }
    }
    let advice = "accept it with `cargo xtask check --accept-api`; what users have to change also \
                  goes into CHANGELOG.md";
    Ok((!wrong.is_empty()).then(|| format!("{}\n{advice}", wrong.join("\n"))))
}

/// Returns the commands that document these members with their features. A feature by the name of its
/// package would not do: cargo takes it for one of a dependency, where a package's own tests depend
/// on it.
fn documented<'n>(names: impl Iterator<Item = &'n str>) -> Result<[Command; 2]> {
    let mut most = cargo("doc --quiet --no-deps --all-features");
    for name in names.filter(|name| *name != BUNDLED.0) {
        most.args(["--package", name]);
    }
    let packages = workspace::members()?.packages;
    let mut packages = packages.iter();
    let other = packages.find(|package| package.name.as_str() == BUNDLED.0);
    let other = other.ok_or_else(|| format!("there is no package {}", BUNDLED.0))?;
    let features: Vec<_> = workspace::features(other).collect();
    let mut one = cargo("doc --quiet --no-deps");
    one.args(["--package", BUNDLED.0, "--features", &features.join(",")]);
    Ok([most, one])
}

/// Returns the members that are published and have an API.
fn published() -> Result<Vec<Package>> {
    let packages = workspace::members()?.packages.into_iter();
    Ok(packages
        .filter(|package| workspace::is_published(package) && workspace::is_library(package))
        .collect())
}

/// Returns the items of `old` that are not in `new`.
fn lost<'t>(old: &'t str, new: &str) -> BTreeSet<&'t str> {
    let new: BTreeSet<&str> = new.lines().collect();
    old.lines().filter(|item| !new.contains(item)).collect()
}

/// Returns whether the list of changes differs from that of the last commit.
fn is_in_changes() -> Result<bool> {
    let mut same = Command::new("git");
    same.args(["diff", "--quiet", "HEAD", "--", CHANGES]);
    Ok(!same.status()?.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_gone_is_lost() {
        assert!(lost("a\nb\n", "b\nc\na\n").is_empty());
        assert_eq!(lost("a\nb\n", "b\n"), BTreeSet::from(["a"]));
    }
}
