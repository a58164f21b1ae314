//! The packages of the workspace, from `cargo metadata`.

use cargo_metadata::{CargoOpt, Metadata, MetadataCommand, Package, TargetKind};

use crate::{Result, duckdb};

/// The feature that no command turns on: it compiles DuckDB from its sources, which takes long.
pub(crate) const BUNDLED: (&str, &str) = ("idem-duckdb", "bundled");

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

/// Returns the features of these packages as an argument of cargo.
pub(crate) fn features_of(packages: &[&str]) -> Result<String> {
    let is_linked = duckdb::is_there();
    let members = members()?.packages;
    let named = members
        .iter()
        .filter(|package| packages.contains(&package.name.as_str()));
    let features = named.flat_map(|package| {
        let name = package.name.as_str();
        let features = features(package);
        let features =
            features.filter(move |feature| is_linked || !LINKED.contains(&(name, feature)));
        features.map(move |feature| format!("{name}/{feature}"))
    });
    Ok(features.collect::<Vec<_>>().join(","))
}

/// Returns the names of the members that a plain `cargo test` is about.
pub(crate) fn default_members() -> Result<Vec<String>> {
    let metadata = members()?;
    let packages = metadata.workspace_default_packages().into_iter();
    Ok(packages.map(|package| package.name.to_string()).collect())
}

/// Returns the features of a package that commands turn on.
pub(crate) fn features(package: &Package) -> impl Iterator<Item = &str> {
    let name = package.name.as_str();
    let features = package.features.keys().map(String::as_str);
    features.filter(move |feature| (name, *feature) != BUNDLED)
}

/// Returns the members alone.
pub(crate) fn members() -> Result<Metadata> {
    Ok(MetadataCommand::new().no_deps().exec()?)
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
