//! The packages of the workspace, from `cargo metadata`.

use std::collections::BTreeSet;

use cargo_metadata::{CargoOpt, Metadata, MetadataCommand, Package, TargetKind};

use crate::Result;

/// Returns the members alone.
pub(crate) fn members() -> Result<Metadata> {
    Ok(MetadataCommand::new().no_deps().exec()?)
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
