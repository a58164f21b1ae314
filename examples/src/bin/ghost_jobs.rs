//! Ghost jobs: a user clicks "build" again, in another tab, with the name typed another way, and
//! one build is made. Failed and cancelled builds are no duplicates.
//!
//! ```console
//! $ cargo run -p idem-examples --bin ghost_jobs
//! ```

use std::fmt::Display;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use idem_core::key::Target;
use idem_core::{BoxError, Idempotency, Policy, Work};
use idem_examples::effects::Effects;
use idem_queue::{Enqueued, Intent, Jobs, Ran, Ticket};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

/// Enqueues the same builds repeatedly, and checks that each was made once.
///
/// Exit status 0: all were; 1: some were not, they are listed; 2: the run could not be made.
#[derive(Debug, Parser)]
#[command(name = "ghost_jobs", version, max_term_width = 100)]
struct Args {
    /// Where jobs and builds are stored: the URLs of `storm`. Default: a SQLite file in a temporary
    /// folder
    #[arg(long, value_name = "URL")]
    store: Option<String>,

    /// Number of concurrent clicks at the end
    #[arg(long, value_name = "N", default_value_t = 64)]
    clicks: u32,
}

/// How long after a build another one is a duplicate: short, because this program waits for the
/// end.
const WINDOW: Duration = Duration::from_secs(2);

struct Shop {
    effects: Effects,
    jobs: Jobs,
    queue: Mutex<Vec<Ticket>>,
}

impl Shop {
    async fn open(store: Option<&str>) -> Result<Self, BoxError> {
        let effects = Effects::create(store, "ghost").await?;
        let idem = Idempotency::new(effects.store())
            .with_operation_policy("build", Policy::ghost_job(WINDOW));
        Ok(Self {
            jobs: Jobs::new(idem),
            queue: Mutex::default(),
            effects,
        })
    }

    /// Handles a click on the button.
    async fn enqueue_build(&self, intent: &Intent, job: &str) -> Result<Enqueued, BoxError> {
        let push = async |ticket| {
            self.queue.lock().await.push(ticket);
            Ok::<_, std::convert::Infallible>(())
        };
        Ok(self.jobs.enqueue(intent, job, push).await?)
    }

    /// Makes one click, and prints it.
    async fn click(
        &self,
        name: &str,
        commit: Option<&str>,
        job: &str,
    ) -> Result<Enqueued, BoxError> {
        let mut intent = Intent::new("user-7", Target::Name(name), "build")?;
        let mut what = format!("{name:?}");
        if let Some(commit) = commit {
            intent = intent.with_payload(commit)?;
            what = format!("{what} at {commit}");
        }
        let enqueued = self.enqueue_build(&intent, job).await?;
        match &enqueued {
            Enqueued::New(ticket) => print_line("click", &what, format!("job {}", ticket.job())),
            Enqueued::Duplicate { job, is_done } => {
                let state = if *is_done { "done" } else { "waiting" };
                print_line("click", &what, format!("duplicate of job {job}, {state}"));
            }
        }
        Ok(enqueued)
    }

    /// A worker: takes the waiting jobs and builds them.
    async fn work(&self, succeeds: bool) -> Result<(), BoxError> {
        let tickets = std::mem::take(&mut *self.queue.lock().await);
        for ticket in tickets {
            let ran = self
                .jobs
                .run(&ticket, |work| self.build(work, ticket.job(), succeeds))
                .await;
            let returned = match ran {
                Ok(Ran::Done(())) => "built".to_owned(),
                Ok(Ran::Superseded) => "superseded, dropped".to_owned(),
                Err(error) => error.to_string(),
            };
            print_line("worker", &format!("job {}", ticket.job()), returned);
        }
        Ok(())
    }

    /// Builds: writes a row to the ledger. Then the job is completed, for its window.
    async fn build(&self, work: Work, job: &str, succeeds: bool) -> Result<(), BoxError> {
        if !succeeds {
            return Err("the tests are red".into());
        }
        self.effects.append(job, &work.attempts().to_string()).await
    }

    async fn cancel(&self) -> Result<(), BoxError> {
        for ticket in std::mem::take(&mut *self.queue.lock().await) {
            self.jobs.cancel(&ticket).await?;
            print_line(
                "cancel",
                &format!("job {}", ticket.job()),
                "cancelled".to_owned(),
            );
        }
        Ok(())
    }

    /// Clicks in many tabs at once, and returns the number of new jobs.
    async fn storm(self: std::sync::Arc<Self>, clicks: u32) -> Result<usize, BoxError> {
        let mut tabs = JoinSet::new();
        for tab in 0..clicks {
            let shop = std::sync::Arc::clone(&self);
            tabs.spawn(async move {
                let intent = Intent::new("user-8", Target::Name("storm"), "build")?;
                shop.enqueue_build(&intent, &format!("storm-{tab}")).await
            });
        }
        let mut new = 0;
        while let Some(enqueued) = tabs.join_next().await {
            new += usize::from(matches!(enqueued??, Enqueued::New(_)));
        }
        print_line("click", &format!("{clicks} at once"), format!("{new} job"));
        Ok(new)
    }
}

fn print_line(actor: &str, what: &str, outcome: impl Display) {
    println!("{actor:<8}{what:<26}{outcome}");
}

async fn run(args: Args) -> Result<ExitCode, BoxError> {
    let shop = std::sync::Arc::new(Shop::open(args.store.as_deref()).await?);
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
    let storm = std::sync::Arc::clone(&shop).storm(args.clicks).await?;
    shop.work(true).await?;

    let mut built: Vec<_> = shop
        .effects
        .all()
        .await?
        .into_iter()
        .map(|effect| effect.id)
        .collect();
    let after = built.split_off(built.len().min(4));
    let as_expected = built == ["1", "3", "4", "8"] && after.len() == 1 && storm == 1;
    if let Some(shop) = std::sync::Arc::into_inner(shop) {
        shop.effects.remove().await?;
    }
    if as_expected {
        println!("\nEvery requested build was made exactly once.");
    } else {
        println!("\nNot as requested: built {built:?}, then {after:?}.");
    }
    Ok(ExitCode::from(u8::from(!as_expected)))
}

#[tokio::main]
async fn main() -> ExitCode {
    run(Args::parse()).await.unwrap_or_else(|reason| {
        eprintln!("ghost_jobs: {reason}");
        ExitCode::from(2)
    })
}
