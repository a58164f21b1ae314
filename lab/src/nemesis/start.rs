//! [`Start`]: the program by which a server is started, and how it does that.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use idem_core::BoxError;

/// A program by which a server is started. What it does can change between two starts.
#[derive(Debug)]
pub(crate) struct Start {
    folder: PathBuf,
}

impl Start {
    /// Creates the program in that folder, which other accounts may read. It starts servers as they
    /// are.
    pub(crate) fn create(folder: &Path) -> Result<Self, BoxError> {
        fs::create_dir_all(folder)?;
        let start = Self {
            folder: folder.to_owned(),
        };
        let how = start.folder.join("how").display().to_string();
        fs::write(start.program(), format!("#!/bin/sh\n. '{how}'\n"))?;
        fs::set_permissions(start.program(), fs::Permissions::from_mode(0o755))?;
        start.plainly()?;
        Ok(start)
    }

    /// Returns the program.
    pub(crate) fn program(&self) -> PathBuf {
        self.folder.join("start")
    }

    /// Starts servers as they are.
    pub(crate) fn plainly(&self) -> Result<(), BoxError> {
        self.by("exec \"$@\"")
    }

    /// Starts servers by this line of the shell.
    pub(crate) fn by(&self, line: &str) -> Result<(), BoxError> {
        Ok(fs::write(self.folder.join("how"), format!("{line}\n"))?)
    }
}
