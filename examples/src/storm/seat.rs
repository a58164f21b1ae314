//! [`Seat`]: where this run keeps its data.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::backend::Place;
use super::stop::Stop;

/// Most connections of a process to a server: four processes stay far below PostgreSQL's usual hundred.
const MAX_CONNECTIONS: u32 = 8;

/// The place of the data, and what has to be removed with it.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) place: Place,
    /// As it may be shown: without a password.
    pub(crate) shown: String,
    folder: Option<TempDir>,
    /// The SQLite file, where there was none before.
    file: Option<PathBuf>,
}

impl Seat {
    /// The store of `--store`, or a file in a temporary folder.
    pub(crate) fn choose(store: Option<&str>, concurrency: u32) -> Result<Self, Stop> {
        let place = |url| Place {
            url,
            namespace: format!("idem_storm_{:08x}", rand::random::<u32>()),
            connections: concurrency.min(MAX_CONNECTIONS),
        };
        let Some(url) = store else {
            let folder = tempfile::Builder::new()
                .prefix("idem-storm-")
                .tempdir()
                .map_err(|error| Stop::because("no temporary folder can be made", &error))?;
            let path = folder.path().join("storm.db");
            return Ok(Self {
                place: place(format!("sqlite:{}", escaped(&path))),
                shown: "temporary file".to_owned(),
                folder: Some(folder),
                file: None,
            });
        };
        let path = sqlite_path(url);
        Ok(Self {
            place: place(url.to_owned()),
            shown: match &path {
                Some(path) => path.display().to_string(),
                None => without_credentials(url),
            },
            folder: None,
            file: path.filter(|path| !path.exists()),
        })
    }

    /// Where the data is, for people who keep it.
    pub(crate) fn keep(&mut self) -> String {
        if let Some(folder) = &mut self.folder {
            folder.disable_cleanup(true);
        }
        let Place { url, namespace, .. } = &self.place;
        match url.starts_with("sqlite:") {
            true => format!("{url}, tables {namespace}_records and {namespace}_ledger"),
            false => format!("schema {namespace}, tables idem_records and ledger"),
        }
    }

    /// Removes what was not there before the run.
    pub(crate) fn clear(self) {
        if let Some(path) = self.file {
            for suffix in ["", "-wal", "-shm"] {
                let mut name = path.clone().into_os_string();
                name.push(suffix);
                // What cannot be removed now was removed by SQLite, or is left to its owner.
                let _ = std::fs::remove_file(name);
            }
        }
        // The folder goes with its handle.
    }
}

/// The file of a SQLite URL.
fn sqlite_path(url: &str) -> Option<PathBuf> {
    let rest = url.strip_prefix("sqlite:")?;
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    let path = rest.split('?').next().unwrap_or(rest);
    (!path.is_empty() && !path.contains('%')).then(|| PathBuf::from(path))
}

/// In a SQLite URL, a percent sign begins an escape and a question mark the options.
fn escaped(path: &Path) -> String {
    path.to_string_lossy()
        .replace('%', "%25")
        .replace('?', "%3F")
}

/// `host:port/database` of a server's URL.
fn without_credentials(url: &str) -> String {
    let rest = url.split("://").nth(1).unwrap_or_default();
    let rest = rest.split('?').next().unwrap_or_default();
    rest.rsplit('@').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        let shown = without_credentials("postgres://me:p@ss@db.example:5432/idem?password=x");
        assert_eq!(shown, "db.example:5432/idem");
    }

    #[test]
    fn files_of_urls_are_found() {
        for url in ["sqlite:/a/b.db", "sqlite:///a/b.db?mode=rwc"] {
            assert_eq!(sqlite_path(url), Some(PathBuf::from("/a/b.db")));
        }
        assert_eq!(escaped(Path::new("/a?/50%")), "/a%3F/50%25");
    }
}
