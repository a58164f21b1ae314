//! The parent: from the options to the report.

use std::io::{Write, stderr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;

use super::args::Args;
use super::audit::{Audit, audit};
use super::backend::{self, Backend};
use super::generate::payments;
use super::input;
use super::lane::{Lane, Storm};
use super::number::grouped;
use super::plan::{self, Plan};
use super::progress::Progress;
use super::protocol::Setup;
use super::report::Report;
use super::seat::Seat;
use super::signals::end_is_wanted;
use super::stop::{Stop, chain};
use super::tally::{Event, Tally};

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
    let mut seat = Seat::choose(args)?;
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
        .map_err(|error| Stop::because("there is no runtime", &error))?;
    let report = runtime.block_on(run(args, seed, Arc::new(storm), &mut seat));
    seat.clear(args.keep);
    let report = report?;
    report.print(args.json);
    Ok(match report.is_clean() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(1),
    })
}

async fn run(args: &Args, seed: u64, storm: Arc<Storm>, seat: &mut Seat) -> Result<Report, Stop> {
    let backend = backend::open(&seat.location).await?;
    let failed = |what: &'static str| {
        move |error: idem_core::BoxError| Stop::because(format!("--store: {what}"), &*error)
    };
    let product = backend.product().await.map_err(failed("no version"))?;
    let created = backend.create().await;
    let result = match created.map_err(failed("the tables cannot be created")) {
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
    let ledger = backend
        .ledger()
        .await
        .map_err(|error| Stop::because("the ledger cannot be read", &*error))?;
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
            grouped(tally.answered),
            grouped(deliveries as u64)
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
                ended.map_err(|error| Stop::because("a lane broke", &error))??;
            }
            _ = tick.tick() => progress.show(tally),
        }
    }
    // The events end with the last lane, whose result may not have been read.
    while let Some(ended) = lanes.join_next().await {
        ended.map_err(|error| Stop::because("a lane broke", &error))??;
    }
    Ok(())
}
