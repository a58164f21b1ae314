//! The packages of the workspace, from `cargo metadata`.

use std::collections::BTreeSet;

use cargo_metadata::{CargoOpt, Metadata, MetadataCommand, Package, TargetKind};

use crate::Result;

/// The arguments of cargo for the whole workspace. Every build of the tests has them: with others,
/// cargo builds most dependencies once more, because their features differ.
pub(crate) const EVERYTHING: [&str; 2] = ["--workspace", "--all-features"];

/// Returns the members alone.
pub(crate) fn members() -> Result<Metadata> {
    Ok(MetadataCommand::new().no_deps().exec()?)
}

/// Returns the names of the members that are published and have an API.
pub(crate) fn published() -> Result<Vec<String>> {
    let packages = members()?.packages.into_iter();
    let published = packages.filter(|package| is_published(package) && is_library(package));
    Ok(published.map(|package| package.name.to_string()).collect())
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
