//! [`Seat`]: where this run stores its data.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::args::Args;
use super::backend::Location;
use super::stop::Stop;
use super::url;

/// The maximum number of connections to a server, of a process and of all together: PostgreSQL's
/// usual limit is 100.
const MAX_CONNECTIONS: (u32, u32) = (8, 64);

/// The location of the data, and what has to be removed with it.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) location: Location,
    /// The URL without a password.
    pub(crate) shown: String,
    folder: Option<TempDir>,
    /// The SQLite file of `--store`.
    file: Option<File>,
}

#[derive(Debug)]
struct File {
    path: PathBuf,
    /// Whether the file existed before.
    old: bool,
}

/// How long SQLite may take to remove its side files.
const TIDY_LIMIT: Duration = Duration::from_millis(300);

impl Seat {
    /// Chooses the store of `--store`, or a file in a temporary folder.
    pub(crate) fn choose(args: &Args) -> Result<Self, Stop> {
        let location = |url| Location {
            url,
            namespace: format!("idem_storm_{:08x}", rand::random::<u32>()),
            connections: connections(args),
            worker: String::new(),
        };
        let Some(store) = args.store.as_deref() else {
            let folder = tempfile::Builder::new()
                .prefix("idem-storm-")
                .tempdir()
                .map_err(|error| Stop::because("no temporary folder can be made", &error))?;
            let path = folder.path().join("storm.db");
            return Ok(Self {
                location: location(format!("sqlite:{}", escaped(&path))),
                shown: "temporary file".to_owned(),
                folder: Some(folder),
                file: None,
            });
        };
        let tiers = url::tiers(store);
        let database = tiers.map_or(store, |(_, database)| database);
        let path = sqlite_path(database);
        if database.starts_with("sqlite:")
            && path.as_deref().is_some_and(|path| path == Path::new(""))
        {
            return Err(Stop::new("--store: `sqlite:` needs a file, sqlite:PATH"));
        }
        let database = match &path {
            Some(path) => path.display().to_string(),
            None => url::without_credentials(database),
        };
        Ok(Self {
            location: location(store.to_owned()),
            shown: match tiers {
                Some((cache, _)) => {
                    format!("{database} behind {}", url::without_credentials(cache))
                }
                None => database,
            },
            folder: None,
            file: path.map(|path| File {
                old: path.exists(),
                path,
            }),
        })
    }

    /// Keeps the data, and returns its location.
    pub(crate) fn keep(&mut self) -> String {
        if let Some(folder) = &mut self.folder {
            folder.disable_cleanup(true);
        }
        let Location { url, namespace, .. } = &self.location;
        let database = url::tiers(url).map_or(&**url, |(_, database)| database);
        match url::scheme(database) {
            "sqlite" => format!("{database}, tables {namespace}_records and {namespace}_ledger"),
            scheme if url::is_redis(scheme) => {
                format!("keys {namespace}:r:* for records, stream {{{namespace}}}:ledger")
            }
            _ => format!("schema or database {namespace}, tables idem_records and ledger"),
        }
    }

    /// Removes what did not exist before the run. The store is closed by now.
    pub(crate) fn clear(self, keep: bool) {
        if let Some(File { path, old }) = &self.file {
            wait_until_tidy(path);
            if !old && !keep {
                for suffix in ["", "-wal", "-shm"] {
                    // A missing file need not be removed.
                    let _ = std::fs::remove_file(with_suffix(path, suffix));
                }
            }
        }
        // Dropping its handle removes the temporary folder.
    }
}

fn connections(args: &Args) -> u32 {
    let (each, all) = MAX_CONNECTIONS;
    args.concurrency.min(each).min(all / args.processes).max(1)
}

/// Waits for SQLite to remove its side files. It does so with the last connection, which the driver
/// closes on a thread of its own.
fn wait_until_tidy(path: &Path) {
    let deadline = Instant::now() + TIDY_LIMIT;
    while with_suffix(path, "-wal").exists() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Returns the file of a SQLite URL.
fn sqlite_path(url: &str) -> Option<PathBuf> {
    let rest = url.strip_prefix("sqlite:")?;
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    let path = rest.split('?').next().unwrap_or(rest);
    (!path.contains('%')).then(|| PathBuf::from(path))
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
        assert_eq!(escaped(Path::new("/a?/50%")), "/a%3F/50%25");
    }
}
