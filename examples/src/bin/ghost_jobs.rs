//! Ghost jobs: a user clicks "build" again, in another tab, with the name typed another way, and
//! one build is made. Failed and cancelled builds are no duplicates.

use std::convert::Infallible;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use futures_util::future::try_join_all;
use idem_core::key::Target;
use idem_core::{BoxError, Idempotency, Policy, Work};
use idem_queue::{Enqueued, Intent, Jobs, Ran, Ticket};
use idem_storm::effects::{Effects, StoreArgs};
use idem_storm::report::{conclude, exit};
use tokio::sync::Mutex;

/// Enqueues the same builds repeatedly, and checks that each was made once.
///
/// Exit status 0: all were; 1: some were not, they are listed; 2: the run could not be made.
#[derive(Debug, Parser)]
#[command(name = "ghost_jobs", version, max_term_width = 100)]
struct Args {
    #[command(flatten)]
    store: StoreArgs,
}

/// Number of concurrent clicks at the end.
const CLICKS: u32 = 64;

/// How long after a build another one is a duplicate: short, because this program waits for the
/// end.
const WINDOW: Duration = Duration::from_secs(2);

struct Shop {
    effects: Effects,
    jobs: Jobs,
    queue: Mutex<Vec<Ticket>>,
}

impl Shop {
    fn new(effects: Effects) -> Self {
        let idem = Idempotency::new(effects.store())
            .with_operation_policy("build", Policy::ghost_job(WINDOW));
        Self {
            jobs: Jobs::new(idem),
            queue: Mutex::default(),
            effects,
        }
    }

    /// Handles a click on the button.
    async fn enqueue_build(&self, intent: &Intent, job: &str) -> Result<Enqueued, BoxError> {
        let push = async |ticket| {
            self.queue.lock().await.push(ticket);
            Ok::<_, Infallible>(())
        };
        Ok(self.jobs.enqueue(intent, job, push).await?)
    }

    /// A worker: takes the waiting jobs and builds them.
    async fn work(&self, succeeds: bool) -> Result<(), BoxError> {
        for ticket in self.take_queue().await {
            // The build writes a row to the ledger. Then the job is completed, for its window.
            let build = async |_: Work| match succeeds {
                true => self.effects.append(ticket.job()).await,
                false => Err("the tests are red".into()),
            };
            let returned = match self.jobs.run(&ticket, build).await {
                Ok(Ran::Done(())) => "built".to_owned(),
                Ok(Ran::Superseded) => "superseded, dropped".to_owned(),
                Err(error) => error.to_string(),
            };
            print_line("worker", &format!("job {}", ticket.job()), &returned);
        }
        Ok(())
    }

    async fn cancel(&self) -> Result<(), BoxError> {
        for ticket in self.take_queue().await {
            self.jobs.cancel(&ticket).await?;
            print_line("cancel", &format!("job {}", ticket.job()), "cancelled");
        }
        Ok(())
    }

    async fn take_queue(&self) -> Vec<Ticket> {
        std::mem::take(&mut *self.queue.lock().await)
    }

    /// Makes one click, and prints it.
    async fn click(&self, name: &str, commit: Option<&str>, job: &str) -> Result<(), BoxError> {
        let mut intent = Intent::new("user-7", Target::Name(name), "build")?;
        let mut what = format!("{name:?}");
        if let Some(commit) = commit {
            intent = intent.with_payload(commit)?;
            what = format!("{what} at {commit}");
        }
        let outcome = match self.enqueue_build(&intent, job).await? {
            Enqueued::New(ticket) => format!("job {}", ticket.job()),
            Enqueued::Duplicate { job, is_done } => {
                let state = if is_done { "done" } else { "waiting" };
                format!("duplicate of job {job}, {state}")
            }
        };
        print_line("click", &what, &outcome);
        Ok(())
    }

    /// Clicks in many tabs at once, and returns the number of new jobs.
    async fn storm(&self) -> Result<usize, BoxError> {
        let intent = Intent::new("user-8", Target::Name("storm"), "build")?;
        let click = async |tab| self.enqueue_build(&intent, &format!("storm-{tab}")).await;
        let enqueued = try_join_all((0..CLICKS).map(click)).await?;
        let is_new = |enqueued: &&Enqueued| matches!(enqueued, Enqueued::New(_));
        let new = enqueued.iter().filter(is_new).count();
        print_line("click", &format!("{CLICKS} at once"), &format!("{new} job"));
        Ok(new)
    }
}

fn print_line(actor: &str, what: &str, outcome: &str) {
    println!("{actor:<8}{what:<26}{outcome}");
}

async fn run(args: Args) -> Result<bool, BoxError> {
    let shop = Shop::new(args.store.open("ghost").await?);
    println!("{}\n", shop.effects.product().await?);
    shop.click("My  Café ", None, "1").await?;
    shop.click("my café", None, "2").await?;
    shop.click("my café", Some("a1b2"), "3").await?;
    shop.click("my café", Some("c3d4"), "4").await?;
    shop.work(true).await?;
    shop.click("MY CAFÉ", None, "5").await?;
    tokio::time::sleep(WINDOW + WINDOW / 4).await;
    shop.click("my café", None, "6").await?;
    shop.work(false).await?;
    shop.click("my café", None, "7").await?;
    shop.cancel().await?;
    shop.click("my café", None, "8").await?;
    shop.work(true).await?;
    let new = shop.storm().await?;
    shop.work(true).await?;

    let mut built = shop.effects.all().await?;
    let after = built.split_off(built.len().min(4));
    let as_expected = built == ["1", "3", "4", "8"] && after.len() == 1 && new == 1;
    shop.effects.remove().await?;
    Ok(conclude(
        as_expected,
        "Every requested build was made exactly once.",
        &format!("Not as requested: built {built:?}, then {after:?}."),
    ))
}

#[tokio::main]
async fn main() -> ExitCode {
    exit("ghost_jobs", run(Args::parse()).await)
}
