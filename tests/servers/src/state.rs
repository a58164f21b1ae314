use std::fs::{self, File};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Doing;
use crate::folder::is_in_use;
use crate::server::variable;
use crate::tools::environment;
use crate::watchdog::{NOTE, Watchdog};
use crate::{Error, Product, Result, Source, server};

/// A server that continues after the process that started it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Name of the database.
    pub name: String,
    /// The URL for clients.
    pub url: String,
    /// The product that answers there.
    pub product: Product,
    /// Its source.
    pub source: Source,
    /// The number of the signal that ends it.
    pub(crate) signal: i32,
    /// Its data, configuration and log, in one folder for each of its processes.
    pub(crate) folder: PathBuf,
}

impl Record {
    /// Returns whether it still runs; for a cluster, any node.
    pub fn is_alive(&self) -> bool {
        self.nodes().iter().any(|node| is_in_use(node))
    }

    /// Ends the server and removes its folder.
    pub fn stop(&self) -> Result<()> {
        // The number of a process that has ended may be another's by now.
        for dead in self.nodes().iter().filter(|node| !is_in_use(node)) {
            let _ = fs::remove_file(dead.join(NOTE));
        }
        Watchdog::start(&self.folder, self.signal)?.end(|| ());
        Ok(())
    }

    fn nodes(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }
}

/// The servers that `cargo xtask servers up` left running, in the file `idem/servers.json` in the
/// target folder. While this value lives, no other process changes the file.
#[derive(Debug)]
pub struct State {
    path: PathBuf,
    records: Vec<Record>,
    _lock: File,
}

impl State {
    /// Reads the file in the target folder of this workspace. Drops dead servers and removes their
    /// folders.
    pub fn open() -> Result<Self> {
        let missing = || Error::failed("this program is in no target folder");
        Self::open_at(&file().ok_or_else(missing)?)
    }

    fn open_at(path: &Path) -> Result<Self> {
        let what = || format!("cannot use {}", path.display());
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).doing(what)?;
        }
        let lock = File::create(path.with_extension("lock")).doing(what)?;
        lock.lock().doing(what)?;
        let (records, dead): (Vec<_>, Vec<_>) = read(path).into_iter().partition(Record::is_alive);
        dead.iter()
            .for_each(|record| drop(fs::remove_dir_all(&record.folder)));
        Ok(Self {
            path: path.into(),
            records,
            _lock: lock,
        })
    }

    /// Returns the running servers.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Returns the running server of that name.
    pub fn get(&self, name: &str) -> Option<&Record> {
        self.records.iter().find(|record| record.name == name)
    }

    /// Adds a server, replacing one with the same name.
    pub fn add(&mut self, record: Record) -> Result<()> {
        self.records.retain(|known| known.name != record.name);
        self.records.push(record);
        self.save()
    }

    /// Ends the server of that name, if it runs, and removes its record.
    pub fn stop(&mut self, name: &str) -> Result<()> {
        let index = self.records.iter().position(|record| record.name == name);
        match index.map(|index| self.records.remove(index)) {
            Some(record) => record.stop().and_then(|()| self.save()),
            None => Ok(()),
        }
    }

    /// Ends every server, the last one started first, and removes the records.
    pub fn stop_all(&mut self) -> Result<()> {
        while let Some(record) = self.records.pop() {
            record.stop()?;
            self.save()?;
        }
        self.save()
    }

    /// Writes a second file and renames it, so that a reader never sees half of it.
    fn save(&self) -> Result<()> {
        let what = || format!("cannot write {}", self.path.display());
        let text = serde_json::to_string_pretty(&self.records).doing(what)?;
        let fresh = self.path.with_extension("new");
        fs::write(&fresh, text + "\n")
            .and_then(|()| fs::rename(&fresh, &self.path))
            .doing(what)
    }
}

