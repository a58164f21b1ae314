//! An order as a saga: reserve, charge, ship; if the shipping is refused, release and refund. A
//! process is killed at every point, another continues, and every step is done once.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use idem_core::engine::{Saga, SagaStep, SagaStop, StepError};
use idem_core::{BoxError, BusyPolicy, Idempotency, Key, Policy, RunError};
use idem_storm::effects::{Effects, StoreArgs};
use idem_storm::report::{conclude, exit};

/// Runs orders as sagas, kills the process at every point, and checks that every step was done
/// once.
///
/// Exit status 0: all were; 1: some were not, they are listed; 2: the run could not be made.
#[derive(Debug, Parser)]
#[command(name = "saga", version, max_term_width = 100)]
struct Args {
    #[command(flatten)]
    store: StoreArgs,

    /// For workers: the order
    #[arg(long, hide = true)]
    order: Option<String>,

    /// For workers: whether the carrier refuses the order
    #[arg(long, hide = true)]
    refused: bool,

    /// For workers: the point of the kill, such as `charge:before`
    #[arg(long, hide = true, default_value = "")]
    dies: String,
}

/// How often a process runs an order that stops.
const RUNS: usize = 5;

/// A process that runs an order, or the rest of it.
struct Worker {
    effects: Effects,
    order: String,
    args: Args,
}

impl Worker {
    async fn work(self) -> Result<(), BoxError> {
        // The next process waits for the lease of the killed one.
        let policy = Policy::default()
            .with_lease(Duration::from_millis(500))
            .with_on_busy(BusyPolicy::wait(Duration::from_secs(60)));
        let idem = Idempotency::new(self.effects.store()).with_policy(policy);
        let key = Key::new("tenant-7", "order", &self.order)?;
        let saga = Arc::new(self).saga();
        // A machine that is busy for longer than the lease stops a run; another continues.
        for _ in 0..RUNS {
            match saga.run(&idem, &key, "a bicycle".to_owned()).await {
                Err(RunError::Work(SagaStop::Lost | SagaStop::Step { .. })) => {}
                ended => return ended.map(drop).map_err(BoxError::from),
            }
        }
        Err(format!("the order did not come to an end in {RUNS} runs").into())
    }

    /// Returns the order's steps, and what undoes them.
    fn saga(self: Arc<Self>) -> Saga<String> {
        let action = |name: &'static str| {
            let worker = Arc::clone(&self);
            move |step| Arc::clone(&worker).act(name, step)
        };
        Saga::new()
            .step("reserve", action("reserve"))
            .undone_by(action("release"))
            .step("charge", action("charge"))
            .undone_by(action("refund"))
            .step("ship", action("ship"))
    }

    /// Runs a step that writes a row to the ledger and completes its claim, in one transaction.
    async fn act(
        self: Arc<Self>,
        name: &'static str,
        step: SagaStep<String>,
    ) -> Result<String, StepError> {
        if name == "ship" && self.args.refused {
            return Err(StepError::permanent("no carrier delivers there"));
        }
        self.dies(name, "before");
        let value = format!("{name} of {}", step.input());
        let response = step.response(&value).map_err(StepError::permanent)?;
        let id = format!("{} {name}", self.order);
        let committed = self.effects.commit(step.work(), &id, response).await;
        committed.map_err(StepError::temporary)?;
        self.dies(name, "after");
        Ok(value)
    }

    fn dies(&self, step: &str, point: &str) {
        if self.args.dies == format!("{step}:{point}") {
            std::process::abort();
        }
    }
}

/// Starts a process, and returns whether it was killed.
async fn is_killed(
    effects: &Effects,
    order: &str,
    refused: bool,
    dies: &str,
) -> Result<bool, BoxError> {
    let mut process = effects.process()?;
    process.args(["--order", order, "--dies", dies]);
    if refused {
        process.arg("--refused");
    }
    match process.status().await?.code() {
        None => Ok(true),
        Some(0) => Ok(false),
        Some(code) => Err(format!("a worker ended with status {code}").into()),
    }
}

/// Kills a process at this point of an order and lets another continue. Returns whether the steps
/// were as expected.
async fn killed_at(
    effects: &Effects,
    refused: bool,
    dies: &str,
    expected: &[&str],
) -> Result<bool, BoxError> {
    let order = format!("{}{dies}", if refused { "refused " } else { "" });
    let done = async || -> Result<Vec<String>, BoxError> {
        let own = |id: &String| Some(id.strip_prefix(&order)?.trim().to_owned());
        Ok(effects.all().await?.iter().filter_map(own).collect())
    };
    let was_killed = is_killed(effects, &order, refused, dies).await?;
    let before = done().await?;
    is_killed(effects, &order, refused, "").await?;
    let all = done().await?;
    let as_expected = was_killed && all == expected;
    let after = all.get(before.len()..).unwrap_or_default().join(" ");
    let mark = if as_expected { "" } else { "  WRONG" };
    let line = format!("{order:<24}{:<28}{after}{mark}", before.join(" "));
    println!("{}", line.trim_end());
    Ok(as_expected)
}

async fn run(args: Args) -> Result<bool, BoxError> {
    let effects = args.store.open("saga").await?;
    if let Some(order) = args.order.clone() {
        let worker = Worker {
            effects,
            order,
            args,
        };
        return worker.work().await.map(|()| true);
    }
    println!("{}\n", effects.product().await?);
    println!(
        "{:<24}{:<28}done by the next process",
        "killed at", "done by then"
    );
    let shipped = &["reserve", "charge", "ship"][..];
    let refused = &["reserve", "charge", "refund", "release"][..];
    let mut as_expected = true;
    for (is_refused, steps) in [(false, shipped), (true, refused)] {
        for step in steps {
            for point in ["before", "after"] {
                let dies = format!("{step}:{point}");
                as_expected &= killed_at(&effects, is_refused, &dies, steps).await?;
            }
        }
    }
    effects.remove().await?;
    Ok(conclude(
        as_expected,
        "Every step was done exactly once.",
        "Some steps were not done exactly once.",
    ))
}

#[tokio::main]
async fn main() -> ExitCode {
    exit("saga", run(Args::parse()).await)
}
