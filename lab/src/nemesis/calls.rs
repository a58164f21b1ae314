//! System calls that fail: `strace` answers them in the kernel's place.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use idem_core::BoxError;

/// Forced writes that fail.
#[derive(Debug)]
pub(crate) struct FailingWrites {
    report: PathBuf,
}

impl FailingWrites {
    /// Lets `strace` report to a file in that folder, which every account may write.
    pub(crate) fn create(folder: &Path) -> Result<Self, BoxError> {
        let report = folder.join("injected");
        fs::write(&report, "")?;
        fs::set_permissions(&report, fs::Permissions::from_mode(0o666))?;
        Ok(Self { report })
    }

    /// Returns the line of the shell that starts a program of which every thread's forced write
    /// with that number fails with `EIO`. The program stays the child of who starts it (`-D`).
    pub(crate) fn start(&self, number: u64) -> String {
        let report = self.report.display();
        format!(
            "exec strace -D -f --seccomp-bpf -qq -o '{report}' -e trace=fsync,fdatasync \
             -e inject=fsync,fdatasync:error=EIO:when={number} \"$@\""
        )
    }

    /// Counts those that failed.
    pub(crate) fn count(&self) -> Result<usize, BoxError> {
        let report = fs::read(&self.report)?;
        Ok(String::from_utf8_lossy(&report)
            .matches("(INJECTED)")
            .count())
    }
}
