//! [`Clock`]: the clock of a server, which can be set.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use idem_core::BoxError;

use super::shell::run;

/// The source of what is preloaded into the server.
pub(super) const STEP: &str = include_str!("../../preload/step.c");

/// The clock of a server.
#[derive(Debug)]
pub(crate) struct Clock {
    library: PathBuf,
    file: PathBuf,
}

impl Clock {
    /// Compiles what is preloaded, in that folder, which other accounts may read.
    pub(crate) fn create(folder: &Path) -> Result<Self, BoxError> {
        fs::create_dir_all(folder)?;
        let [source, library, file] = ["step.c", "step.so", "step"].map(|name| folder.join(name));
        fs::write(&source, STEP)?;
        fs::write(&file, [0; 8])?;
        let [from, to] = [&source, &library].map(|path| path.display().to_string());
        run(
            "cc",
            &[
                "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", &to, &from,
            ],
        )?;
        Ok(Self { library, file })
    }

    /// Returns the line of the shell that starts a server with this clock.
    pub(crate) fn start(&self) -> String {
        let (library, file) = (self.library.display(), self.file.display());
        // The shell itself keeps the right time.
        format!("exec env IDEM_STEP_FILE='{file}' LD_PRELOAD='{library}' \"$@\"")
    }

    /// Sets it to that many microseconds after the right time.
    pub(crate) fn set(&self, micros: i64) -> Result<(), BoxError> {
        let file = File::options().write(true).open(&self.file)?;
        Ok(file.write_all_at(&micros.to_ne_bytes(), 0)?)
    }
}
