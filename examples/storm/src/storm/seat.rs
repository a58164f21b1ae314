//! [`Seat`]: where a run stores its data.

use std::fs::DirBuilder;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use idem_sqlite::sqlx::sqlite::SqliteConnectOptions;

use super::backend::{Location, foreign};
use super::stop::{OrStop, Stop};

/// The location of the data, and what has to be removed with it.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) location: Location,
    /// The URL without a password.
    pub(crate) shown: String,
    /// The temporary folder, which is removed when it is dropped.
    folder: Option<Folder>,
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
                let made = Folder::create(program).or_stop("no temporary folder can be made")?;
                let folder = &folder.insert(made).path;
                match foreign::name() {
                    Some(name) => format!("{name}:{}", folder.display()),
                    None => {
                        format!("sqlite:{}", escaped(&folder.join(format!("{program}.db"))))
                    }
                }
            }
        };
        let tiers = tiers(&url);
        let database = tiers.map_or(&*url, |(_, database)| database);
        if database == "sqlite:" {
            return Err(Stop::new("--store: `sqlite:` needs a file, sqlite:PATH"));
        }
        let path = sqlite_path(database);
        let mut shown = match &path {
            _ if folder.is_some() => "temporary file".to_owned(),
            Some(path) => path.display().to_string(),
            None => without_credentials(database),
        };
        if let Some((cache, _)) = tiers {
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
            file: path.map(|path| (path.clone(), path.exists())),
        })
    }

    /// Keeps the data, and returns its location.
    pub(crate) fn keep(&mut self) -> String {
        if let Some(folder) = &mut self.folder {
            folder.is_kept = true;
        }
        self.place()
    }

    /// Returns the location of the data, without a password.
    pub(crate) fn place(&self) -> String {
        let Location { url, namespace, .. } = &self.location;
        let database = tiers(url).map_or(&**url, |(_, database)| database);
        match Product::of(database) {
            Ok(Product::Sqlite) => {
                format!("{database}, tables {namespace}_records and {namespace}_ledger")
            }
            Ok(Product::Foreign) => database.to_owned(),
            Ok(Product::Redis) => {
                format!("keys {namespace}:r:* for records, stream {namespace}:{{ledger}}")
            }
            _ => format!("schema or database {namespace}, tables idem_records and ledger"),
        }
    }

    /// Removes what did not exist before the run. The store is closed by now.
    pub(crate) fn clear(&self, keep: bool) {
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
        if !self.is_kept {
            // The system removes the folder some day.
            let _ = std::fs::remove_dir_all(&self.path);
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

/// A kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Product {
    Sqlite,
    Postgres,
    MySql,
    Mssql,
    Mongo,
    /// Redis or Valkey, the only one that can be a cache.
    Redis,
    /// The store of somebody else that the program was built for.
    Foreign,
}

impl Product {
    /// Returns the kind of store at this URL; the scheme if there is none.
    pub(crate) fn of(url: &str) -> Result<Self, &str> {
        let scheme = url.split(':').next().unwrap_or_default();
        Ok(match scheme {
            "sqlite" => Self::Sqlite,
            "postgres" | "postgresql" => Self::Postgres,
            "mysql" | "mariadb" => Self::MySql,
            "mssql" | "sqlserver" => Self::Mssql,
            "mongodb" => Self::Mongo,
            "redis" | "rediss" | "valkey" | "valkeys" => Self::Redis,
            own if foreign::name() == Some(own) => Self::Foreign,
            unknown => return Err(unknown),
        })
    }

    /// Returns the error of a program that is built without this store.
    pub(crate) fn not_built(self) -> Stop {
        let feature = match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::MySql => "mysql",
            Self::Mssql => "mssql",
            Self::Mongo => "mongo",
            Self::Redis => "redis",
            Self::Foreign => "",
        };
        Stop::new(format!(
            "--store: this program is built without the feature `{feature}`; add it, as in \
             `cargo run -p idem-storm --features {feature} -- --store URL`"
        ))
    }
}

/// Splits `hybrid+CACHE+DATABASE` into cache and database. A plus sign alone may be part of a
/// password.
pub(crate) fn tiers(url: &str) -> Option<(&str, &str)> {
    let rest = url.strip_prefix("hybrid+")?;
    let splits = rest.match_indices('+');
    let mut tiers = splits.map(|(at, plus)| (&rest[..at], &rest[at + plus.len()..]));
    let tiers = tiers.find(|(_, database)| is_database(database))?;
    (Product::of(rest) == Ok(Product::Redis)).then_some(tiers)
}

fn is_database(url: &str) -> bool {
    Product::of(url).is_ok_and(|product| !matches!(product, Product::Redis | Product::Foreign))
}

/// Returns `host:port/database` of a server's URL, or of each node's.
pub(crate) fn without_credentials(urls: &str) -> String {
    #[cfg(feature = "server")]
    return idem_stores::ServerUrl::from(urls).without_credentials();
    // A program without servers opens none of them.
    #[cfg(not(feature = "server"))]
    urls.split(':').next().unwrap_or_default().to_owned()
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
