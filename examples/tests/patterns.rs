//! Drives the programs that show one pattern each, on the embedded store and on every available
//! server.

#[path = "support/servers.rs"]
mod servers;

use std::process::{Command, ExitCode, Output};

use libtest_mimic::{Arguments, Trial};

/// Runs a program, and returns its exit status and its output.
fn run(program: &str, arguments: &[&str]) -> (i32, String) {
    let mut command = Command::new(program);
    let Output {
        status,
        stdout,
        stderr,
    } = command.args(arguments).output().unwrap();
    let text = [stdout, stderr].concat();
    (status.code().unwrap(), String::from_utf8(text).unwrap())
}

const GHOST_JOBS: &str = env!("CARGO_BIN_EXE_ghost_jobs");
const SAGA: &str = env!("CARGO_BIN_EXE_saga");
const ACCOUNT_CHANGE: &str = env!("CARGO_BIN_EXE_account_change");
const PAYMENTS: &str = env!("CARGO_BIN_EXE_payments");
const JOBS: &str = env!("CARGO_BIN_EXE_jobs");
const WEBHOOK: &str = env!("CARGO_BIN_EXE_webhook");
const SINGLE_TABLE: &str = env!("CARGO_BIN_EXE_single_table");

/// Checks that the program succeeds and prints all of this.
#[track_caller]
fn says(program: &str, arguments: &[&str], lines: &[&str]) {
    let (status, output) = run(program, arguments);
    assert_eq!(status, 0, "{output}");
    for line in lines {
        assert!(output.contains(line), "no `{line}`:\n{output}");
    }
}

fn on_a_store(store: &str, product: &str) {
    let store = ["--store", store];
    says(GHOST_JOBS, &store, &[product, "built"]);
    says(ACCOUNT_CHANGE, &store, &[product]);
    says(SAGA, &store, &[product]);
    says(JOBS, &store, &[product]);
    says(WEBHOOK, &store, &[product, "Every event had one effect"]);
}

/// Checks that the file in `output`, which the README links to, shows the program's output.
#[track_caller]
fn is_shown(file: &str, lines: &str) {
    for line in lines.lines() {
        assert!(file.contains(line), "not in the file: {line}");
    }
}

/// A few are enough on each store: the points of the kills are a matter of chance.
fn payments_on_a_store(store: &str, product: &str) {
    let few = ["--store", store, "--payments=60", "--kills=3"];
    says(
        PAYMENTS,
        &few,
        &[product, "Everybody was charged exactly once."],
    );
}

fn payments() {
    let (status, output) = run(PAYMENTS, &[]);
    assert_eq!(status, 0, "{output}");
    let number = |label: &str| {
        let line = output
            .lines()
            .find(|line| line.trim_start().starts_with(label));
        let number = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u32>().ok());
        number.unwrap_or_else(|| panic!("no {label}:\n{output}"))
    };
    assert_eq!(
        (number("charges"), number("payments")),
        (200, 200),
        "{output}"
    );
    assert_eq!(number("reuse"), 400, "{output}");
    assert!(number("kills") > 0 && number("replays") > 0, "{output}");
}

fn ghost_jobs() {
    let (status, output) = run(GHOST_JOBS, &[]);
    assert_eq!(status, 0, "{output}");
    assert!(output.contains("\"my café\"                 duplicate of job 1, waiting"));
    assert!(
        output.contains("click   64 at once                1 job\n"),
        "{output}"
    );
    assert!(output.contains("Every requested build was made exactly once."));
    // Any tab of the storm may win.
    is_shown(
        include_str!("output/ghost_jobs.txt"),
        &output[..output.find("worker  job storm").unwrap()],
    );
}

fn saga() {
    let (status, output) = run(SAGA, &[]);
    assert_eq!(status, 0, "{output}");
    assert_eq!(output.matches("killed").count(), 1, "{output}");
    assert_eq!(
        output.matches(":before").count() + output.matches(":after").count(),
        14
    );
    assert!(output.contains("Every step was done exactly once."));
    is_shown(include_str!("output/saga.txt"), &output);
}

fn account_change() {
    let (status, output) = run(ACCOUNT_CHANGE, &[]);
    assert_eq!(status, 0, "{output}");
    assert_eq!(output.matches("1 account(s)").count(), 6, "{output}");
    is_shown(include_str!("output/account_change.txt"), &output);
    let (status, output) = run(ACCOUNT_CHANGE, &["--sabotage"]);
    assert_eq!(status, 1, "the sabotage is not found out:\n{output}");
    assert!(output.contains("2 account(s)"), "{output}");
}

fn single_table() {
    for orders in ["100", "1"] {
        let arguments = ["--orders", orders, "--seed", "7"];
        says(
            SINGLE_TABLE,
            &arguments,
            &["Every order was placed exactly once."],
        );
    }
}

fn single_table_on_postgres(store: &str, product: &str) {
    if product == "PostgreSQL " {
        says(
            SINGLE_TABLE,
            &["--store", store],
            &["Every order was placed exactly once."],
        );
    }
}

fn a_store_that_cannot_be_used_is_explained() {
    for program in [PAYMENTS, GHOST_JOBS, SAGA, ACCOUNT_CHANGE, SINGLE_TABLE] {
        let (status, output) = run(program, &["--store", "oracle://localhost"]);
        assert_eq!(status, 2, "{output}");
        assert!(
            output.contains("--store") || output.contains("oracle"),
            "{output}"
        );
    }
}

fn main() -> ExitCode {
    let cases: [(&str, fn()); 6] = [
        ("payments", payments),
        ("ghost_jobs", ghost_jobs),
        ("saga", saga),
        ("account_change", account_change),
        ("single_table", single_table),
        (
            "a_store_that_cannot_be_used_is_explained",
            a_store_that_cannot_be_used_is_explained,
        ),
    ];
    let trial = |(name, case): (&str, fn())| {
        Trial::test(name, move || {
            case();
            Ok(())
        })
    };
    let mut trials: Vec<Trial> = cases.into_iter().map(trial).collect();
    trials.extend(servers::trials("patterns", on_a_store));
    trials.extend(servers::trials("payments", payments_on_a_store));
    trials.extend(servers::trials("single_table", single_table_on_postgres).take(1));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
