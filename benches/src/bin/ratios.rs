//! Measures the stores beside the bare statements, in turns, and writes the ratios.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use clap::builder::PossibleValuesParser;
use idem_benches::{PATHS, Plan, Report, backends, measure};
use idem_core::BoxError;

/// Measures the stores beside the bare statements.
#[derive(Debug, Parser)]
struct Arguments {
    /// Measures these backends, if they are compiled in and their servers are available.
    #[arg(long, default_values = backends::names(),
        value_parser = PossibleValuesParser::new(backends::names()))]
    backend: Vec<String>,
    /// Measures these paths.
    #[arg(long, default_values = PATHS, value_parser = PossibleValuesParser::new(PATHS))]
    path: Vec<String>,
    /// Fewer and shorter rounds.
    #[arg(long)]
    quick: bool,
    /// Writes the rows to this file, as JSON.
    #[arg(long)]
    out: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> Result<ExitCode, BoxError> {
    let arguments = Arguments::parse();
    let plan = match arguments.quick {
        true => Plan::quick(),
        false => Plan::full(),
    };
    let mut report = Report::default();
    let mut exit = ExitCode::SUCCESS;
    let names = arguments.backend.iter();
    for backend in names.filter_map(|name| backends::backend(name)) {
        for path in &arguments.path {
            eprint!("{} {path} … ", backend.name());
            let begin = Instant::now();
            let measured = measure(path, &backend, &plan).await;
            eprintln!("{:.1} s", begin.elapsed().as_secs_f64());
            match measured {
                Ok(rows) => {
                    rows.iter().for_each(|row| println!("{row}"));
                    report.rows.extend(rows);
                }
                Err(error) => {
                    eprintln!("{} {path} failed: {error}", backend.name());
                    exit = ExitCode::FAILURE;
                }
            }
        }
    }
    if let Some(out) = arguments.out {
        std::fs::write(out, serde_json::to_vec_pretty(&report)?)?;
    }
    Ok(exit)
}