/// Returns the URL of a server for tests: the environment's, otherwise that of a server that `cargo
/// xtask servers up` left running, so that a plain `cargo test` finds it.
pub fn url_for(name: &str) -> Option<String> {
    environment(&server(name).ok()?.url_variable()).or_else(|| {
        let mut records = read(&file()?).into_iter();
        let found = records.find(|record| record.name == name && record.is_alive());
        found.map(|record| record.url)
    })
}

/// Returns, in one line, why [`url_for`] has no URL, for a skipped test: the reason that `cargo
/// xtask test` found, or what to do.
pub fn missing_reason(name: &str) -> String {
    std::env::var(variable(name, "MISSING")).unwrap_or_else(|_| {
        let url = variable(name, "URL");
        let advice = format!("`cargo xtask servers up {name}` starts one");
        format!("no {name}: {url} is not set and no server runs; {advice}")
    })
}

/// Reads the file; a missing file, or one of another version of this crate, counts as empty.
fn read(path: &Path) -> Vec<Record> {
    fs::read(path)
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default()
}

/// Returns the file in the target folder around this program.
fn file() -> Option<PathBuf> {
    Some(target()?.join("idem/servers.json"))
}

/// Returns the target folder around this program.
pub(crate) fn target() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    target_around(&program).map(Into::into)
}

/// Returns the nearest folder with a mark of cargo's. Into an existing folder cargo writes only
/// what it knows about the compiler, and that only by default.
fn target_around(program: &Path) -> Option<&Path> {
    let is_target = |folder: &&Path| {
        let mut marks = ["CACHEDIR.TAG", ".rustc_info.json"].iter();
        marks.any(|mark| folder.join(mark).is_file())
    };
    program.ancestors().find(is_target)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use rustix::process::Signal;
    use tempfile::TempDir;

    use super::{Record, State, target_around};
    use crate::cluster::Cluster;
    use crate::node::Runner;
    use crate::process::{send, wait_until};
    use crate::{Instance, Options, Product, Server, Source};

    static SLEEPER: Server = Server {
        programs: &["sleep"],
        arguments: "600",
        ..Server::new("postgres", |_, _, _| Ok(Product::new("Sleep", Some("9"))))
    };

    fn sleeper() -> Record {
        let cluster = Cluster::start(&SLEEPER, &Runner::Programs("/bin".into()), &Options::new());
        let instance = Instance::own(&SLEEPER, Source::Local, cluster.unwrap());
        instance.detach().unwrap()
    }

    fn open(folder: &TempDir) -> State {
        State::open_at(&folder.path().join("deep/servers.json")).unwrap()
    }

    #[test]
    fn what_was_added_is_found_by_the_next_process() {
        let folder = tempfile::tempdir().unwrap();
        let record = sleeper();
        open(&folder).add(record.clone()).unwrap();
        assert_eq!(open(&folder).get("postgres"), Some(&record));
        open(&folder).stop_all().unwrap();
        assert!(!record.is_alive() && !record.folder.exists());
        assert!(open(&folder).records().is_empty());
    }

    #[test]
    fn a_dead_server_is_forgotten_and_its_folder_removed() {
        let folder = tempfile::tempdir().unwrap();
        let record = sleeper();
        open(&folder).add(record.clone()).unwrap();
        let note = fs::read_to_string(record.folder.join("0/pid")).unwrap();
        send(note.trim().parse().unwrap(), Signal::KILL);
        assert!(wait_until(Duration::from_secs(10), || !record.is_alive()));
        assert!(open(&folder).records().is_empty());
        assert!(!record.folder.exists());
    }

    #[test]
    fn a_file_that_is_no_state_is_an_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        drop(open(&folder));
        fs::write(folder.path().join("deep/servers.json"), "{ half").unwrap();
        assert!(open(&folder).records().is_empty());
    }

    #[test]
    fn a_target_folder_that_existed_before_cargo_used_it_is_found() {
        for mark in ["CACHEDIR.TAG", ".rustc_info.json"] {
            let target = tempfile::tempdir().unwrap();
            let program = target.path().join("debug/deps/program");
            fs::write(target.path().join(mark), "").unwrap();
            assert_eq!(target_around(&program), Some(target.path()), "{mark}");
        }
    }
}
