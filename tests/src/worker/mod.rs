//! Worker processes: the test program itself, started again, with a job on its standard input.
//!
//! A worker opens the namespace through the harness of the same target and takes one step after the
//! other. It reports each event as one JSON line on its standard output. It ends when its standard
//! input does, so that no worker outlives the test.

mod job;
mod serve;
mod storm;

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::last_call::LastCall;
use crate::{CaseError, CaseResult, Context};

pub use job::{Job, Report, Step, Storm};
pub use serve::serve;

/// The environment variable that makes the test program a worker.
pub const VARIABLE: &str = "IDEM_CONFORMANCE_WORKER";

/// A running worker process, killed when dropped.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    last_call: LastCall,
}

impl Worker {
    /// Starts a worker of this namespace.
    ///
    /// # Errors
    ///
    /// The operating system's error.
    pub async fn start(cx: &Context, steps: Vec<Step>) -> CaseResult<Self> {
        Self::start_with(cx, steps, &[]).await
    }

    /// Starts a worker of another namespace.
    ///
    /// # Errors
    ///
    /// The operating system's error.
    pub async fn start_in(cx: &Context, namespace: &str, steps: Vec<Step>) -> CaseResult<Self> {
        Self::begin(cx, namespace, steps, &[]).await
    }

    /// Starts a worker with more environment variables.
    ///
    /// # Errors
    ///
    /// The operating system's error.
    pub async fn start_with(
        cx: &Context,
        steps: Vec<Step>,
        environment: &[(&str, String)],
    ) -> CaseResult<Self> {
        Self::begin(cx, cx.namespace(), steps, environment).await
    }

    async fn begin(
        cx: &Context,
        namespace: &str,
        steps: Vec<Step>,
        environment: &[(&str, String)],
    ) -> CaseResult<Self> {
        if !serve::is_served() {
            let message = "`main` of this program does not begin with `worker::serve`";
            return Err(CaseError::new(message));
        }
        let job = Job {
            target: cx.harness().name().to_owned(),
            namespace: namespace.to_owned(),
            steps,
        };
        let mut child = Command::new(std::env::current_exe()?)
            .env(VARIABLE, "1")
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let missing = || CaseError::new("the worker has no standard input or output");
        let input = child.stdin.take().ok_or_else(missing)?;
        let output = child.stdout.take().ok_or_else(missing)?;
        let mut worker = Self {
            child,
            input,
            output: BufReader::new(output).lines(),
            last_call: cx.watch().last_call.clone(),
        };
        worker.say(&serde_json::to_string(&job)?).await?;
        Ok(worker)
    }

    /// Returns the next report; `None` when the worker has ended.
    ///
    /// # Errors
    ///
    /// An error for a line that is not a report, and for a report of failure.
    pub async fn next(&mut self) -> CaseResult<Option<Report>> {
        let Some(line) = self.output.next_line().await? else {
            return Ok(None);
        };
        self.last_call.goes_on();
        match serde_json::from_str(&line) {
            Ok(Report::Failed(reason)) => {
                Err(CaseError::new(reason).while_doing("a worker process"))
            }
            Ok(report) => Ok(Some(report)),
            // A kill cut the line short: it does not count.
            Err(error) if error.is_eof() => Ok(None),
            Err(error) => Err(CaseError::from(error).while_doing(format!("`{line}`"))),
        }
    }

    /// Returns the next report, which has to come.
    ///
    /// # Errors
    ///
    /// An error when the worker has ended.
    pub async fn report(&mut self) -> CaseResult<Report> {
        let next = self.next().await?;
        next.ok_or_else(|| CaseError::new("the worker ended too early"))
    }

    /// Waits until the worker has come to [`Step::Wait`].
    ///
    /// # Errors
    ///
    /// An error for another report.
    pub async fn until_ready(&mut self) -> CaseResult {
        match self.report().await? {
            Report::Ready => Ok(()),
            other => Err(CaseError::new(format!("not ready, but {other:?}"))),
        }
    }

    /// Lets the worker continue after [`Step::Wait`].
    ///
    /// # Errors
    ///
    /// An error when the worker has ended.
    pub async fn go(&mut self) -> CaseResult {
        self.say("go").await
    }

    async fn say(&mut self, line: &str) -> CaseResult {
        self.input.write_all(line.as_bytes()).await?;
        self.input.write_all(b"\n").await?;
        Ok(self.input.flush().await?)
    }

    /// Kills the worker (SIGKILL), and waits until it is gone. Its earlier reports can still be
    /// read.
    ///
    /// # Errors
    ///
    /// The operating system's error.
    pub async fn kill(&mut self) -> CaseResult {
        Ok(self.child.kill().await?)
    }

    /// Returns all further reports until the worker ends.
    ///
    /// # Errors
    ///
    /// As for [`next`](Self::next).
    pub async fn rest(&mut self) -> CaseResult<Vec<Report>> {
        let mut reports = Vec::new();
        while let Some(report) = self.next().await? {
            reports.push(report);
        }
        Ok(reports)
    }
}
