//! Runs of all kinds, and what Prometheus reads of them:
//!
//! ```sh
//! cargo run -p idem-core --features metrics --example prometheus
//! cargo run -p idem-core --features metrics --example prometheus -- 127.0.0.1:9464
//! ```
//!
//! Given an address, the program goes on and serves `/metrics` there: for a Prometheus that scrapes
//! it, and a Grafana with `dashboards/idem.json`.

mod exposition;
mod workload;

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;

fn main() -> Result<(), Box<dyn Error>> {
    let recorder = exposition::recorder()?;
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    let Some(address) = std::env::args().nth(1) else {
        runtime.block_on(workload::some_runs(0))?;
        print!("{}", handle.render());
        return Ok(());
    };
    let listener = TcpListener::bind(address)?;
    println!("http://{}/metrics", listener.local_addr()?);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A reader that goes away is no reason to stop the server.
            let _ = answer(&stream, &handle);
        }
    });
    runtime.block_on(async {
        for round in 0.. {
            // On a busy machine a lease may end too early.
            if let Err(error) = workload::some_runs(round).await {
                eprintln!("{error}");
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Ok(())
    })
}

/// Answers every request with the metrics, whatever its path.
fn answer(mut stream: &TcpStream, handle: &PrometheusHandle) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let request = BufReader::new(stream).lines();
    for line in request {
        if line?.is_empty() {
            break;
        }
    }
    let body = handle.render();
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    )
}
