//! An order as a saga: reserve, charge, ship; if the shipping is refused, release and refund. A
//! process is killed at every point, another continues, and every step is done once.
//!
//! ```console
//! $ cargo run -p idem-examples --bin saga
//! ```

use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use idem_core::engine::{Saga, SagaEnd, SagaStep, StepError};
use idem_core::{BoxError, BusyPolicy, Idempotency, Key, Policy};
use idem_examples::effects::Effects;
use tokio::process::Command;

/// Runs orders as sagas, kills the process at every point, and checks that every step was done
/// once.
///
/// Exit status 0: all were; 1: some were not, they are listed; 2: the run could not be made.
#[derive(Debug, Parser)]
#[command(name = "saga", version, max_term_width = 100)]
struct Args {
    /// Where records and effects are stored: the URLs of `storm`. Default: a SQLite file in a
    /// temporary folder
    #[arg(long, value_name = "URL")]
    store: Option<String>,

    #[command(flatten)]
    worker: Worker,
}

/// Hidden options for the program's own processes.
#[derive(Debug, Clone, clap::Args)]
struct Worker {
    #[arg(long, hide = true)]
    namespace: Option<String>,

    #[arg(long, hide = true, default_value = "")]
    order: String,

    #[arg(long, hide = true)]
    refused: bool,

    /// Such as `charge:before`
    #[arg(long, hide = true, default_value = "")]
    dies: String,
}

/// Where a process is killed: before a step's effect, and after it is committed.
const POINTS: [&str; 2] = ["before", "after"];

const STEPS: [&str; 3] = ["reserve", "charge", "ship"];
const BACK: [&str; 4] = ["reserve", "charge", "refund", "release"];

/// Runs a step that writes a row to the ledger and completes its claim, in one transaction.
async fn act(
    effects: Arc<Effects>,
    worker: Worker,
    name: &str,
    step: SagaStep<String>,
) -> Result<String, StepError> {
    let dies = |point: &str| worker.dies == format!("{name}:{point}");
    if dies("before") {
        std::process::abort();
    }
    let value = format!("{name} of {}", step.input());
    let response = step.response(&value).map_err(StepError::permanent)?;
    let id = format!("{} {name}", worker.order);
    let committed = effects.commit(step.work(), &id, "", response).await;
    committed.map_err(StepError::temporary)?;
    if dies("after") {
        std::process::abort();
    }
    Ok(value)
}

fn order(effects: &Arc<Effects>, worker: &Worker) -> Saga<String> {
    let action = |name: &'static str| {
        let (effects, worker) = (Arc::clone(effects), worker.clone());
        move |step| act(Arc::clone(&effects), worker.clone(), name, step)
    };
    let ship = {
        let (refused, ship) = (worker.refused, action("ship"));
        move |step| {
            let shipping = ship(step);
            async move {
                if refused {
                    return Err(StepError::permanent("no carrier delivers there"));
                }
                shipping.await
            }
        }
    };
    Saga::new()
        .step("reserve", action("reserve"))
        .undone_by(action("release"))
        .step("charge", action("charge"))
        .undone_by(action("refund"))
        .step("ship", ship)
}

/// One process: runs the order, or the rest of it.
async fn work(store: &str, namespace: &str, worker: Worker) -> Result<SagaEnd, BoxError> {
    let effects = Arc::new(Effects::join(store, namespace).await?);
    // The next process waits for the lease of the killed one.
    let policy = Policy::default()
        .with_lease(Duration::from_millis(500))
        .with_on_busy(BusyPolicy::wait(Duration::from_secs(60)));
    let idem = Idempotency::new(effects.store()).with_policy(policy);
    let key = Key::new("tenant-7", "order", &worker.order)?;
    let saga = order(&effects, &worker);
    let outcome = saga.run(&idem, &key, "a bicycle".to_owned()).await?;
    Ok(outcome.into_inner())
}

/// Starts a process, and returns whether it was killed.
async fn process(effects: &Effects, worker: &Worker) -> Result<bool, BoxError> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--store", effects.url(), "--namespace", effects.namespace()]);
    command.args(["--order", &worker.order, "--dies", &worker.dies]);
    if worker.refused {
        command.arg("--refused");
    }
    let status = command.stdout(Stdio::null()).status().await?;
    match status.code() {
        None => Ok(true),
        Some(0) => Ok(false),
        Some(code) => Err(format!("a worker ended with status {code}").into()),
    }
}

/// Kills a process at this point of an order and lets another continue. Returns whether the steps
/// were as expected.
async fn killed_at(effects: &Effects, refused: bool, dies: String) -> Result<bool, BoxError> {
    let order = format!("{}{dies}", if refused { "refused " } else { "" });
    let mut worker = Worker {
        namespace: None,
        order: order.clone(),
        refused,
        dies,
    };
    let was_killed = process(effects, &worker).await?;
    let done = |all: Vec<idem_examples::effects::Effect>| {
        let own = all
            .into_iter()
            .filter_map(|effect| Some(effect.id.strip_prefix(&order)?.trim().to_owned()));
        own.collect::<Vec<_>>()
    };
    let before = done(effects.all().await?);
    worker.dies = String::new();
    process(effects, &worker).await?;
    let all = done(effects.all().await?);
    let expected: &[&str] = if refused { &BACK } else { &STEPS };
    let as_expected = was_killed && all == expected;
    let after = all.get(before.len()..).unwrap_or_default();
    let mark = if as_expected { "" } else { "  WRONG" };
    let line = format!(
        "{order:<24}{:<28}{}{mark}",
        before.join(" "),
        after.join(" ")
    );
    println!("{}", line.trim_end());
    Ok(as_expected)
}

async fn run(args: Args) -> Result<ExitCode, BoxError> {
    if let (Some(store), Some(namespace)) = (&args.store, &args.worker.namespace) {
        let end = work(store, namespace, args.worker.clone()).await?;
        println!("{end:?}");
        return Ok(ExitCode::SUCCESS);
    }
    let effects = Effects::create(args.store.as_deref(), "saga").await?;
    println!("{}\n", effects.product().await?);
    println!(
        "{:<24}{:<28}done by the next process",
        "killed at", "done by then"
    );
    let mut as_expected = true;
    for (refused, steps) in [(false, &STEPS[..]), (true, &BACK[..])] {
        for step in steps {
            for point in POINTS {
                as_expected &= killed_at(&effects, refused, format!("{step}:{point}")).await?;
            }
        }
    }
    effects.remove().await?;
    println!(
        "\n{}",
        if as_expected {
            "Every step was done exactly once."
        } else {
            "Some steps were not done exactly once."
        }
    );
    Ok(ExitCode::from(u8::from(!as_expected)))
}

#[tokio::main]
async fn main() -> ExitCode {
    run(Args::parse()).await.unwrap_or_else(|reason| {
        eprintln!("saga: {reason}");
        ExitCode::from(2)
    })
}
