//! [`PolicyFile`]: policies that can be reloaded.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::format::Format;
use super::read::read;
use super::{LivePolicies, Policies, PolicyFileError};
use crate::Limits;

/// A larger file is not a file of policies.
const MAX_BYTES: u64 = 1 << 20;

/// A file of policies, in TOML or YAML by its extension, that can be read again while runs are
/// under way.
///
/// ```toml
/// [default]                        # operations without a table; the base of the others
/// lease = "30s"
///
/// [operations."payments.create"]
/// preset = "at_most_once"          # the base of this one instead
/// retention = "72h"
/// failure_retention = "72h"
/// on_busy = { wait = "5s" }        # or "refuse"
/// max_request_bytes = 65536
///
/// [operations."jobs.*"]            # every name that begins so; an exact name wins, then the longest
/// preset = "build"
/// window = "90s"                   # the retention by another name, counted from the result
/// on_error = "release"             # or "record"
/// on_stale = "take_over"           # or "fail"
/// ```
///
/// Each table has the keys of [`Policy`](crate::Policy), and `preset`: `default`, `at_most_once`,
/// `build`, `fix`, `deploy`, `delete`, `api_write`, `webhook`, or `batch` with `run = "2h"`, the
/// expected run. YAML has the same tables.
///
/// A file with an error, or with a value that no store accepts, is refused as a whole; the earlier
/// policies stay. The error has file, line, key and reason:
///
/// ```text
/// policies.toml:7:1: operations."payments.create".leese: there is no key `leese`; did you mean `lease`?
/// ```
///
/// A run keeps the policy that it started with.
///
/// ```no_run
/// # #[cfg(feature = "toml")]
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use idem_core::engine::PolicyFile;
/// use idem_core::{Idempotency, MemoryStore};
///
/// let file = PolicyFile::load("policies.toml")?;
/// let idem = Idempotency::new(MemoryStore::new()).with_policy_file(&file);
/// tokio::spawn(async move {
///     loop {
///         tokio::time::sleep(Duration::from_secs(5)).await;
///         if let Err(error) = file.reload() {
///             eprintln!("the earlier policies hold: {error}");
///         }
///     }
/// });
/// # Ok(())
/// # }
/// ```
///
/// A file that is written in place may be read half written: write another one, and rename it.
///
/// Clones share the file and its policies.
#[derive(Debug, Clone)]
pub struct PolicyFile {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    base: Policies,
    live: LivePolicies,
    /// Reloads run one at a time, so that the latest text wins.
    reloading: Mutex<()>,
}

impl Policies {
    /// Reads policies from a file, once: TOML or YAML by its extension. See [`PolicyFile`] for its
    /// form.
    ///
    /// # Errors
    ///
    /// As for [`PolicyFile::load`].
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, PolicyFileError> {
        let (path, base) = (path.as_ref(), Self::default());
        text_of(path)
            .and_then(|text| read(Format::of(path)?, &text, base, &Limits::DEFAULT))
            .map_err(|error| error.in_file(path))
    }
}

impl PolicyFile {
    /// Reads the file.
    ///
    /// # Errors
    ///
    /// [`PolicyFileError`] for a file that cannot be read or that is refused.
    pub fn load(path: impl Into<PathBuf>) -> Result<Self, PolicyFileError> {
        Self::load_over(path, Policies::default())
    }

    /// Reads the file on top of policies made in code: its operations are added to theirs, and win
    /// over them.
    ///
    /// # Errors
    ///
    /// As for [`load`](Self::load).
    pub fn load_over(path: impl Into<PathBuf>, base: Policies) -> Result<Self, PolicyFileError> {
        let shared = Arc::new(Shared {
            path: path.into(),
            base,
            live: LivePolicies::default(),
            reloading: Mutex::new(()),
        });
        let file = Self { shared };
        file.install(&file.text()?)?;
        Ok(file)
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Returns the policies for runs that start now.
    #[must_use]
    pub fn policies(&self) -> Arc<Policies> {
        self.shared.live.get()
    }

    /// Reads the file again, and returns whether the policies have changed. Runs that start from
    /// now on follow them. The call blocks while it reads the file, which is small.
    ///
    /// # Errors
    ///
    /// As for [`load`](Self::load); the earlier policies still hold.
    pub fn reload(&self) -> Result<bool, PolicyFileError> {
        let reloading = self.shared.reloading.lock();
        let _one = reloading.unwrap_or_else(PoisonError::into_inner);
        self.install(&self.text()?)
    }

    fn text(&self) -> Result<String, PolicyFileError> {
        text_of(self.path()).map_err(|error| error.in_file(self.path()))
    }

    fn install(&self, text: &str) -> Result<bool, PolicyFileError> {
        let base = self.shared.base.clone();
        let policies = Format::of(self.path())
            .and_then(|format| read(format, text, base, &Limits::DEFAULT))
            .map_err(|error| error.in_file(self.path()))?;
        let is_other = *self.shared.live.get() != policies;
        if is_other {
            self.shared.live.set(policies);
        }
        Ok(is_other)
    }

    pub(in crate::engine) fn live(&self) -> LivePolicies {
        self.shared.live.clone()
    }
}

fn text_of(path: &Path) -> Result<String, PolicyFileError> {
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_string(&mut text))
        .map_err(|error| {
            PolicyFileError::new(format!("it cannot be read: {error}")).with_source(error)
        })?;
    if u64::try_from(text.len()).is_ok_and(|bytes| bytes <= MAX_BYTES) {
        Ok(text)
    } else {
        Err(PolicyFileError::new("it has more than 1 MiB"))
    }
}
