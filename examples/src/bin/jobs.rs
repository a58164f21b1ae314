//! Workers of `apalis` with a layer that does each job once, however often it was pushed and
//! whichever worker receives it.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use apalis::layers::WorkerBuilderExt;
use apalis::layers::retry::Policy as Retries;
use apalis_core::backend::TaskSink;
use apalis_core::backend::memory::MemoryStorage;
use apalis_core::error::WorkerError;
use apalis_core::task::Task;
use apalis_core::task::data::Data;
use apalis_core::worker::builder::WorkerBuilder;
use clap::Parser;
use idem_core::{BoxError, BusyPolicy, Idempotency, Key, Policy, Response};
use idem_queue::{
    Backoff, Consumer, Disposition, JobLayer, Message, NotDone, WorkError, current_work,
};
use idem_storm::effects::{Effects, StoreArgs};
use idem_storm::report::{Report, exit};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::{Sleep, sleep};

/// Pushes jobs several times to two workers, and checks that each was done once.
///
/// Exit status 0: all were; 1: some were not, they are listed; 2: the run could not be made.
#[derive(Debug, Parser)]
#[command(name = "jobs", version, max_term_width = 100)]
struct Args {
    #[command(flatten)]
    store: StoreArgs,

    /// Number of mails
    #[arg(long, value_name = "N", default_value_t = 150)]
    mails: u32,

    /// The same seed: the same jobs in the same order
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Leaves the layer out, to show that the check finds the errors
    #[arg(long)]
    sabotage: bool,
}

/// A mail to send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Mail {
    /// The order of the mail; each order has one mail.
    order: String,
    /// The recipient; a mail to an address without `@` always fails.
    to: String,
}

impl Mail {
    /// Returns the job's key: sender, intent and order.
    fn key(&self) -> idem_core::Result<Key> {
        Key::new("shop", "mail.receipt", &self.order)
    }

    /// Returns whether it can be sent.
    fn has_address(&self) -> bool {
        self.to.contains('@')
    }
}

/// Draws `count` mails, and the order in which they are pushed, each one to three times. The same
/// seed gives the same mails.
fn mails(count: u32, seed: u64) -> (Vec<Mail>, Vec<Mail>) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mail = |number| Mail {
        order: format!("order-{number:04}"),
        to: match rng.random_ratio(1, 15) {
            true => "somebody".to_owned(),
            false => format!("customer-{}@example.org", rng.random_range(1..1000)),
        },
    };
    let mails: Vec<Mail> = (1..=count).map(mail).collect();
    let mut pushed = Vec::new();
    for mail in &mails {
        for _ in 0..rng.random_range(1..=3) {
            pushed.push(mail.clone());
        }
    }
    pushed.shuffle(&mut rng);
    (mails, pushed)
}

/// The state that the jobs share.
#[derive(Debug)]
struct Office {
    effects: Effects,
    begun: AtomicU64,
    ended: AtomicU64,
}

/// The job. Its effect and its result commit together.
async fn send(mail: Mail, office: Data<Arc<Office>>) -> Result<String, WorkError> {
    let visitor = office.begun.fetch_add(1, Ordering::SeqCst);
    sleep(Duration::from_millis(5)).await;
    if !mail.has_address() {
        return Err(WorkError::permanent("there is no such address"));
    }
    if visitor % 7 == 3 {
        return Err(WorkError::temporary("the post office is closed"));
    }
    let receipt = format!("sent to {}", mail.to);
    let (effects, order) = (&office.effects, &mail.order);
    let done = match current_work() {
        Some(work) => {
            effects
                .commit(&work, order, Response::json(&receipt)?)
                .await
        }
        None => effects.append(order).await,
    };
    done.map(|()| receipt).map_err(WorkError::Temporary)
}

/// Returns a layer that knows which job a task is, and how often it was tried.
fn layer(office: &Office) -> JobLayer<Task<Mail>> {
    let backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(200));
    // A duplicate that meets the running job waits for its result.
    let policy = Policy::default().with_on_busy(BusyPolicy::wait(Duration::from_secs(10)));
    let idempotency = Idempotency::new(office.effects.store()).with_policy(policy);
    let consumer = Consumer::new(idempotency).with_backoff(backoff);
    JobLayer::new(consumer, |task: &Task<Mail>| {
        let mail = &task.args;
        let message = Message::new(mail.key()?, &mail.to);
        Ok(message.with_deliveries(task.attempt() as u64 + 1))
    })
}

/// Retries a task when and if the layer requests it, and counts the finished tasks.
#[derive(Debug, Clone)]
struct LayerRetries(Arc<Office>);

