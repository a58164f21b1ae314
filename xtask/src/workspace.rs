//! The packages of the workspace, from `cargo metadata`.

use std::collections::BTreeSet;
use std::process::Command;

use cargo_metadata::{CargoOpt, Metadata, MetadataCommand, Package, TargetKind};

use crate::step::cargo;
use crate::{Result, duckdb};

/// The feature that no command turns on: it compiles DuckDB from its sources, which takes long.
const BUNDLED: (&str, &str) = ("idem-duckdb", "bundled");

/// The features whose programs link DuckDB's library.
const LINKED: [(&str, &str); 2] = [("idem-duckdb", "_linked"), ("idem-examples", "batch_load")];

/// Returns the arguments of cargo for the whole workspace with all features, except those of
/// programs that cannot be linked here. Every build of the tests has them: with others, cargo
/// builds most dependencies once more, because their features differ.
pub(crate) fn everything() -> Result<[String; 3]> {
    let is_linked = duckdb::is_there();
    everything_with(|feature| is_linked || !LINKED.contains(&feature))
}

/// Returns the same for commands that link nothing.
pub(crate) fn everything_unlinked() -> Result<[String; 3]> {
    everything_with(|_| true)
}

fn everything_with(has: impl Fn((&str, &str)) -> bool) -> Result<[String; 3]> {
    let packages = members()?.packages;
    let features = packages.iter().flat_map(|package| {
        let name = package.name.as_str();
        let features = features(package).filter(|feature| has((name, feature)));
        features.map(move |feature| format!("{name}/{feature}"))
    });
    let features = features.collect::<Vec<_>>().join(",");
    Ok(["--workspace".to_owned(), "--features".to_owned(), features])
}

/// Returns the features of a package that commands turn on.
pub(crate) fn features(package: &Package) -> impl Iterator<Item = &str> {
    let name = package.name.as_str();
    let features = package.features.keys().map(String::as_str);
    features.filter(move |feature| (name, *feature) != BUNDLED)
}

/// Returns the commands that document these members with their features. A feature by the name of its
/// package would not do: cargo takes it for one of a dependency, where a package's own tests depend
/// on it.
pub(crate) fn documented<'n>(names: impl Iterator<Item = &'n str>) -> Result<[Command; 2]> {
    let mut most = cargo("doc --quiet --no-deps --all-features");
    for name in names.filter(|name| *name != BUNDLED.0) {
        most.args(["--package", name]);
    }
    let packages = members()?.packages;
    let mut packages = packages.iter();
    let other = packages.find(|package| package.name.as_str() == BUNDLED.0);
    let other = other.ok_or_else(|| format!("there is no package {}", BUNDLED.0))?;
    let features: Vec<_> = features(other).collect();
    let mut one = cargo("doc --quiet --no-deps");
    one.args(["--package", BUNDLED.0, "--features", &features.join(",")]);
    Ok([most, one])
}

/// Returns the members alone.
pub(crate) fn members() -> Result<Metadata> {
    Ok(MetadataCommand::new().no_deps().exec()?)
}

/// Returns the members that are published and have an API.
pub(crate) fn published() -> Result<Vec<Package>> {
    let packages = members()?.packages.into_iter();
    Ok(packages
        .filter(|package| is_published(package) && is_library(package))
        .collect())
}

pub(crate) fn is_published(package: &Package) -> bool {
    package.publish.as_ref().is_none_or(|to| !to.is_empty())
}

pub(crate) fn is_library(package: &Package) -> bool {
    let mut targets = package.targets.iter();
    targets.any(|target| target.is_kind(TargetKind::Lib))
}

/// Returns the members and all their dependencies, with all features.
pub(crate) fn all() -> Result<Metadata> {
    let mut command = MetadataCommand::new();
    Ok(command.features(CargoOpt::AllFeatures).exec()?)
}

/// Returns the names of the package's integration tests.
pub(crate) fn tests(package: &Package) -> BTreeSet<&str> {
    let targets = package.targets.iter();
    let tests = targets.filter(|target| target.is_kind(TargetKind::Test));
    tests.map(|target| target.name.as_str()).collect()
}
