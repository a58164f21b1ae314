//! `idem-containers NAME` starts a server in a container, prints its URL and version as one line of
//! JSON, and holds it until a signal ends this program. The container ends with the program, even
//! with SIGKILL.

use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::args().nth(1).unwrap_or_default();
    let mut end = JoinSet::new();
    for kind in [
        SignalKind::hangup(),
        SignalKind::interrupt(),
        SignalKind::quit(),
        SignalKind::terminate(),
    ] {
        let mut signal = signal(kind)?;
        end.spawn(async move { signal.recv().await });
    }
    tokio::select! {
        container = idem_containers::start(&name) => {
            let container = container?;
            let (url, version) = (container.url(), container.version());
            println!("{}", serde_json::json!({ "url": url, "version": version }));
            end.join_next().await;
        }
        _ = end.join_next() => {}
    }
    Ok(())
}
