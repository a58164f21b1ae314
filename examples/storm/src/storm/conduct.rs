//! The parent: from the options to the report.

use std::convert::Infallible;
use std::io::{IsTerminal, Write, stderr, stdout};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::args::Args;
use super::audit::{Audit, audit};
use super::backend;
use super::lane::{Lane, Storm};
use super::plan::Plan;
use super::protocol::{End, Outcome, Point, Setup};
use super::seat::Seat;
use super::stop::{OrStop, Stop, chain};
use crate::report::{Count, Report as Table};

/// The maximum number of connections to a server, of a process and of all together: PostgreSQL's
/// usual limit is 100.
const MAX_CONNECTIONS: (u32, u32) = (8, 64);

/// How long a run waits for a server that does not answer.
const SERVER_TIMEOUT: Duration = Duration::from_secs(10);

/// How often the bar changes.
const TICK: Duration = Duration::from_millis(100);

/// When the first line is written without a terminal.
const FIRST_LINE: Duration = Duration::from_secs(1);

/// How often one is written after it.
const PERIOD: Duration = Duration::from_secs(10);

/// The maximum number of keys at fault that are listed.
const MAX_LISTED: usize = 20;

/// Makes a run and reports it.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn conduct(args: &Args) -> Result<ExitCode, Stop> {
    let seed = args.seed.unwrap_or_else(|| rand::random::<u32>().into());
    let plan = Plan::draw(args, seed);
    let (each, all) = MAX_CONNECTIONS;
    let connections = args.concurrency.min(each).min(all / args.processes).max(1);
    let mut seat = Seat::choose(args.store.as_deref(), "storm", connections)?;
    let storm = Storm {
        setup: Setup {
            location: seat.location.clone(),
            lease: Duration::from_millis(args.lease),
            sabotage: args.sabotage,
        },
        concurrency: args.concurrency,
        tally: Mutex::new(Tally::new(plan.deliveries.len())),
        plan,
    };
    let opened = backend::open(&seat.location).await?;
    // A pool takes a refused connection for a starting server and tries for half a minute.
    let product = timeout(SERVER_TIMEOUT, opened.product()).await;
    let product = product.or_stop(format!("--store: no answer from {}", seat.shown))?;
    let unusable = format!("--store: {} cannot be used", seat.shown);
    let product = product.or_stop(&unusable)?;
    let storming = async {
        opened.backend.create().await.or_stop(&unusable)?;
        if args.keep {
            let _ = writeln!(stderr(), "storm: the records are in {}", seat.place());
        }
        deliver(args, &storm).await?;
        let ledger = opened.backend.ledger().await;
        ledger.or_stop("the ledger cannot be read")
    };
    let ledger = storming.await;
    if args.keep {
        seat.keep();
    } else if let Err(error) = opened.remove().await {
        let (namespace, reason) = (&seat.location.namespace, chain(&*error));
        let _ = writeln!(
            stderr(),
            "storm: `{namespace}` was left behind in the store: {reason}"
        );
    }
    let ledger = ledger?;
    let tally = storm.tally.into_inner();
    let tally = tally.unwrap_or_else(PoisonError::into_inner);
    let report = Report {
        args,
        seed,
        audit: audit(&storm.plan, &ledger, &tally.answers),
        tally,
    };
    let is_clean = report.audit.violations.is_empty();
    let head = format!("{product} ({})", seat.shown);
    let mut text = format!("{}\n{}", report.table(&head), report.conclusion());
    if args.json {
        text += &format!("{}\n", report.json(&product));
    }
    // If this fails, the exit status still shows the result.
    let mut out = stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    Ok(ExitCode::from(u8::from(!is_clean)))
}

/// Runs all lanes to their end. However it ends, it leaves no worker: a lane that is dropped kills
/// its process.
async fn deliver(args: &Args, storm: &Storm) -> Result<(), Stop> {
    let deliveries = storm.plan.deliveries.len();
    let lanes = (0..args.processes).map(|number| Lane::new(storm, number).run());
    let limit = Duration::from_secs(600) + Duration::from_millis(50) * deliveries as u32;
    tokio::select! {
        // The handler of signals is set up before the first worker starts.
        biased;
        () = end_is_wanted() => Err(Stop::interrupted()),
        ran = try_join_all(lanes) => ran.map(|_| ()),
        never = show_progress(storm) => match never {},
        () = sleep(limit) => Err(Stop::new(format!("gave up after {} s", limit.as_secs()))),
    }
}

