//! Drives the programs that show one pattern each, on the embedded store and on every available
//! server.

#[path = "../storm/tests/support/mod.rs"]
mod support;

use std::process::ExitCode;

use libtest_mimic::Trial;

use support::{Ran, on_servers, on_stores, run, trials};

const ACCOUNT_CHANGE: &str = env!("CARGO_BIN_EXE_account_change");
const DYNAMODB: &str = env!("CARGO_BIN_EXE_dynamodb");
const GHOST_JOBS: &str = env!("CARGO_BIN_EXE_ghost_jobs");
const JOBS: &str = env!("CARGO_BIN_EXE_jobs");
const PAYMENTS: &str = env!("CARGO_BIN_EXE_payments");
const PAYMENTS_AXUM: &str = env!("CARGO_BIN_EXE_payments_axum");
const PAYMENTS_DIESEL_ASYNC: &str = env!("CARGO_BIN_EXE_payments_diesel_async");
const PAYMENTS_MYSQL_ASYNC: &str = env!("CARGO_BIN_EXE_payments_mysql_async");
const PAYMENTS_RUSQLITE: &str = env!("CARGO_BIN_EXE_payments_rusqlite");
const PAYMENTS_SEA_ORM: &str = env!("CARGO_BIN_EXE_payments_sea_orm");
const PAYMENTS_TOKIO_POSTGRES: &str = env!("CARGO_BIN_EXE_payments_tokio_postgres");
const QUEUE: &str = env!("CARGO_BIN_EXE_queue");
const SAGA: &str = env!("CARGO_BIN_EXE_saga");
const SINGLE_TABLE: &str = env!("CARGO_BIN_EXE_single_table");
const WEBHOOK: &str = env!("CARGO_BIN_EXE_webhook");

fn main() -> ExitCode {
    let mut all = trials![
        payments,
        payments_on_axum,
        payments_on_rusqlite,
        payments_on_sea_orm,
        ghost_jobs,
        saga,
        account_change,
        single_table,
        every_mail_is_sent_once_by_whichever_worker,
        without_the_layer_mails_are_sent_again,
        every_event_of_the_file_has_one_effect_or_is_refused,
        one_delivery_at_a_time_is_as_good,
        a_receiver_that_forgets_is_found_out,
        a_missing_file_is_explained,
        a_missing_broker_is_explained,
        a_store_that_cannot_be_used_is_explained,
    ];
    all.extend(on_stores("patterns", on_a_store));
    all.extend(on_stores("payments", payments_on_a_store));
    all.extend(on_stores("single_table", single_table_on_postgres).take(1));
    let driver = |name: &str, server, program: &'static str| {
        on_servers(name.to_owned(), &[server], move |urls| {
            run(program, &[&*urls[0]]).ended(0, &[PAID_ONCE]);
        })
    };
    all.extend([
        driver(
            "payments_on_diesel_async",
            "postgres",
            PAYMENTS_DIESEL_ASYNC,
        ),
        driver(
            "payments_on_tokio_postgres",
            "postgres",
            PAYMENTS_TOKIO_POSTGRES,
        ),
        driver("payments_on_mysql_async", "mariadb", PAYMENTS_MYSQL_ASYNC),
    ]);
    all.extend([
        on_nats("every_order_is_shipped_once", every_order_is_shipped_once),
        on_nats("a_run_without_kills_is_as_good", a_run_without_kills),
        on_nats("without_a_broker_one_is_started", without_a_broker),
        on_nats("consumers_that_claim_nothing_are_found_out", no_claims),
    ]);
    all.push(on_servers(
        "payments_on_dynamodb".to_owned(),
        &["dynamodb"],
        |urls| {
            run(DYNAMODB, &["--endpoint", &*urls[0]]).ended(0, &[PAID_ONCE]);
        },
    ));
    support::main(all)
}

fn on_nats(name: &str, case: fn(&str)) -> Trial {
    on_servers(name.to_owned(), &["nats"], move |urls| case(&urls[0]))
}

fn on_a_store(store: &str, product: &str) {
    let store = ["--store", store];
    run(GHOST_JOBS, &store).ended(0, &[product, "built"]);
    for program in [ACCOUNT_CHANGE, SAGA, JOBS] {
        run(program, &store).ended(0, &[product]);
    }
    run(WEBHOOK, &store).ended(0, &[product, "Every event had one effect"]);
}

/// A few are enough on each store: the points of the kills are a matter of chance.
fn payments_on_a_store(store: &str, product: &str) {
    let few = ["--store", store, "--payments=60", "--kills=3"];
    run(PAYMENTS, &few).ended(0, &[product, "Everybody was charged exactly once."]);
}

fn single_table_on_postgres(store: &str, _: &str) {
    let once = "Every order was placed exactly once.";
    run(SINGLE_TABLE, &["--store", store]).ended(0, &[once]);
}

/// Checks that the file in `output`, which the README links to, shows the program's output.
#[track_caller]
fn is_shown(file: &str, output: &str) {
    for line in output.lines() {
        assert!(file.contains(line), "not in the file: {line}");
    }
}

fn payments() {
    let ran = run(PAYMENTS, &[]);
    ran.ended(0, &[]);
    let number = |label| ran.number(label, "");
    let output = &ran.stdout;
    assert_eq!((number("charges"), number("payments")), (200, 200));
    assert_eq!(number("reuse"), 422, "{output}");
    assert!(number("kills") > 0 && number("replays") > 0, "{output}");
}

/// What the handler of each driver prints in the end.
const PAID_ONCE: &str = "Every payment was made exactly once.";

fn payments_on_axum() {
    run(PAYMENTS_AXUM, &[]).ended(0, &[PAID_ONCE]);
}

