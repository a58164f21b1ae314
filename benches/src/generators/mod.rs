//! The servers' own load generators, as [`Contender`]s.
//!
//! Each makes its own table (or keys), with keys as long as the store's.

mod mariadb_slap;
mod pgbench;
mod redis_benchmark;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use idem_core::BoxError;
use tokio::sync::OnceCell;

use crate::operations::Life;
use crate::{Contender, Length, Round};

/// Most connections that a generator opens, so that no server refuses one.
const MOST_CONNECTIONS: usize = 64;

/// The number of keys to read.
const ROWS: usize = 10_000;

/// The beginning of keys, as long as the store's scope and operation.
const PREFIX: &str = "bench payments.create ";

/// Operations of each connection in a first round, which measures the speed of this machine.
const FIRST: u64 = 8;

/// How a load generator is run and read.
struct Generator {
    /// Its name in reports, which is that of its program.
    name: &'static str,
    /// The server whose programs it is one of, and its Debian package.
    origin: (&'static str, &'static str),
    /// The arguments that create everything the operations need, if they need something.
    preparation: Option<Vec<String>>,
    arguments: Arguments,
    read: Read,
    /// Whether it runs for a time, instead of a number of operations.
    is_timed: bool,
}

/// Returns the arguments that do this work.
type Arguments = Box<dyn Fn(&Work) -> Vec<String> + Send + Sync>;

/// Reads the round from the output; `None` for output in another form.
type Read = Box<dyn Fn(&str, &Work) -> Option<Round> + Send + Sync>;

/// The work of a generator in a round: so many operations, or so much time.
struct Work {
    connections: usize,
    operations: u64,
    length: Duration,
}

/// Returns the load generator of a backend for a path, at 64 callers. Returns `None` if the server
/// has none, or, with a line on standard error, if its program is missing.
pub(crate) fn generator(path: &str, backend: &str, callers: usize) -> Option<Box<dyn Contender>> {
    let life = match (path, callers) {
        ("claim_fresh", 64) => Life::Claim,
        ("claim_complete", 64) => Life::complete(),
        ("replay", 64) => Life::Replay,
        _ => return None,
    };
    let url = idem_servers::url_for(backend)?;
    let generator = match backend {
        "postgres" => pgbench::generator(url, &life)
            .inspect_err(|error| eprintln!("pgbench: not run, it has no folder: {error}"))
            .ok(),
        "mariadb" => mariadb_slap::generator(&url, &life),
        "redis" | "valkey" => redis_benchmark::generator(url, &life),
        _ => None,
    }?;
    let (server, package) = generator.origin;
    let program = find(generator.name, server, package)?;
    Some(Box::new(Generated::new(program, generator)))
}

/// A load generator, which works for about a given time. Of one that does not count time, the
/// previous round determines how many operations that takes.
struct Generated {
    program: PathBuf,
    generator: Generator,
    prepared: OnceCell<()>,
    /// Operations per second of the previous round.
    rate: Mutex<Option<f64>>,
}

impl Generated {
    fn new(program: PathBuf, generator: Generator) -> Self {
        Self {
            program,
            generator,
            prepared: OnceCell::new(),
            rate: Mutex::new(None),
        }
    }

    fn rate(&self) -> MutexGuard<'_, Option<f64>> {
        self.rate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn work(
        &self,
        connections: usize,
        operations: u64,
        length: Duration,
    ) -> Result<Round, BoxError> {
        // Each connection runs the same number.
        let each = (operations / connections as u64).max(1);
        let work = Work {
            connections,
            operations: each * connections as u64,
            length,
        };
        let said = run(&self.program, &(self.generator.arguments)(&work)).await?;
        let round = (self.generator.read)(&said, &work);
        let mut round = round.ok_or_else(|| format!("{} has another form", self.name()))?;
        round.elapsed = round.elapsed.max(Duration::from_millis(1));
        *self.rate() = Some(round.per_second());
        Ok(round)
    }
}

#[async_trait]
impl Contender for Generated {
    fn name(&self) -> &str {
        self.generator.name
    }

    async fn round(&self, callers: usize, length: Length) -> Result<Round, BoxError> {
        let prepare = async || match &self.generator.preparation {
            Some(arguments) => run(&self.program, arguments).await.map(drop),
            None => Ok(()),
        };
        self.prepared.get_or_try_init(prepare).await?;
        let connections = callers.clamp(1, MOST_CONNECTIONS);
        let length = length.time()?;
        if self.rate().is_none() && !self.generator.is_timed {
            let first = FIRST * connections as u64;
            self.work(connections, first, length).await?;
        }
        let rate = self.rate().unwrap_or_default();
        let operations = (rate * length.as_secs_f64()) as u64;
        self.work(connections, operations, length).await
    }
}

/// Returns the path of a program: in a folder of `$PATH`, or beside the programs of the server.
/// Without one it prints a line on standard error.
fn find(name: &str, server: &str, package: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let server = idem_servers::server(server).ok();
    let found = std::env::split_paths(&path)
        .chain(server.and_then(idem_servers::Server::programs))
        .map(|folder| folder.join(name))
        .find(|program| program.is_file());
    if found.is_none() {
        eprintln!("{name}: not run, it is not installed (Debian's package `{package}` has it)");
    }
    found
}

/// Runs a program to its end, on a thread of its own, and returns its output.
///
/// # Errors
///
/// An error when the program cannot be run, or fails: with its message.
async fn run(program: &Path, arguments: &[String]) -> Result<String, BoxError> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("{}: {}", program.display(), errors.trim()).into())
}

/// Returns the name of the table for these statements.
fn table(generator: &str, life: &Life) -> String {
    let statements = match life {
        Life::Claim => "insert",
        Life::Complete(_) => "insert_update",
        Life::Replay => "select",
    };
    format!("{generator}_bare_{statements}")
}

/// Returns each word as an argument.
fn words(words: &str) -> Vec<String> {
    words.split_whitespace().map(ToOwned::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_round_before_tells_how_many_operations_take_how_long() {
        let slow = Generator {
            name: "sh",
            origin: ("", "dash"),
            preparation: None,
            arguments: Box::new(|_| words("-c true")),
            // 500 operations a second.
            read: Box::new(|_, work| {
                Some(Round {
                    operations: work.operations,
                    elapsed: Duration::from_millis(2) * work.operations as u32,
                    latencies: None,
                })
            }),
            is_timed: false,
        };
        let slow = Generated::new(find("sh", "", "dash").unwrap(), slow);
        let second = Length::Time(Duration::from_secs(1));
        assert_eq!(slow.round(2, second).await.unwrap().operations, 500);
        let moment = Length::Time(Duration::from_millis(1));
        // One each, at least.
        assert_eq!(slow.round(64, moment).await.unwrap().operations, 64);
    }

    #[test]
    fn a_program_of_the_path_is_found() {
        assert!(find("sh", "", "dash").is_some());
        assert_eq!(find("idem-no-such-program", "", "none"), None);
    }

    #[tokio::test]
    async fn a_program_that_fails_says_why() {
        let shell = find("sh", "", "dash").unwrap();
        let script = |text: &str| ["-c".to_owned(), text.to_owned()];
        let said = run(&shell, &script("echo done")).await.unwrap();
        assert_eq!(said, "done\n");
        let failing = script("echo the disk is on fire >&2; exit 3");
        let error = run(&shell, &failing).await.unwrap_err();
        assert!(error.to_string().contains("the disk is on fire"), "{error}");
    }
}