/// Returns when a signal ends the program: Ctrl-C, or on Unix also SIGTERM or SIGHUP. Without a
/// handler, a signal itself ends the program.
async fn end_is_wanted() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let kinds = [SignalKind::terminate(), SignalKind::hangup()];
        if let [Ok(mut terminate), Ok(mut hang_up)] = kinds.map(signal) {
            tokio::select! {
                _ = terminate.recv() => return,
                _ = hang_up.recv() => return,
                Ok(()) = tokio::signal::ctrl_c() => return,
            }
        }
    }
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Shows a bar on a terminal, until the future is dropped; otherwise writes a line on standard
/// error now and then. A failed write of progress does not stop the run.
async fn show_progress(storm: &Storm) -> Infallible {
    let total = storm.plan.deliveries.len() as u64;
    let bar = stderr().is_terminal().then(|| Bar);
    let start = Instant::now();
    let mut next_line = FIRST_LINE;
    loop {
        sleep(TICK).await;
        let counts = |tally: &mut Tally| (tally.answered(), tally.fresh, tally.all_crashes());
        let (answered, effects, crashes) = storm.with_tally(counts);
        let share = answered * 100 / total;
        let [answered, total, effects, crashes] = [answered, total, effects, crashes].map(Count);
        let counts =
            format!("{answered} of {total} deliveries, {effects} effects, {crashes} crashes");
        let elapsed = start.elapsed();
        if bar.is_some() {
            let full = "█".repeat(share as usize / 4);
            let seconds = elapsed.as_secs();
            let _ = write!(
                stderr(),
                "\r{full:░<25} {share:>3} %  {counts}  {seconds} s{TO_END}"
            );
        } else if elapsed >= next_line {
            next_line += PERIOD;
            let _ = writeln!(stderr(), "storm: {counts}");
        }
    }
}

/// Clears the rest of the line (ECMA-48, EL).
const TO_END: &str = "\x1b[K";

/// A bar on the terminal; its line is cleared when it is dropped.
struct Bar;

impl Drop for Bar {
    fn drop(&mut self) {
        let _ = write!(stderr(), "\r{TO_END}");
    }
}

/// The counts of a run.
#[derive(Debug)]
pub(crate) struct Tally {
    /// The answers, by number of delivery.
    answers: Vec<Option<End>>,
    fresh: u64,
    replays: u64,
    conflicts: u64,
    waits: u64,
    /// Late holders whose commit was refused.
    fenced: u64,
    /// The crashes at each [`Point`]; the last: not planned.
    crashes: [u64; 5],
    latencies: Vec<Duration>,
    start: Instant,
    /// The time until the last answer.
    elapsed: Duration,
}

impl Tally {
    fn new(deliveries: usize) -> Self {
        Self {
            answers: vec![None; deliveries],
            fresh: 0,
            replays: 0,
            conflicts: 0,
            waits: 0,
            fenced: 0,
            crashes: [0; 5],
            latencies: Vec::with_capacity(deliveries),
            start: Instant::now(),
            elapsed: Duration::ZERO,
        }
    }

    /// Counts a worker process that died: killed at this point, or for another reason.
    pub(crate) fn crashed(&mut self, point: Option<Point>) {
        let at = Point::ALL
            .iter()
            .position(|(known, _)| Some(*known) == point);
        self.crashes[at.unwrap_or(Point::ALL.len())] += 1;
    }

    /// Counts a delivery that was acknowledged, with the time since its first attempt.
    pub(crate) fn end(&mut self, delivery: u32, end: End, latency: Duration) {
        self.waits += u64::from(end.waited);
        self.fenced += u64::from(end.fenced);
        *match end.outcome {
            Outcome::Fresh => &mut self.fresh,
            Outcome::Replay => &mut self.replays,
            Outcome::Conflict => &mut self.conflicts,
        } += 1;
        self.answers[delivery as usize] = Some(end);
        self.latencies.push(latency);
        self.elapsed = self.start.elapsed();
    }

    fn answered(&self) -> u64 {
        self.latencies.len() as u64
    }

    /// Returns the latency that this part of the deliveries did not exceed.
    fn latency(&self, quantile: f64) -> Duration {
        let mut latencies = self.latencies.clone();
        latencies.sort_unstable();
        let rank = (latencies.len() as f64 * quantile).ceil() as usize;
        let slowest = rank.checked_sub(1).and_then(|index| latencies.get(index));
        slowest.copied().unwrap_or_default()
    }

