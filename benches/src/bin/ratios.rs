//! Measures the stores beside the bare statements, in turns, and writes the ratios.
//!
//! `ratios [--backend NAME]… [--path NAME]… [--quick] [--out FILE]`

use std::process::ExitCode;
use std::time::Instant;

use idem_benches::{Extras, PATHS, Plan, Reasons, Report, backends, measure};
use idem_core::BoxError;

/// What was asked for.
struct Arguments {
    backends: Vec<String>,
    paths: Vec<String>,
    plan: Plan,
    out: Option<String>,
}

fn known(what: &str, all: &[&str], name: String) -> Result<String, String> {
    match all.contains(&name.as_str()) {
        true => Ok(name),
        false => Err(format!("no {what} is called {name}: {}", all.join(", "))),
    }
}

fn arguments(mut given: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut arguments = Arguments {
        backends: Vec::new(),
        paths: Vec::new(),
        plan: Plan::full(),
        out: None,
    };
    while let Some(option) = given.next() {
        let value = given_value(&option, &mut given);
        match option.as_str() {
            "--quick" => arguments.plan = Plan::quick(),
            "--backend" => {
                let name = known("backend", &backends::NAMES, value?)?;
                arguments.backends.push(name);
            }
            "--path" => arguments.paths.push(known("path", &PATHS, value?)?),
            "--out" => arguments.out = Some(value?),
            _ => return Err(format!("{option} is not understood")),
        }
    }
    if arguments.backends.is_empty() {
        arguments.backends = backends::NAMES.map(ToOwned::to_owned).into();
    }
    if arguments.paths.is_empty() {
        arguments.paths = PATHS.map(ToOwned::to_owned).into();
    }
    Ok(arguments)
}

/// Taken only where the option takes one.
fn given_value(option: &str, given: &mut impl Iterator<Item = String>) -> Result<String, String> {
    match option {
        "--quick" => Ok(String::new()),
        _ => given
            .next()
            .ok_or_else(|| format!("{option} takes a value")),
    }
}

/// Whether everything that could be measured was.
async fn run(arguments: &Arguments) -> Result<bool, BoxError> {
    let backends = arguments.backends.iter().map(String::as_str);
    let extras = Extras::generators(backends).and_rivals();
    let reasons = Reasons::known()?;
    let mut report = Report::default();
    let mut complete = true;
    let subjects = arguments.backends.iter();
    for subject in subjects.filter_map(|name| backends::subject(name)) {
        for path in &arguments.paths {
            eprint!("{} {path} … ", subject.name());
            let begin = Instant::now();
            let measured = measure(path, &subject, &arguments.plan, &extras).await;
            eprintln!("{:.1} s", begin.elapsed().as_secs_f64());
            match measured {
                Ok(rows) => {
                    let rows = rows.into_iter().map(|row| reasons.explain(row));
                    let rows = rows.inspect(|row| println!("{row}"));
                    report.rows.extend(rows);
                }
                Err(error) => {
                    eprintln!("{} {path} failed: {error}", subject.name());
                    complete = false;
                }
            }
        }
    }
    if let Some(out) = &arguments.out {
        std::fs::write(out, serde_json::to_vec_pretty(&report)?)?;
    }
    Ok(complete)
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = match arguments(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    match run(&arguments).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
