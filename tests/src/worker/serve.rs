//! The worker's side.

use std::io::BufRead;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use idem_core::{Checkpoint, Claim, ClaimOutcome, ClaimRequest, IdempotencyStore, Response};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::{Job, Report, Step, VARIABLE, storm};
use crate::expect::{marks, points};
use crate::{CaseError, CaseResult, Target, race};

/// Whether this program can act as a worker.
static SERVED: AtomicBool = AtomicBool::new(false);

/// Returns whether [`serve`] was called, so that this program may be started again as a worker.
pub(super) fn is_served() -> bool {
    SERVED.load(Ordering::Relaxed)
}

/// Does the job on standard input, if this process is a worker: then the program ends with this
/// code. [`main`](crate::main) begins with it; so must any other `main` that runs cases between
/// processes.
#[must_use]
pub fn serve(targets: &[Target]) -> Option<ExitCode> {
    SERVED.store(true, Ordering::Relaxed);
    std::env::var_os(VARIABLE)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let result = runtime
        .map_err(CaseError::from)
        .and_then(|runtime| runtime.block_on(run(targets)));
    Some(match result {
        Ok(()) => {
            Report::Finished.tell();
            ExitCode::SUCCESS
        }
        Err(error) => {
            Report::Failed(error.to_string()).tell();
            ExitCode::FAILURE
        }
    })
}

/// Reads lines of standard input; when it ends, so does the worker.
fn input() -> UnboundedReceiver<String> {
    let (sender, receiver) = unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
        std::process::exit(3);
    });
    receiver
}

async fn run(targets: &[Target]) -> CaseResult {
    let mut input = input();
    let job = input.recv().await;
    let job: Job = serde_json::from_str(&job.ok_or_else(|| CaseError::new("no job"))?)?;
    let target = targets.iter().find(|target| target.name() == job.target);
    let target = target.ok_or_else(|| CaseError::new(format!("no target {}", job.target)))?;
    let harness = target
        .find()
        .await
        .map_err(|missing| CaseError::new(missing.to_string()))?;
    let store = harness.open(&job.namespace).await?;
    let mut worker = Steps { store, held: None };
    for step in job.steps {
        match step {
            Step::Wait => {
                Report::Ready.tell();
                let _ = input.recv().await;
            }
            step => worker.take(step).await?,
        }
    }
    Ok(())
}

struct Steps {
    store: Arc<dyn IdempotencyStore>,
    held: Option<Claim>,
}

impl Steps {
    async fn take(&mut self, step: Step) -> CaseResult {
        match step {
            Step::Wait => {}
            Step::Claim(request) => self.claim(&request).await?,
            Step::Complete {
                response,
                retention,
            } => {
                self.store
                    .complete(self.held()?, &response, retention)
                    .await?;
                Report::Done.tell();
            }
            Step::RenewForEver { lease } => loop {
                self.held = Some(self.store.renew(self.held()?, lease).await?);
                Report::Done.tell();
            },
            Step::Checkpoint { name, data } => {
                let point = Checkpoint::new(name, data)?;
                points(&self.store)?
                    .checkpoint(self.held()?, &point)
                    .await?;
                Report::Done.tell();
            }
            Step::Advance {
                source,
                version,
                retention,
            } => {
                let (marks, again) = (marks(&self.store)?, AtomicU64::new(0));
                let returned =
                    race::ask(&again, || marks.advance(&source, version, retention)).await?;
                Report::Advanced(returned).tell();
            }
            Step::CompleteEach {
                requests,
                body_bytes,
                retention,
            } => self.complete_each(&requests, body_bytes, retention).await?,
            Step::Hang => std::future::pending().await,
            Step::Storm(storm) => storm::run(&self.store, &storm).await?,
        }
        Ok(())
    }

    async fn claim(&mut self, request: &ClaimRequest) -> CaseResult {
        let outcome = self.store.claim(request).await?;
        Report::Claimed(outcome.clone()).tell();
        if let ClaimOutcome::Acquired(claim) = outcome {
            self.held = Some(claim);
        }
        Ok(())
    }

    fn held(&self) -> CaseResult<&Claim> {
        let held = self.held.as_ref();
        held.ok_or_else(|| CaseError::new("the worker holds nothing"))
    }

    async fn complete_each(
        &mut self,
        requests: &[ClaimRequest],
        body_bytes: usize,
        retention: Duration,
    ) -> CaseResult {
        for (at, request) in requests.iter().enumerate() {
            self.claim(request).await?;
            let body = vec![u8::try_from(at % 256)?; body_bytes];
            let response = Response::new(200, body);
            self.store
                .complete(self.held()?, &response, retention)
                .await?;
            Report::Done.tell();
        }
        Ok(())
    }
}