    fn all_crashes(&self) -> u64 {
        self.crashes.iter().sum()
    }
}

/// All facts at the end of a run.
struct Report<'a> {
    args: &'a Args,
    seed: u64,
    tally: Tally,
    audit: Audit,
}

impl Report<'_> {
    fn table(&self, product: &str) -> Table {
        let Self {
            args, tally, audit, ..
        } = self;
        let (processes, concurrency, seed) = (args.processes, args.concurrency, self.seed);
        let plural = if processes == 1 { "" } else { "es" };
        let mut table = Table::new(format!(
            "{product}, {processes} process{plural} × {concurrency} at once, seed {seed}"
        ));
        let seconds = tally.elapsed.as_secs_f64().max(1e-6);
        let rate = Count((tally.answered() as f64 / seconds).round() as u64);
        let lost = audit.effects.saturating_sub(tally.fresh);
        let effects = match (lost, tally.fenced) {
            (0, 0) => String::new(),
            (_, 0) => format!(
                "{} lost in a crash and replayed later",
                count(lost, "answer")
            ),
            (_, late) => {
                let (answers, commits) = (count(lost, "answer"), count(late, "late commit"));
                format!("{answers} lost in a crash, {commits} refused")
            }
        };
        let names = Point::ALL
            .iter()
            .map(|(_, name)| *name)
            .chain(["not planned"]);
        let crashes = names.zip(tally.crashes).filter(|(_, count)| *count > 0);
        let crashes = crashes.map(|(name, count)| format!("{name} {}", Count(count)));
        let crashes = crashes.collect::<Vec<_>>().join(", ");
        let remark = format!("each delivered {} times", args.retries);
        table.count("requests", args.requests.into(), &remark);
        table.count(
            "deliveries",
            tally.answered(),
            &format!("{rate} per second"),
        );
        table.count("effects", audit.effects, &effects);
        table.count("replays", tally.replays, "the stored answer, byte for byte");
        let refused = "another payload under the same key: refused";
        table.count("conflicts", tally.conflicts, refused);
        table.count(
            "waits",
            tally.waits,
            "met a request that was being worked on",
        );
        table.count(
            "takeovers",
            audit.takeovers,
            "of a claim whose lease had ended",
        );
        table.count("crashes", tally.all_crashes(), &crashes);
        let [median, slow] = [0.50, 0.99].map(|quantile| tally.latency(quantile));
        table.time("latency p50", median, "from first sending to answer");
        table.time("latency p99", slow, "crashes and waits included");
        table.time("elapsed", tally.elapsed, "");
        table
    }

    fn conclusion(&self) -> String {
        let violations = &self.audit.violations;
        if violations.is_empty() {
            return "Every effect happened exactly once.\n".to_owned();
        }
        let (keys, requests) = (violations.len() as u64, self.args.requests.into());
        let mut text = format!(
            "VIOLATED for {} of {}:\n",
            Count(keys),
            count(requests, "request")
        );
        for violation in violations.iter().take(MAX_LISTED) {
            text += &format!("  {}: {}\n", violation.key, violation.reason);
        }
        if let Some(more) = keys.checked_sub(MAX_LISTED as u64).filter(|more| *more > 0) {
            text += &format!("  and {} more\n", Count(more));
        }
        text
    }

    fn json(&self, product: &str) -> serde_json::Value {
        let Self {
            args, tally, audit, ..
        } = self;
        let listed: Vec<_> = audit.violations.iter().take(MAX_LISTED).collect();
        let [p50, p99] = [0.50, 0.99].map(|quantile| tally.latency(quantile).as_secs_f64() * 1e3);
        json!({
            "requests": args.requests,
            "deliveries": tally.answered(),
            "effects": audit.effects,
            "violations": audit.violations.len(),
            "offending": listed,
            "replays": tally.replays,
            "waits": tally.waits,
            "conflicts": tally.conflicts,
            "takeovers": audit.takeovers,
            "crashes": tally.all_crashes(),
            "fresh": tally.fresh,
            "fenced": tally.fenced,
            "p50_ms": p50,
            "p99_ms": p99,
            "seconds": tally.elapsed.as_secs_f64(),
            "seed": self.seed,
            "product": product,
        })
    }
}

/// `1 request`, `2 requests`.
fn count(number: u64, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", Count(number))
}
