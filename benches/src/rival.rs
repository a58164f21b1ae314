//! Another crate, in a separate program.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use idem_core::BoxError;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::Mutex;

use crate::{Contender, Length, Round};

/// The crate `idempotent`, 2.0. Its program is a separate package, `benches/idempotent`, because
/// the crate declares a newer compiler than idem's.
pub(crate) struct Rival {
    program: PathBuf,
    store: String,
    call: &'static str,
    running: Mutex<Option<Running>>,
}

/// The program, which keeps its connections and keys from round to round, and its answers.
type Running = (Child, Lines<BufReader<ChildStdout>>);

impl Rival {
    /// Returns the contender for this path of this backend. Returns `None` if the crate has no such
    /// store or call, or, with a line on standard error, if its program is missing.
    pub(crate) fn of(path: &str, backend: &str, callers: usize) -> Option<Box<dyn Contender>> {
        let store = match backend {
            "memory" => "memory".to_owned(),
            "redis" | "valkey" => idem_servers::url_for(backend)?,
            _ => return None,
        };
        let call = match (path, callers, backend) {
            ("claim_fresh", 512, "redis" | "valkey") => "claim",
            ("run_fresh", ..) => "fresh",
            ("run_replayed", ..) => "replayed",
            _ => return None,
        };
        let here = std::env::current_exe().ok()?;
        let program = here.with_file_name("idem-bench-idempotent");
        if !program.is_file() {
            eprintln!(
                "the crate idempotent: not run, {} is not built (`cargo xtask bench` builds it)",
                program.display()
            );
            return None;
        }
        Some(Box::new(Self {
            program,
            store,
            call,
            running: Mutex::default(),
        }))
    }

    fn start(&self) -> Result<Running, BoxError> {
        let mut child = Command::new(&self.program)
            .args([&*self.store, self.call])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let answers = child.stdout.take().ok_or("no standard output")?;
        Ok((child, BufReader::new(answers).lines()))
    }
}

#[async_trait]
impl Contender for Rival {
    fn name(&self) -> &str {
        "idempotent crate"
    }

    async fn round(&self, callers: usize, length: Length) -> Result<Round, BoxError> {
        let mut running = self.running.lock().await;
        let (program, answers) = match &mut *running {
            Some(running) => running,
            none => none.insert(self.start()?),
        };
        let line = format!("{callers} {}\n", length.time()?.as_nanos());
        let rounds = program.stdin.as_mut().ok_or("no standard input")?;
        rounds.write_all(line.as_bytes()).await?;
        let answer = answers.next_line().await?;
        let answer = answer.ok_or("the program of the crate idempotent has ended")?;
        let (operations, elapsed) = figures(&answer).ok_or(answer)?;
        Ok(Round {
            operations,
            elapsed,
            latencies: None,
        })
    }
}

/// Parses `OPERATIONS NANOSECONDS`.
fn figures(answer: &str) -> Option<(u64, Duration)> {
    let (operations, elapsed) = answer.split_once(' ')?;
    let elapsed = Duration::from_nanos(elapsed.parse().ok()?);
    Some((operations.parse().ok()?, elapsed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_two_figures_or_is_an_error() {
        let wanted = (1200, Duration::from_micros(350));
        assert_eq!(figures("1200 350000"), Some(wanted));
        assert_eq!(figures("the key was not fresh"), None);
    }
}
