//! A worker process.

use std::io::{BufRead, Write, stdin, stdout};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use idem_core::BoxError;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep};

use super::backend::{self, Backend, Location};
use super::desk::{Desk, RETRY_TIMEOUT};
use super::protocol::{Order, Report, Setup, line};
use super::stop::{OrStop, Stop, chain};

/// The argument that makes the command a worker.
pub(crate) const ARGUMENT: &str = "storm-worker";

/// The pause before a worker tries again to reach the store.
const PAUSE: Duration = Duration::from_millis(200);

/// Returns whether this process was started as a worker.
pub(crate) fn is_requested() -> bool {
    std::env::args_os()
        .nth(1)
        .is_some_and(|first| first == ARGUMENT)
}

/// Handles deliveries until standard input ends, by the parent's choice or with the parent.
pub(crate) fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => {
            say(&Report::Fatal {
                message: stop.to_string(),
            });
            stop.code()
        }
    }
}

fn run() -> Result<(), Stop> {
    let mut first = String::new();
    stdin()
        .read_line(&mut first)
        .or_stop("a worker cannot read its set-up")?;
    if first.is_empty() {
        return Ok(());
    }
    let setup = serde_json::from_str(&first)
        .or_stop("this is a worker of `storm`, and not for people to start")?;
    let (sender, orders) = unbounded_channel();
    std::thread::spawn(move || read_orders(&sender));
    serve(setup, orders)
}

/// Only reads, so that the parent can always write. When the input ends, the parent has all its
/// answers or is gone; then the process ends, whatever it is doing.
fn read_orders(orders: &UnboundedSender<Order>) {
    for line in stdin().lock().lines() {
        // An unreadable line is one that the parent could not finish.
        let Ok(order) = line
            .map_err(BoxError::from)
            .and_then(|line| Ok(serde_json::from_str(&line)?))
        else {
            break;
        };
        if orders.send(order).is_err() {
            break;
        }
    }
    std::process::exit(0);
}

#[tokio::main(flavor = "current_thread")]
async fn serve(setup: Setup, mut orders: UnboundedReceiver<Order>) -> Result<(), Stop> {
    let desk = Arc::new(Desk {
        backend: open(&setup.location).await?,
        setup,
    });
    say(&Report::Ready);
    while let Some(order) = orders.recv().await {
        let desk = Arc::clone(&desk);
        // A separate task, so that a panic is reported, too.
        let handled = tokio::spawn(async move { desk.handle(&order).await });
        tokio::spawn(async move {
            let handled = handled.await.unwrap_or_else(|panic| Err(panic.into()));
            say(&handled.unwrap_or_else(|error| Report::Fatal {
                message: chain(&*error),
            }));
        });
    }
    Ok(())
}

/// Opens the store. The parent has reached it before, so an error means that the server is away for
/// a while: a worker is often started while it restarts.
async fn open(location: &Location) -> Result<Box<dyn Backend>, Stop> {
    let begun = Instant::now();
    loop {
        match backend::open(location).await {
            Err(_) if begun.elapsed() < RETRY_TIMEOUT => sleep(PAUSE).await,
            opened => return opened,
        }
    }
}

/// Writes the report at once. The parent always reads, so this does not block for long; if the
/// parent is gone, this process has no reason to continue.
pub(crate) fn say(report: &Report) {
    let mut out = stdout().lock();
    let written = line(report)
        .map_err(BoxError::from)
        .and_then(|line| Ok(out.write_all(&line).and_then(|()| out.flush())?));
    if written.is_err() {
        std::process::exit(1);
    }
}
