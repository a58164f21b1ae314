//! [`Seat`]: where a run stores its data.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use idem_sqlite::sqlx::sqlite::SqliteConnectOptions;
use tempfile::TempDir;

use super::backend::Location;
use super::stop::{OrStop, Stop};
use super::url::{self, Product};

/// The location of the data, and what has to be removed with it.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) location: Location,
    /// The URL without a password.
    pub(crate) shown: String,
    /// The temporary folder, which is removed when it is dropped.
    folder: Option<TempDir>,
    /// The SQLite file, and whether it existed before.
    file: Option<(PathBuf, bool)>,
}

/// How long SQLite may take to remove its side files.
const TIDY_LIMIT: Duration = Duration::from_millis(300);

impl Seat {
    /// Chooses the store of `--store`, or a file in a temporary folder. Tables, schema or keys are
    /// named after the program.
    pub(crate) fn choose(
        store: Option<&str>,
        program: &str,
        connections: u32,
    ) -> Result<Self, Stop> {
        let mut folder = None;
        let url = match store {
            Some(store) => store.to_owned(),
            None => {
                let made = tempfile::Builder::new()
                    .prefix(&format!("idem-{program}-"))
                    .tempdir()
                    .or_stop("no temporary folder can be made")?;
                let path = folder.insert(made).path().join(format!("{program}.db"));
                format!("sqlite:{}", escaped(&path))
            }
        };
        let tiers = url::tiers(&url);
        let database = tiers.map_or(&*url, |(_, database)| database);
        if database == "sqlite:" {
            return Err(Stop::new("--store: `sqlite:` needs a file, sqlite:PATH"));
        }
        let path = sqlite_path(database);
        let mut shown = match &path {
            Some(_) if folder.is_some() => "temporary file".to_owned(),
            Some(path) => path.display().to_string(),
            None => url::without_credentials(database),
        };
        if let Some((cache, _)) = tiers {
            shown = format!("{shown} behind {}", url::without_credentials(cache));
        }
        Ok(Self {
            location: Location {
                url,
                namespace: format!("idem_{program}_{:08x}", rand::random::<u32>()),
                connections,
                worker: String::new(),
            },
            shown,
            folder,
            file: path.map(|path| (path.clone(), path.exists())),
        })
    }

    /// Keeps the data, and returns its location.
    pub(crate) fn keep(&mut self) -> String {
        if let Some(folder) = &mut self.folder {
            folder.disable_cleanup(true);
        }
        let Location { url, namespace, .. } = &self.location;
        let database = url::tiers(url).map_or(&**url, |(_, database)| database);
        match Product::of(database) {
            Ok(Product::Sqlite) => {
                format!("{database}, tables {namespace}_records and {namespace}_ledger")
            }
            Ok(Product::Redis) => {
                format!("keys {namespace}:r:* for records, stream {namespace}:{{ledger}}")
            }
            _ => format!("schema or database {namespace}, tables idem_records and ledger"),
        }
    }

    /// Removes what did not exist before the run. The store is closed by now.
    pub(crate) fn clear(self, keep: bool) {
        let Some((path, is_old)) = &self.file else {
            return;
        };
        let [wal, shm] = ["-wal", "-shm"].map(|suffix| {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            PathBuf::from(name)
        });
        // SQLite removes its side files with the last connection, which the driver closes on a
        // thread of its own.
        let deadline = Instant::now() + TIDY_LIMIT;
        while wal.exists() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
        if !is_old && !keep {
            for file in [path, &wal, &shm] {
                // A missing file need not be removed.
                let _ = std::fs::remove_file(file);
            }
        }
    }
}

/// Returns the file of a SQLite URL.
fn sqlite_path(url: &str) -> Option<PathBuf> {
    let options = url.starts_with("sqlite:").then_some(url)?;
    let options = SqliteConnectOptions::from_str(options).ok()?;
    Some(options.get_filename().to_owned())
}

/// Escapes a path: in a SQLite URL, a percent sign begins an escape and a question mark the
/// options.
fn escaped(path: &Path) -> String {
    path.to_string_lossy()
        .replace('%', "%25")
        .replace('?', "%3F")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_urls_are_found() {
        for url in ["sqlite:/a/b.db", "sqlite:///a/b.db?mode=rwc"] {
            assert_eq!(sqlite_path(url), Some(PathBuf::from("/a/b.db")));
        }
        let path = Path::new("/a?/50%");
        assert_eq!(escaped(path), "/a%3F/50%25");
        assert_eq!(sqlite_path("sqlite:/a%3F/50%25").as_deref(), Some(path));
    }
}