fn payments_on_rusqlite() {
    run(PAYMENTS_RUSQLITE, &[]).ended(0, &[PAID_ONCE]);
}

fn payments_on_sea_orm() {
    run(PAYMENTS_SEA_ORM, &[]).ended(0, &[PAID_ONCE]);
}

fn ghost_jobs() {
    let ran = run(GHOST_JOBS, &[]);
    ran.ended(
        0,
        &[
            "\"my café\"                 duplicate of job 1, waiting",
            "click   64 at once                1 job\n",
            "Every requested build was made exactly once.",
        ],
    );
    // Any tab of the storm may win.
    let end = ran.stdout.find("worker  job storm").unwrap();
    is_shown(include_str!("output/ghost_jobs.txt"), &ran.stdout[..end]);
}

fn saga() {
    let ran = run(SAGA, &[]);
    let Ran { stdout, .. } = ran.ended(0, &["Every step was done exactly once."]);
    assert_eq!(stdout.matches("killed").count(), 1, "{stdout}");
    let points = [":before", ":after"].map(|point| stdout.matches(point).count());
    assert_eq!(points, [7, 7]);
    is_shown(include_str!("output/saga.txt"), stdout);
}

fn account_change() {
    let ran = run(ACCOUNT_CHANGE, &[]);
    let Ran { stdout, .. } = ran.ended(0, &[]);
    assert_eq!(stdout.matches("1 account(s)").count(), 6, "{stdout}");
    is_shown(include_str!("output/account_change.txt"), stdout);
    run(ACCOUNT_CHANGE, &["--sabotage"]).ended(1, &["2 account(s)"]);
}

fn single_table() {
    for orders in ["100", "1"] {
        let once = "Every order was placed exactly once.";
        run(SINGLE_TABLE, &["--orders", orders, "--seed", "7"]).ended(0, &[once]);
    }
}

fn every_mail_is_sent_once_by_whichever_worker() {
    for seed in ["1", "2"] {
        let ran = run(JOBS, &["--seed", seed, "--mails=80"]);
        ran.ended(0, &["Every mail was sent exactly once"]);
        let number = |label| ran.number(label, "");
        let output = &ran.stdout;
        assert_eq!(number("mails"), 80);
        assert!(number("pushed") > 80, "{output}");
        assert!(number("failed") > 0, "{output}");
        assert_eq!(number("sent") + number("failed"), 80);
        assert!(number("begun") > 80, "some are tried again: {output}");
    }
}

fn without_the_layer_mails_are_sent_again() {
    let ran = run(JOBS, &["--seed=1", "--mails=40", "--sabotage"]);
    ran.ended(1, &["was sent 2 times"]);
}

fn every_event_of_the_file_has_one_effect_or_is_refused() {
    for seed in ["1", "2"] {
        let ran = run(WEBHOOK, &["--seed", seed]);
        let output = &ran.stdout;
        ran.ended(0, &["187 events", "Every event had one effect"]);
        let effects = ran.number("effects", "");
        let heard = ran.number("200", "  handled");
        let unheard = ran.number("hung up", "sent again");
        assert!(heard <= effects && heard + unheard >= effects, "{output}");
        assert!((100..187).contains(&effects), "some are refused: {output}");
        assert!(ran.number("deliveries", "shuffled") > 187, "{output}");
        for (status, remark) in [
            ("401", "the signature is wrong"),
            ("200", "not handled"),
            ("200", "handled before"),
        ] {
            assert!(ran.number(status, remark) > 0, "{output}");
        }
    }
}

fn one_delivery_at_a_time_is_as_good() {
    run(WEBHOOK, &["--seed=3", "--concurrency=1"]).ended(0, &[]);
}

fn a_receiver_that_forgets_is_found_out() {
    run(WEBHOOK, &["--seed=1", "--sabotage"]).ended(1, &["had 2 effects"]);
}

fn a_missing_file_is_explained() {
    run(WEBHOOK, &["--input", "/no/such/file"]).is_stopped(&["/no/such/file"]);
}

fn every_order_is_shipped_once(broker: &str) {
    let ran = run(QUEUE, &["--broker", broker, "--orders=100", "--kills=6"]);
    let shipped = "Every order was shipped exactly once";
    ran.ended(0, &[shipped, "recorded as idem.poison"]);
    let number = |label| ran.number(label, "");
    let output = &ran.stdout;
    assert_eq!(number("killed"), 6, "{output}");
    assert!(number("died") > 0, "{output}");
    assert!(number("taken over") > 0, "{output}");
    assert_eq!(number("shipped") + number("failed"), 100, "{output}");
}

fn a_run_without_kills(broker: &str) {
    run(QUEUE, &["--broker", broker, "--orders=20", "--kills=0"]).ended(0, &[]);
}

fn without_a_broker(_: &str) {
    run(QUEUE, &["--orders=20", "--kills=1"]).ended(0, &["NATS JetStream"]);
}

fn no_claims(broker: &str) {
    let ran = run(QUEUE, &["--broker", broker, "--orders=60", "--sabotage"]);
    ran.ended(1, &["shipped 2 times"]);
}

fn a_missing_broker_is_explained() {
    let ran = run(QUEUE, &["--broker", "nats://127.0.0.1:1"]);
    ran.is_stopped(&["cargo xtask servers up nats"]);
}

fn a_store_that_cannot_be_used_is_explained() {
    let oracle = ["--store", "oracle://localhost"];
    for program in [ACCOUNT_CHANGE, GHOST_JOBS, JOBS, PAYMENTS, SAGA, WEBHOOK] {
        run(program, &oracle).is_stopped(&["`oracle` is no store"]);
    }
    run(SINGLE_TABLE, &oracle).is_stopped(&["--store: sqlite:PATH is needed, or postgres://"]);
}
