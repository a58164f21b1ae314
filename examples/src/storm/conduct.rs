//! The parent: from the options to the report.

use std::io::{Write, stderr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use indicatif::HumanCount;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;

use super::args::Args;
use super::audit::{Audit, audit};
use super::backend::{self, Backend};
use super::input;
use super::lane::{Lane, Storm};
use super::plan::{self, Plan};
use super::progress::Progress;
use super::protocol::Setup;
use super::report::Report;
use super::seat::Seat;
use super::stop::{OrStop, Stop, chain};
use super::tally::{Event, Tally};
use super::workload::payments;

/// The maximum number of connections to a server, of a process and of all together: PostgreSQL's
/// usual limit is 100.
const MAX_CONNECTIONS: (u32, u32) = (8, 64);

/// How often progress is shown.
const TICK: Duration = Duration::from_millis(100);

/// Makes a run and reports it.
pub(crate) fn conduct(args: &Args) -> Result<ExitCode, Stop> {
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
            store: seat.location.url.clone(),
            namespace: seat.location.namespace.clone(),
            connections: seat.location.connections,
            lease: Duration::from_millis(args.lease),
            sabotage: args.sabotage,
            worker: String::new(),
        },
        concurrency: args.concurrency,
        workload,
        plan,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .or_stop("there is no runtime")?;
    let report = runtime.block_on(run(args, seed, Arc::new(storm), &mut seat));
    seat.clear(args.keep);
    let report = report?;
    report.print(args.json);
    Ok(match report.is_clean() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(1),
    })
}

fn connections(args: &Args) -> u32 {
    let (each, all) = MAX_CONNECTIONS;
    args.concurrency.min(each).min(all / args.processes).max(1)
}

async fn run(args: &Args, seed: u64, storm: Arc<Storm>, seat: &mut Seat) -> Result<Report, Stop> {
    let backend = backend::open(&seat.location).await?;
    let product = backend.product().await.or_stop("--store: no version")?;
    let created = backend.create().await;
    let result = match created.or_stop("--store: the tables cannot be created") {
        Ok(()) => storm_and_audit(args, &storm, &*backend).await,
        Err(stop) => Err(stop),
    };
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
    let (tally, audit) = result?;
    Ok(Report {
        args: args.clone(),
        seed,
        store: backend.store().backend(),
        product,
        shown: seat.shown.clone(),
        kept,
        storm,
        tally,
        audit,
    })
}

async fn storm_and_audit(
    args: &Args,
    storm: &Arc<Storm>,
    backend: &dyn Backend,
) -> Result<(Tally, Audit), Stop> {
    let tally = deliver(args, storm).await?;
    let ledger = backend.ledger().await;
    let ledger = ledger.or_stop("the ledger cannot be read")?;
    let audit = audit(&storm.workload, &storm.plan, &ledger, &tally.answers);
    Ok((tally, audit))
}

/// Runs all lanes to their end. However it ends, it leaves no worker.
async fn deliver(args: &Args, storm: &Arc<Storm>) -> Result<Tally, Stop> {
    let deliveries = storm.plan.deliveries.len();
    let mut tally = Tally::new(deliveries);
    let (sender, events) = unbounded_channel();
    let mut lanes = JoinSet::new();
    for number in 0..args.processes {
        lanes.spawn(Lane::new(Arc::clone(storm), number, sender.clone()).run());
    }
    drop(sender);
    let limit = args.deadline.map_or_else(
        || Duration::from_secs(60) + Duration::from_millis(50) * storm.plan.deliveries.len() as u32,
        Duration::from_secs,
    );
    let outcome = tokio::select! {
        outcome = watch(&mut lanes, events, &mut tally) => outcome,
        () = end_is_wanted() => Err(Stop::interrupted()),
        () = tokio::time::sleep(limit) => Err(Stop::new(format!(
            "gave up after {} s; --deadline allows more",
            limit.as_secs()
        ))),
    };
    lanes.shutdown().await;
    match outcome {
        Ok(()) => Ok(tally),
        Err(stop) if tally.answered == 0 => Err(stop),
        Err(stop) => Err(stop.after(format!(
            "{} of {} deliveries",
            HumanCount(tally.answered),
            HumanCount(deliveries as u64)
        ))),
    }
}

/// Counts the events of the lanes until all have ended.
async fn watch(
    lanes: &mut JoinSet<Result<(), Stop>>,
    mut events: UnboundedReceiver<Event>,
    tally: &mut Tally,
) -> Result<(), Stop> {
    let mut progress = Progress::new(tally.answers.len() as u64);
    let mut tick = tokio::time::interval(TICK);
    loop {
        tokio::select! {
            event = events.recv() => match event {
                Some(event) => tally.note(event),
                None => break,
            },
            Some(ended) = lanes.join_next() => {
                ended.or_stop("a lane broke")??;
            }
            _ = tick.tick() => progress.show(tally),
        }
    }
    // The events end with the last lane, whose result may not have been read.
    while let Some(ended) = lanes.join_next().await {
        ended.or_stop("a lane broke")??;
    }
    Ok(())
}

/// Returns when a signal ends the program: Ctrl-C, or on Unix SIGTERM or SIGHUP.
async fn end_is_wanted() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let (Ok(mut terminate), Ok(mut hang_up)) = (
            signal(SignalKind::terminate()),
            signal(SignalKind::hangup()),
        ) {
            tokio::select! {
                _ = terminate.recv() => return,
                _ = hang_up.recv() => return,
                _ = tokio::signal::ctrl_c() => return,
            }
        }
    }
    if tokio::signal::ctrl_c().await.is_err() {
        // Without a handler the signal itself ends the program.
        std::future::pending::<()>().await;
    }
}
