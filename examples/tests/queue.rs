//! Drives the real program: consumers on NATS JetStream that are killed while they work.

use std::process::{Command, ExitCode, Output};

use libtest_mimic::{Arguments, Failed, Trial};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = vec![
        on_nats("every_order_is_shipped_once", every_order_is_shipped_once),
        on_nats(
            "a_run_without_kills_is_as_good",
            a_run_without_kills_is_as_good,
        ),
        on_nats(
            "without_a_broker_one_is_started",
            without_a_broker_one_is_started,
        ),
        on_nats(
            "consumers_that_claim_nothing_are_found_out",
            consumers_that_claim_nothing_are_found_out,
        ),
        Trial::test("a_missing_broker_is_explained", || {
            a_missing_broker_is_explained();
            Ok(())
        }),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Visibly ignored without a server; failed where a server is required.
fn on_nats(name: &'static str, case: fn(&str)) -> Trial {
    let url = idem_servers::url_for("nats");
    let missing = || idem_servers::missing_reason("nats");
    let required = std::env::var("IDEM_REQUIRE").is_ok_and(|names| {
        let mut names = names.split(',').map(str::trim);
        names.any(|required| matches!(required, "nats" | "all"))
    });
    if url.is_none() {
        eprintln!("{name} is not run: {}", missing());
    }
    let ignored = url.is_none() && !required;
    let trial = Trial::test(name, move || {
        case(&url.ok_or_else(|| Failed::from(missing()))?);
        Ok(())
    });
    trial.with_ignored_flag(ignored)
}

fn queue(arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_queue"));
    command.env_remove("IDEM_NATS_URL");
    let Output {
        status,
        stdout,
        stderr,
    } = command.args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// Returns the sum of the numbers in the rows with this label.
fn number(output: &str, label: &str) -> u64 {
    let rows = output
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix(label));
    let numbers = rows.filter_map(|row| {
        row.split_whitespace()
            .next()?
            .replace(',', "")
            .parse::<u64>()
            .ok()
    });
    numbers.sum()
}

fn every_order_is_shipped_once(broker: &str) {
    let (status, output, errors) = queue(&["--broker", broker, "--orders=100", "--kills=6"]);
    assert_eq!(status, 0, "{output}{errors}");
    assert!(
        output.contains("Every order was shipped exactly once"),
        "{output}"
    );
    assert_eq!(number(&output, "killed"), 6, "{output}");
    assert!(number(&output, "died") > 0, "{output}");
    assert!(number(&output, "taken over") > 0, "{output}");
    assert_eq!(
        number(&output, "shipped") + number(&output, "failed"),
        100,
        "{output}"
    );
    assert!(output.contains("recorded as idem.poison"), "{output}");
}

fn a_run_without_kills_is_as_good(broker: &str) {
    let (status, output, errors) = queue(&["--broker", broker, "--orders=20", "--kills=0"]);
    assert_eq!(status, 0, "{output}{errors}");
}

fn without_a_broker_one_is_started(_: &str) {
    let (status, output, errors) = queue(&["--orders=20", "--kills=1"]);
    assert_eq!(status, 0, "{output}{errors}");
    assert!(output.contains("NATS JetStream"), "{output}");
}

fn consumers_that_claim_nothing_are_found_out(broker: &str) {
    let (status, output, errors) = queue(&["--broker", broker, "--orders=60", "--sabotage"]);
    assert_eq!(status, 1, "{output}{errors}");
    assert!(output.contains("shipped 2 times"), "{output}");
}

fn a_missing_broker_is_explained() {
    let (status, output, errors) = queue(&["--broker", "nats://127.0.0.1:1"]);
    assert_eq!((status, output.as_str()), (2, ""), "{errors}");
    assert!(errors.contains("cargo xtask servers up nats"), "{errors}");
}
