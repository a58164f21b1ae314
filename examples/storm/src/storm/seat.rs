//! [`Seat`]: where a run stores its data.

use std::fs::DirBuilder;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::backend::{Location, foreign};
use super::stop::{OrStop, Stop};

/// The location of the data.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) location: Location,
    /// The URL without a password.
    pub(crate) shown: String,
    /// The temporary folder, which is removed when it is dropped.
    folder: Option<Folder>,
}

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
            Some("sqlite:") => {
                return Err(Stop::new("--store: `sqlite:` needs a file, sqlite:PATH"));
            }
            Some(store) => store.to_owned(),
            None => {
                let made = Folder::create(program).or_stop("no temporary folder can be made")?;
                let folder = &folder.insert(made).path;
                match foreign::name() {
                    Some(name) => format!("{name}:{}", folder.display()),
                    None => format!("sqlite:{}", escaped(&folder.join(format!("{program}.db")))),
                }
            }
        };
        let mut shown = match tiers(&url) {
            _ if folder.is_some() => "temporary file".to_owned(),
            None => without_credentials(&url),
            Some((_, database)) => without_credentials(database),
        };
        if let Some((cache, _)) = tiers(&url) {
            shown = format!("{shown} behind {}", without_credentials(cache));
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
        })
    }

    /// Keeps the temporary folder.
    pub(crate) fn keep(&mut self) {
        if let Some(folder) = &mut self.folder {
            folder.is_kept = true;
        }
    }

    /// Returns the location of the data, without a password.
    pub(crate) fn place(&self) -> String {
        let Location { url, namespace, .. } = &self.location;
        let database = tiers(url).map_or(&**url, |(_, database)| database);
        match feature(database) {
            Some("sqlite") => {
                format!("{database}, tables {namespace}_records and {namespace}_ledger")
            }
            Some("foreign") => database.to_owned(),
            Some("redis") => {
                format!("keys {namespace}:r:* for records, stream {namespace}:{{ledger}}")
            }
            _ => format!("schema or database {namespace}, tables idem_records and ledger"),
        }
    }
}

/// A temporary folder, which only this user may read.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    is_kept: bool,
}

impl Folder {
    fn create(program: &str) -> std::io::Result<Self> {
        let name = format!("idem-{program}-{:016x}", rand::random::<u64>());
        let path = std::env::temp_dir().join(name);
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&path)?;
        let is_kept = false;
        Ok(Self { path, is_kept })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // SQLite removes its side files on a thread of its own, which may be at it. What is left
        // after all tries the system removes some day.
        for _ in 0..5 {
            if self.is_kept || std::fs::remove_dir_all(&self.path).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Escapes a path: in a SQLite URL, a percent sign begins an escape and a question mark the
/// options.
fn escaped(path: &Path) -> String {
    path.to_string_lossy()
        .replace('%', "%25")
        .replace('?', "%3F")
}

/// Returns the feature of the store at this URL; `sqlite` and `foreign` are always there. `None`:
/// the program knows no such store.
pub(crate) fn feature(url: &str) -> Option<&'static str> {
    Some(match url.split(':').next()? {
        "sqlite" => "sqlite",
        "postgres" | "postgresql" => "postgres",
        "mysql" | "mariadb" => "mysql",
        "mssql" | "sqlserver" => "mssql",
        "mongodb" => "mongo",
        "redis" | "rediss" | "valkey" | "valkeys" => "redis",
        own if foreign::name() == Some(own) => "foreign",
        _ => return None,
    })
}

/// Splits `hybrid+CACHE+DATABASE` into cache and database. A plus sign alone may be part of a
/// password.
pub(crate) fn tiers(url: &str) -> Option<(&str, &str)> {
    let rest = url.strip_prefix("hybrid+")?;
    let is_database = |url| !matches!(feature(url), None | Some("redis" | "foreign"));
    let mut pluses = rest.match_indices('+');
    let (at, _) = pluses.find(|&(at, _)| is_database(&rest[at + 1..]))?;
    (feature(rest) == Some("redis")).then(|| (&rest[..at], &rest[at + 1..]))
}

/// Returns `host:port/database` of a server's URL, or of each node's; the path of a file.
pub(crate) fn without_credentials(url: &str) -> String {
    if let Some(path) = url.strip_prefix("sqlite:") {
        return path.to_owned();
    }
    #[cfg(feature = "server")]
    return idem_stores::ServerUrl::from(url).without_credentials();
    // A program without servers opens none of them.
    #[cfg(not(feature = "server"))]
    url.split(':').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hybrid_has_a_cache_and_a_database() {
        for (url, tiers_of_it) in [
            (
                "hybrid+redis://:a+b@one:1+postgres://me:x+y@two/idem",
                Some(("redis://:a+b@one:1", "postgres://me:x+y@two/idem")),
            ),
            (
                "hybrid+redis://one,redis://two+sqlite:/a+b.db",
                Some(("redis://one,redis://two", "sqlite:/a+b.db")),
            ),
            ("hybrid+redis://one", None),
            ("hybrid+mysql://one+postgres://two", None),
            ("hybrid+redis://one+redis://two", None),
            ("redis://one", None),
        ] {
            assert_eq!(tiers(url), tiers_of_it, "{url}");
        }
    }
}
