//! The parent: from the options to the report.

use std::convert::Infallible;
use std::io::{IsTerminal, Write, stderr};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;

use super::args::Args;
use super::audit::audit;
use super::backend;
use super::input;
use super::lane::{Lane, Storm};
use super::plan::{self, Plan, payments};
use super::protocol::Setup;
use super::report::Report;
use super::seat::Seat;
use super::stop::{OrStop, Stop, chain};
use super::tally::Tally;
use crate::report::Count;

/// The maximum number of connections to a server, of a process and of all together: PostgreSQL's
/// usual limit is 100.
const MAX_CONNECTIONS: (u32, u32) = (8, 64);

/// How often the bar changes.
const TICK: Duration = Duration::from_millis(100);

/// When the first line is written without a terminal.
const FIRST_LINE: Duration = Duration::from_secs(1);

/// How often one is written after it.
const PERIOD: Duration = Duration::from_secs(10);

/// Makes a run and reports it.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn conduct(args: &Args) -> Result<ExitCode, Stop> {
    let seed = args.seed.unwrap_or_else(|| rand::random::<u32>().into());
    let mut workload = match &args.input {
        Some(input) => input::read(input, args)?,
        None => {
            plan::check_size(args.requests.into(), args)?;
            payments(args.requests, seed)?
        }
    };
    let plan = Plan::draw(&mut workload, args, seed);
    let mut seat = Seat::choose(args.store.as_deref(), "storm", connections(args))?;
    let storm = Storm {
        setup: Setup {
            location: seat.location.clone(),
            lease: Duration::from_millis(args.lease),
            sabotage: args.sabotage,
        },
        concurrency: args.concurrency,
        tally: Mutex::new(Tally::new(plan.deliveries.len())),
        workload,
        plan,
    };
    let report = run(args, seed, storm, &mut seat).await;
    seat.clear(args.keep);
    let report = report?;
    report.print(args.json);
    Ok(ExitCode::from(u8::from(!report.is_clean())))
}

fn connections(args: &Args) -> u32 {
    let (each, all) = MAX_CONNECTIONS;
    args.concurrency.min(each).min(all / args.processes).max(1)
}

async fn run(args: &Args, seed: u64, storm: Storm, seat: &mut Seat) -> Result<Report, Stop> {
    let backend = backend::open(&seat.location).await?;
    let product = backend.product().await.or_stop("--store: no version")?;
    let storming = async {
        let created = backend.create().await;
        created.or_stop("--store: the tables cannot be created")?;
        if args.hold.is_some() {
            let _ = writeln!(stderr(), "storm: the records are in {}", seat.place());
        }
        deliver(args, &storm).await?;
        hold(args.hold).await;
        backend.ledger().await.or_stop("the ledger cannot be read")
    };
    let ledger = storming.await;
    let kept = args.keep.then(|| seat.keep());
    if !args.keep
        && let Err(error) = backend.remove().await
    {
        let namespace = &seat.location.namespace;
        let reason = chain(&*error);
        let _ = writeln!(
            stderr(),
            "storm: `{namespace}` was left behind in the store: {reason}"
        );
    }
    let ledger = ledger?;
    let tally = storm.tally.into_inner();
    let tally = tally.unwrap_or_else(PoisonError::into_inner);
    Ok(Report {
        args: args.clone(),
        seed,
        store: backend.store().backend(),
        product,
        shown: seat.shown.clone(),
        kept,
        audit: audit(&storm.workload, &storm.plan, &ledger, &tally.answers),
        workload: storm.workload,
        plan: storm.plan.digest,
        tally,
    })
}

/// Waits this many seconds, or until a signal ends the wait.
async fn hold(seconds: Option<u64>) {
    let Some(seconds) = seconds.filter(|&seconds| seconds > 0) else {
        return;
    };
    let _ = writeln!(
        stderr(),
        "storm: all is delivered; the tables stay for {seconds} s, or until Ctrl-C"
    );
    // The time-out is the normal end.
    let _ = tokio::time::timeout(Duration::from_secs(seconds), end_is_wanted()).await;
}

/// Runs all lanes to their end. However it ends, it leaves no worker: a lane that is dropped kills
/// its process.
async fn deliver(args: &Args, storm: &Storm) -> Result<(), Stop> {
    let deliveries = storm.plan.deliveries.len();
    let lanes = (0..args.processes).map(|number| Lane::new(storm, number).run());
    let limit = args.deadline.map_or_else(
        || Duration::from_secs(600) + Duration::from_millis(50) * deliveries as u32,
        Duration::from_secs,
    );
    let stop = tokio::select! {
        // The handler of signals is set up before the first worker starts.
        biased;
        () = end_is_wanted() => Stop::interrupted(),
        ran = try_join_all(lanes) => match ran {
            Ok(_) => return Ok(()),
            Err(stop) => stop,
        },
        never = show_progress(storm) => match never {},
        () = tokio::time::sleep(limit) => {
            let seconds = limit.as_secs();
            Stop::new(format!("gave up after {seconds} s; --deadline allows more"))
        }
    };
    let answered = storm.with_tally(|tally| tally.answered);
    if answered == 0 {
        return Err(stop);
    }
    let (answered, all) = (Count(answered), Count(deliveries as u64));
    Err(stop.after(format!("{answered} of {all} deliveries")))
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
        tokio::time::sleep(TICK).await;
        let counts = |tally: &mut Tally| (tally.answered, tally.fresh, tally.all_crashes());
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
