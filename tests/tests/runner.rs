//! A backend's test program: its list, ignored cases, failures and reports. This program starts
//! itself as such a test program, with one backend that exists and one whose server is missing.

use std::process::{Command, ExitCode, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use idem_conformance::mutants::{Bug, MutantHarness};
use idem_conformance::{Case, CaseError, CaseFuture, Context, Missing, Target, cases};
use libtest_mimic::{Arguments, Failed, Trial};

const FIXTURE: &str = "IDEM_RUNNER_FIXTURE";

fn fixture() -> ExitCode {
    let there = Target::new("mutant", async || Ok(MutantHarness::new(Bug::None)));
    let there = there.with_cases(OWN);
    let missing = async || Err::<MutantHarness, _>(Missing::new("no server: build one"));
    idem_conformance::main(vec![there, Target::new("absent", missing)])
}

const fn own(name: &'static str, run: for<'a> fn(&'a Context) -> CaseFuture<'a>) -> Case {
    Case {
        law: 99,
        name,
        needs: &[],
        expensive: true,
        run,
    }
}

/// Cases that end otherwise when they run again, except the last one.
const OWN: &[Case] = &[
    own("slow_beside_others", |_| {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        Box::pin(async {
            match RUNS.fetch_add(1, Ordering::SeqCst) {
                0 => std::future::pending().await,
                _ => Ok(()),
            }
        })
    }),
    own("violates_a_law_once", |_| {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        Box::pin(async {
            match RUNS.fetch_add(1, Ordering::SeqCst) {
                0 => Err(CaseError::new("two winners")),
                _ => Ok(()),
            }
        })
    }),
    own("violates_a_law_when_alone", |_| {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        Box::pin(async {
            match RUNS.fetch_add(1, Ordering::SeqCst) {
                0 => std::future::pending().await,
                _ => Err(CaseError::new("no winner")),
            }
        })
    }),
    own("refused_by_the_server", |_| {
        Box::pin(async { Err(CaseError::not_run("the user may not GRANT")) })
    }),
    own("hangs", |_| Box::pin(std::future::pending())),
];

type Test = fn() -> Result<(), Failed>;

struct Run {
    text: String,
    success: bool,
}

/// Runs the fixture with these arguments and variables, and returns its output.
fn run(arguments: &[&str], variables: &[(&str, &str)]) -> Result<Run, Failed> {
    let mut command = Command::new(std::env::current_exe()?);
    for name in [
        "IDEM_BACKENDS",
        "IDEM_REQUIRE",
        "IDEM_REPORT_DIR",
        "IDEM_SEED",
        "IDEM_DRAW",
        "IDEM_DRAWN",
        "IDEM_DEADLINE",
        "NEXTEST",
    ] {
        command.env_remove(name);
    }
    let variables = variables.iter().copied().chain([(FIXTURE, "1")]);
    let Output {
        status,
        stdout,
        stderr,
    } = command.args(arguments).envs(variables).output()?;
    let text = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let (text, success) = (text.concat(), status.success());
    Ok(Run { text, success })
}

fn ensure(condition: bool, run: &Run) -> Result<(), Failed> {
    if condition {
        Ok(())
    } else {
        Err(run.text.clone().into())
    }
}

fn a_missing_server_is_ignored_and_says_why() -> Result<(), Failed> {
    let run = run(&["law07"], &[])?;
    ensure(run.success && run.text.contains("0 failed"), &run)?;
    ensure(
        run.text
            .matches("absent: ignored, no server: build one")
            .count()
            == 1,
        &run,
    )?;
    ensure(
        !run.text
            .contains("absent::law07::a_released_key_has_no_record ... ok"),
        &run,
    )
}

fn a_missing_server_that_is_required_fails() -> Result<(), Failed> {
    for required in ["mutant, absent", "mutant, abs*", "*"] {
        let run = run(&["absent"], &[("IDEM_REQUIRE", required)])?;
        ensure(!run.success && run.text.contains("1 failed"), &run)?;
        ensure(run.text.contains("absent::server_is_available"), &run)?;
    }
    let run = run(&["absent"], &[("IDEM_REQUIRE", "absent-*, bsent*")])?;
    ensure(run.success, &run)
}

fn what_is_not_promised_is_ignored() -> Result<(), Failed> {
    let run = run(&["mutant::law12"], &[])?;
    ensure(
        run.success
            && run
                .text
                .contains("ignored (not promised: shared between processes)"),
        &run,
    )
}

fn nextest_is_told_what_is_ignored() -> Result<(), Failed> {
    let all = run(&["--list", "--format", "terse"], &[("NEXTEST", "1")])?;
    let lines = |run: &Run| {
        run.text
            .lines()
            .filter(|line| line.ends_with(": test"))
            .count()
    };
    ensure(lines(&all) == 2 * cases().count() + OWN.len(), &all)?;
    let ignored = run(
        &["--list", "--format", "terse", "--ignored"],
        &[("NEXTEST", "1")],
    )?;
    ensure(
        lines(&ignored) > cases().count() && lines(&ignored) < lines(&all),
        &ignored,
    )?;
    let one = [
        "--exact",
        "absent::law07::a_released_key_has_no_record",
        "--ignored",
    ];
    let one = run(&one, &[("NEXTEST", "1")])?;
    ensure(!one.success, &one)
}

/// Runs the cases with this name, and returns the reports of both backends.
fn reports(case: &str, variables: &[(&str, &str)]) -> Result<[String; 2], Failed> {
    let folder = std::env::temp_dir().join(format!("idem-report-{}-{case}", std::process::id()));
    let path = folder.to_string_lossy().into_owned();
    let variables = [variables, &[("IDEM_REPORT_DIR", &path)]].concat();
    run(&[case], &variables)?;
    let [there, absent] = ["mutant", "absent"]
        .map(|name| std::fs::read_to_string(folder.join(name).with_extension("json")));
    std::fs::remove_dir_all(folder)?;
    Ok([there?, absent?])
}

fn a_run_leaves_its_counts_and_failures() -> Result<(), Failed> {
    let contains = |report: &str, text: &str| {
        let message = format!("`{text}` is not in {report}");
        report.contains(text).then_some(()).ok_or(message)
    };
    let [there, absent] = reports("a_released_key_is_free", &[])?;
    contains(&there, r#""backend":"mutant","product":"None""#)?;
    contains(
        &there,
        r#""passed":2,"ignored":0,"failed":0,"missing":null,"failures":[]"#,
    )?;
    let passed = r#"["law07::a_released_key_is_free_at_once","law07::a_released_key_is_free_for_another_request"]"#;
    contains(
        &there,
        &format!(r#""passed_cases":{passed},"slow":[],"seconds":{{"law07::a_rel"#),
    )?;
    let missing = r#""failed":0,"missing":"no server: build one","failures":[]"#;
    contains(&absent, missing)?;
    let [_, absent] = reports("server_is_available", &[("IDEM_REQUIRE", "absent")])?;
    let failure = r#"{"case":"server_is_available","message":"no server: build one"}"#;
    contains(&absent, r#""failed":1"#)?;
    contains(&absent, &format!(r#""failures":[{failure}]"#))?;
    Ok(())
}

fn only_a_case_that_did_not_finish_is_tried_again() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().to_string_lossy();
    let deadline = ("IDEM_DEADLINE", "1");
    let run = run(&["law99"], &[deadline, ("IDEM_REPORT_DIR", &path)])?;
    ensure(
        !run.success && run.text.contains("1 passed; 3 failed"),
        &run,
    )?;
    for part in [
        "slow_beside_others: slow, and passed alone: did not finish within 1s",
        "ignored (the user may not GRANT)",
        "two winners",
        "no winner",
    ] {
        ensure(run.text.contains(part), &run)?;
    }
    let report = std::fs::read_to_string(folder.path().join("mutant.json"))?;
    let slow = r#""slow":["law99::slow_beside_others"]"#;
    let counts = r#""passed":1,"ignored":1,"failed":3"#;
    let is_right = [slow, counts].iter().all(|part| report.contains(part));
    is_right.then_some(()).ok_or_else(|| report.into())
}

fn a_draw_leaves_out_expensive_cases_of_its_targets_only() -> Result<(), Failed> {
    let listed = |drawn: &[(&str, &str)]| -> Result<Vec<usize>, Failed> {
        let variables = [drawn, &[("NEXTEST", "1")]].concat();
        let ignored = run(
            &["mutant::law99", "--list", "--format", "terse", "--ignored"],
            &variables,
        )?;
        let is_ignored = |case: &Case| ignored.text.contains(case.name);
        Ok((0..OWN.len()).filter(|at| is_ignored(&OWN[*at])).collect())
    };
    let mut drawn = vec![0; OWN.len()];
    for seed in ["5", "6"] {
        let ignored = listed(&[("IDEM_DRAW", seed), ("IDEM_DRAWN", "abs*,mut*")])?;
        let is_drawn = |at: &usize| !ignored.contains(at);
        (0..OWN.len())
            .filter(is_drawn)
            .for_each(|at| drawn[at] += 1);
    }
    let all: Vec<_> = listed(&[("IDEM_DRAW", "5"), ("IDEM_DRAWN", "absent")])?;
    if drawn != [1; 5] || !all.is_empty() {
        return Err(format!("drawn {drawn:?}; not run beside the draw: {all:?}").into());
    }
    let one = run(
        &["mutant::law99"],
        &[
            ("IDEM_DRAW", "6"),
            ("IDEM_DRAWN", "*"),
            ("IDEM_DEADLINE", "1"),
        ],
    )?;
    ensure(one.text.contains("ignored (not drawn by seed 6"), &one)
}

fn only_the_wanted_backends_are_looked_for() -> Result<(), Failed> {
    for (wanted, there, absent) in [
        ("mutant", true, false),
        ("other, abs*", false, true),
        ("absent,mutant", true, true),
    ] {
        let run = run(&["law07::a_released"], &[("IDEM_BACKENDS", wanted)])?;
        ensure(run.success, &run)?;
        ensure(run.text.contains("mutant: None") == there, &run)?;
        ensure(run.text.contains("absent: ignored") == absent, &run)?;
    }
    Ok(())
}

fn a_seed_that_is_no_number_is_refused() -> Result<(), Failed> {
    let run = run(&["law07"], &[("IDEM_SEED", "seven")])?;
    ensure(
        !run.success && run.text.contains("IDEM_SEED is `seven`"),
        &run,
    )
}

fn main() -> ExitCode {
    if std::env::var_os(FIXTURE).is_some() {
        return fixture();
    }
    let trials: [(&str, Test); 9] = [
        (
            "a_missing_server_is_ignored_and_says_why",
            a_missing_server_is_ignored_and_says_why,
        ),
        (
            "a_missing_server_that_is_required_fails",
            a_missing_server_that_is_required_fails,
        ),
        (
            "what_is_not_promised_is_ignored",
            what_is_not_promised_is_ignored,
        ),
        (
            "nextest_is_told_what_is_ignored",
            nextest_is_told_what_is_ignored,
        ),
        (
            "a_run_leaves_its_counts_and_failures",
            a_run_leaves_its_counts_and_failures,
        ),
        (
            "only_the_wanted_backends_are_looked_for",
            only_the_wanted_backends_are_looked_for,
        ),
        (
            "only_a_case_that_did_not_finish_is_tried_again",
            only_a_case_that_did_not_finish_is_tried_again,
        ),
        (
            "a_draw_leaves_out_expensive_cases_of_its_targets_only",
            a_draw_leaves_out_expensive_cases_of_its_targets_only,
        ),
        (
            "a_seed_that_is_no_number_is_refused",
            a_seed_that_is_no_number_is_refused,
        ),
    ];
    let trials = trials.map(|(name, run)| Trial::test(name, run)).into();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
