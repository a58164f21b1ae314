//! What `cargo metadata` tells.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::Result;
use crate::step::{cargo, output};

/// The workspace, and what it depends on.
#[derive(Debug)]
pub(crate) struct Workspace(Value);

impl Workspace {
    /// The members alone.
    pub(crate) fn members() -> Result<Self> {
        Self::read(&["metadata", "--format-version=1", "--no-deps"])
    }

    /// The members and everything that they are built from, with all features.
    pub(crate) fn all() -> Result<Self> {
        Self::read(&["metadata", "--format-version=1", "--all-features"])
    }

    fn read(arguments: &[&str]) -> Result<Self> {
        Ok(Self(serde_json::from_str(&output(&mut cargo(arguments))?)?))
    }

    pub(crate) fn packages(&self) -> impl Iterator<Item = Package<'_>> {
        self.0["packages"]
            .as_array()
            .into_iter()
            .flatten()
            .map(Package)
    }

    /// The names of all integration tests, each once.
    pub(crate) fn test_targets(&self) -> std::collections::BTreeSet<&str> {
        let targets = self
            .packages()
            .flat_map(|package| package.0["targets"].as_array());
        let tests = targets
            .flatten()
            .filter(|target| target["kind"][0] == "test");
        tests.filter_map(|target| target["name"].as_str()).collect()
    }

    pub(crate) fn target_folder(&self) -> PathBuf {
        PathBuf::from(self.0["target_directory"].as_str().unwrap_or("target"))
    }
}

/// One package.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Package<'w>(&'w Value);

impl<'w> Package<'w> {
    pub(crate) fn name(self) -> &'w str {
        self.0["name"].as_str().unwrap_or_default()
    }

    pub(crate) fn version(self) -> &'w str {
        self.0["version"].as_str().unwrap_or_default()
    }

    /// The folder of its manifest.
    pub(crate) fn folder(self) -> PathBuf {
        let manifest = Path::new(self.0["manifest_path"].as_str().unwrap_or_default());
        manifest.parent().unwrap_or(manifest).to_path_buf()
    }

    pub(crate) fn rust_version(self) -> Option<&'w str> {
        self.0["rust_version"].as_str()
    }

    pub(crate) fn has_features(self) -> bool {
        self.0["features"]
            .as_object()
            .is_some_and(|features| !features.is_empty())
    }

    pub(crate) fn has_test(self, name: &str) -> bool {
        let targets = self.0["targets"].as_array().into_iter().flatten();
        targets
            .filter(|target| target["kind"][0] == "test")
            .any(|target| target["name"] == name)
    }
}

/// `1.94` or `1.94.0` as numbers that compare.
pub(crate) fn version_numbers(version: &str) -> Vec<u32> {
    let mut numbers: Vec<_> = version
        .split('.')
        .map(|part| part.parse().unwrap_or(0))
        .collect();
    numbers.resize(3, 0);
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_numbers() {
        assert!(version_numbers("1.9") < version_numbers("1.10"));
        assert_eq!(version_numbers("1.94"), version_numbers("1.94.0"));
    }

    #[test]
    fn packages_are_read_from_metadata() {
        let text = r#"{"target_directory":"/t","packages":[{"name":"a","version":"0.1.0","rust_version":"1.94",
            "manifest_path":"/w/a/Cargo.toml","features":{"tls":[]},
            "targets":[{"kind":["lib"],"name":"a"},{"kind":["test"],"name":"conformance"}]}]}"#;
        let workspace = Workspace(serde_json::from_str(text).unwrap());
        let package = workspace.packages().next().unwrap();
        assert_eq!(
            (package.name(), package.rust_version()),
            ("a", Some("1.94"))
        );
        assert_eq!(package.folder(), Path::new("/w/a"));
        assert!(
            package.has_features() && package.has_test("conformance") && !package.has_test("a")
        );
        assert_eq!(workspace.target_folder(), Path::new("/t"));
    }
}