impl<R> Retries<Task<Mail>, R, BoxError> for LayerRetries {
    type Future = Sleep;

    fn retry(&mut self, _: &mut Task<Mail>, result: &mut Result<R, BoxError>) -> Option<Sleep> {
        let error = result.as_ref().err();
        let not_done = error.and_then(|error| error.downcast_ref::<NotDone>());
        match not_done.map(NotDone::disposition) {
            Some(Disposition::Requeue { delay }) => Some(sleep(delay)),
            Some(Disposition::Ack | Disposition::Reject) | None => {
                self.0.ended.fetch_add(1, Ordering::SeqCst);
                None
            }
        }
    }

    fn clone_request(&mut self, task: &Task<Mail>) -> Option<Task<Mail>> {
        Some(task.clone())
    }
}

/// A worker with its own queue, which runs until no work is left.
async fn work(
    name: &'static str,
    jobs: Vec<Mail>,
    office: Arc<Office>,
    is_sabotaged: bool,
    mut over: watch::Receiver<bool>,
) -> Result<(), WorkerError> {
    let mut queue = MemoryStorage::new();
    for job in jobs {
        let pushed = queue.push(job).await;
        pushed.map_err(|error| WorkerError::BackendError(error.to_string().into()))?;
    }
    let ended = async move {
        let _ = over.wait_for(|over| *over).await;
        Ok::<_, WorkerError>(())
    };
    let builder = WorkerBuilder::new(name).backend(queue);
    if is_sabotaged {
        // No one retries here, so every task that began has ended.
        let worker = builder.concurrency(8).data(office).build(send);
        return worker.run_until(ended).await;
    }
    let layer = layer(&office);
    let retries = LayerRetries(Arc::clone(&office));
    let builder = builder.retry(retries).concurrency(8).layer(layer);
    builder.data(office).build(send).run_until(ended).await
}

async fn run(args: Args) -> Result<bool, BoxError> {
    let seed = args.seed.unwrap_or_else(|| rand::random::<u32>().into());
    let (start, (mails, pushed)) = (Instant::now(), mails(args.mails, seed));
    let office = Arc::new(Office {
        effects: args.store.open("jobs").await?,
        begun: AtomicU64::new(0),
        ended: AtomicU64::new(0),
    });
    let (over, ended) = watch::channel(false);
    let start_worker = |name, jobs: &[Mail]| {
        let (jobs, office) = (jobs.to_vec(), Arc::clone(&office));
        tokio::spawn(work(name, jobs, office, args.sabotage, ended.clone()))
    };
    let (one, two) = pushed.split_at(pushed.len() / 2);
    let workers = [start_worker("one", one), start_worker("two", two)];

    let ends = match args.sabotage {
        true => &office.begun,
        false => &office.ended,
    };
    while ends.load(Ordering::SeqCst) < pushed.len() as u64 {
        sleep(Duration::from_millis(20)).await;
        if start.elapsed() > Duration::from_secs(120) {
            return Err("the jobs do not come to an end".into());
        }
    }
    over.send_replace(true);
    for worker in workers {
        worker.await??;
    }

    let product = office.effects.product().await?;
    let mut report = Report::new(format!("{product}, two apalis workers, seed {seed}"));
    report.count("pushed", pushed.len() as u64, "jobs");
    report.count(
        "mails",
        mails.len() as u64,
        "each pushed one to three times",
    );
    let again = "the post office is closed now and then, and tried again";
    report.count("begun", office.begun.load(Ordering::SeqCst), again);
    let expected = |mail: &Mail| Ok((mail.key()?, !mail.has_address()));
    let expected: Result<_, BoxError> = mails.iter().map(expected).collect();
    let effects = &office.effects;
    effects.audit(&mut report, "sent", expected?).await?;
    report.time("elapsed", start.elapsed(), "");
    effects.remove().await?;
    Ok(report.print(
        "Every mail was sent exactly once, or failed because it has no address.",
        "Not every mail was sent exactly once.",
    ))
}

#[tokio::main]
async fn main() -> ExitCode {
    exit("jobs", run(Args::parse()).await)
}

#[cfg(test)]
mod tests {
    use super::mails;

    #[test]
    fn every_mail_is_pushed_and_a_seed_repeats_it() {
        let (all, pushed) = mails(60, 3);
        assert!(all.iter().all(|mail| pushed.contains(mail)));
        assert!(pushed.len() > all.len());
        assert_eq!(mails(60, 3), (all, pushed));
    }
}
