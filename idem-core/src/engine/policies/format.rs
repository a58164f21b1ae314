//! [`Format`]: the forms that a document of policies may have.

use std::cell::RefCell;
use std::path::Path;

use serde::de::DeserializeSeed;
use serde_json::Value;

use super::PolicyFileError;
use super::tree::Tree;

/// The form of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    #[cfg(feature = "toml")]
    Toml,
    #[cfg(feature = "yaml")]
    Yaml,
}

/// Why a document was not read to its end.
struct Stop {
    position: Option<(usize, usize)>,
    /// The word at that position.
    word: Option<String>,
    reason: String,
}

impl Format {
    /// Chooses the format by the file's extension.
    pub(super) fn of(path: &Path) -> Result<Self, PolicyFileError> {
        let extension = path.extension().and_then(|text| text.to_str());
        match extension.map(str::to_ascii_lowercase).as_deref() {
            #[cfg(feature = "toml")]
            Some("toml") => Ok(Self::Toml),
            #[cfg(feature = "yaml")]
            Some("yaml" | "yml") => Ok(Self::Yaml),
            #[cfg(not(feature = "toml"))]
            Some("toml") => Err(PolicyFileError::new(
                "TOML is read with the feature `toml` of idem-core",
            )),
            #[cfg(not(feature = "yaml"))]
            Some("yaml" | "yml") => Err(PolicyFileError::new(
                "YAML is read with the feature `yaml` of idem-core",
            )),
            _ => Err(PolicyFileError::new(
                "a file of policies ends in .toml, .yaml or .yml",
            )),
        }
    }

    /// Returns the document's values.
    pub(super) fn tree(self, text: &str) -> Result<Value, PolicyFileError> {
        let path = RefCell::default();
        self.read(text, &path, None).map_err(|stop| {
            let path = path.take();
            let key = (!path.is_empty()).then(|| written(&path)).or(stop.word);
            let reason = without_path(stop.reason, &path);
            PolicyFileError::new(reason).at(stop.position).of_key(key)
        })
    }

    /// Returns line and column of a key.
    pub(super) fn locate(self, text: &str, key: &[String]) -> Option<(usize, usize)> {
        let read = self.read(text, &RefCell::default(), Some(key));
        read.err()?.position
    }

    fn read(
        self,
        text: &str,
        path: &RefCell<Vec<String>>,
        until: Option<&[String]>,
    ) -> Result<Value, Stop> {
        let tree = Tree { path, until };
        match self {
            #[cfg(feature = "toml")]
            Self::Toml => toml::Deserializer::parse(text)
                .and_then(|document| tree.deserialize(document))
                .map_err(|error| Stop::toml(&error, text)),
            #[cfg(feature = "yaml")]
            Self::Yaml => tree
                .deserialize(serde_norway::Deserializer::from_str(text))
                .map_err(|error| Stop::yaml(&error)),
        }
    }
}

impl Stop {
    #[cfg(feature = "toml")]
    fn toml(error: &toml::de::Error, text: &str) -> Self {
        let position = error.span().and_then(|span| {
            let before = text.get(..span.start)?;
            let line = before.matches('\n').count() + 1;
            let start = before.rfind('\n').map_or(0, |end| end + 1);
            Some((line, before.get(start..)?.chars().count() + 1))
        });
        let reason = error.message().trim().replace('\n', "; ");
        let is_word = reason == "duplicate key";
        let word = error.span().filter(|_| is_word);
        Self {
            position,
            word: word.and_then(|span| text.get(span)).map(str::to_owned),
            reason,
        }
    }

    #[cfg(feature = "yaml")]
    fn yaml(error: &serde_norway::Error) -> Self {
        let position = error
            .location()
            .map(|location| (location.line(), location.column()));
        let mut reason = error.to_string();
        if let Some((line, column)) = position {
            // The error reports the position elsewhere.
            let tail = format!(" at line {line} column {column}");
            if let Some(at) = reason.find(&tail) {
                reason.replace_range(at..at + tail.len(), "");
            }
        }
        Self {
            position,
            word: None,
            reason,
        }
    }
}

/// Writes a path as TOML does.
pub(super) fn written(path: &[String]) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let parts = path.iter().map(|part| {
        if !part.is_empty() && part.chars().all(is_bare) {
            part.clone()
        } else {
            format!("{part:?}")
        }
    });
    parts.collect::<Vec<_>>().join(".")
}

/// Returns the reason without the tables that the parser of YAML puts before it.
fn without_path(reason: String, path: &[String]) -> String {
    let parent = &path[..path.len().saturating_sub(1)];
    [path, parent]
        .into_iter()
        .find_map(|path| reason.strip_prefix(&format!("{}: ", path.join("."))))
        .map(str::to_owned)
        .unwrap_or(reason)
}
