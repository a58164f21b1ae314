//! [`PolicyFileError`]: why a file of policies was refused.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::BoxError;
use crate::backend::Redacted;

/// Why a text or file of policies was refused: where, which key, and the reason.
///
/// Shown as `policies.toml:7:1: operations.build.lease: …`. It may quote names and values of the
/// file; of the parser's own error, `Debug` shows the class only.
pub struct PolicyFileError {
    file: Option<PathBuf>,
    line: Option<usize>,
    column: Option<usize>,
    key: Option<String>,
    reason: String,
    source: Option<BoxError>,
}

impl PolicyFileError {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self {
            file: None,
            line: None,
            column: None,
            key: None,
            reason: reason.into(),
            source: None,
        }
    }

    /// Sets the line and column, both from 1.
    pub(super) fn at(mut self, position: Option<(usize, usize)>) -> Self {
        self.line = position.map(|(line, _)| line);
        self.column = position.map(|(_, column)| column);
        self
    }

    pub(super) fn of_key(mut self, key: Option<String>) -> Self {
        self.key = key;
        self
    }

    pub(super) fn in_file(mut self, file: &Path) -> Self {
        self.file = Some(file.to_path_buf());
        self
    }

    pub(super) fn with_source(mut self, source: impl Into<BoxError>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Returns the file; `None` for policies that were given as text.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Returns the line, from 1; `None` when the error has no position in the text.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        self.line
    }

    /// Returns the column, from 1, in characters.
    #[must_use]
    pub fn column(&self) -> Option<usize> {
        self.column
    }

    /// Returns the key with its tables, such as `operations."payments.create".lease`; `None` when
    /// the text cannot be read at all.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// Returns what is wrong, and how to correct it.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Debug for PolicyFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = self.source.as_deref();
        f.debug_struct("PolicyFileError")
            .field("file", &self.file)
            .field("line", &self.line)
            .field("column", &self.column)
            .field("key", &self.key)
            .field("reason", &self.reason)
            .field("source", &source.map(|source| Redacted::new(source)))
            .finish()
    }
}

impl fmt::Display for PolicyFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.line, self.column) {
            (Some(file), Some(line), Some(column)) => {
                write!(f, "{}:{line}:{column}: ", file.display())?;
            }
            (Some(file), _, _) => write!(f, "{}: ", file.display())?,
            (None, Some(line), Some(column)) => write!(f, "line {line}, column {column}: ")?,
            (None, _, _) => {}
        }
        if let Some(key) = &self.key {
            write!(f, "{key}: ")?;
        }
        f.write_str(&self.reason)
    }
}

impl std::error::Error for PolicyFileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
