//! An independent parser, sqlglot, accepts every statement as T-SQL. `cargo xtask test` makes the
//! virtual environment for it.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use libtest_mimic::{Arguments, Failed, Trial};

// The crate's statements are not public, so the tests compile them again.
#[allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "the crate and its own tests use the rest"
)]
#[path = "../src/config.rs"]
mod config;
#[allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "the crate and its own tests use the rest"
)]
#[path = "../src/ddl.rs"]
mod ddl;
#[path = "../src/sql.rs"]
mod sql;
#[path = "../src/statements.rs"]
mod statements;

use config::Config;
use statements::{SIZES, Statement, Statements, Wait};

fn main() -> ExitCode {
    let python = python();
    let missing = python.is_none();
    if missing {
        eprintln!(
            "ignored: no Python with sqlglot; `cargo xtask test` sets it up, or set IDEM_SQLGLOT_PYTHON"
        );
    }
    // In CI, a missing parser is a failure.
    let ignored = missing && std::env::var_os("CI").is_none();
    let parsed = Trial::test("every_statement_is_parsed", move || {
        parse(python.as_deref().ok_or("no Python with sqlglot")?)
    });
    let trials = vec![
        parsed.with_ignored_flag(ignored),
        Trial::test("no_placeholder_is_left", no_placeholder_is_left),
        Trial::test("every_statement_ends_with_a_semicolon", ends),
        Trial::test("no_batch_has_too_many_parameters", parameters),
        Trial::test("every_number_has_a_parameter", numbers),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Returns the statements by name.
fn scripts() -> BTreeMap<String, String> {
    let config = Config::new().with_schema("billing").expect("a valid name");
    let statements = Statements::new(&config);
    let mut scripts = BTreeMap::new();
    for (name, statement) in named(&statements) {
        let text = statement.alone(Wait::Shortly).into_owned();
        scripts.insert(format!("{name} alone"), text);
        let text = statement.in_transaction_on_babelfish(Wait::Not);
        scripts.insert(format!("{name} on Babelfish"), text.into_owned());
        let text = statement.in_transaction(Wait::Shortly).into_owned();
        scripts.insert(format!("{name} in a transaction"), text);
    }
    for (name, text) in [
        ("version of a table", sql::VERSION_OF_TABLE),
        ("columns of a table", sql::COLUMNS_OF_TABLE),
        ("index columns of a table", sql::INDEX_COLUMNS_OF_TABLE),
        ("access to a table", sql::ACCESS_TO_TABLE),
    ] {
        let text = text.replace("{version_table}", &config.qualified_version_table());
        scripts.insert(name.to_owned(), text);
    }
    scripts.insert("printed schema".to_owned(), ddl::schema_sql(&config));
    scripts.insert("migration".to_owned(), ddl::create_script(&config));
    scripts
}

fn named(statements: &Statements) -> Vec<(String, &Statement)> {
    let mut named: Vec<_> = [
        ("claim by merge", &statements.claim_by_merge),
        ("claim by rows", &statements.claim_by_rows),
        ("claim by insert", &statements.claim_by_insert),
        ("lookup", &statements.lookup),
        ("lookup at a mark", &statements.lookup_at_mark),
        ("probe", &statements.probe),
        ("abandon", &statements.abandon),
        ("seal", &statements.seal),
        ("owned", &statements.owned),
        ("release", &statements.release),
        ("renew", &statements.renew),
        ("get", &statements.get),
        ("delete_expired", &statements.delete_expired),
        ("fail_abandoned", &statements.fail_abandoned),
        ("checkpoint", &statements.checkpoint),
        ("last checkpoint", &statements.last_checkpoint),
        ("advance", &statements.advance),
        ("watermark", &statements.watermark),
        (
            "delete_expired_watermarks",
            &statements.delete_expired_watermarks,
        ),
        ("server", &statements.server),
        ("babelfish", &statements.babelfish),
    ]
    .map(|(name, statement)| (name.to_owned(), statement))
    .into();
    for (name, batch) in [
        ("claim many by merge", &statements.claim_many_by_merge),
        ("claim many by rows", &statements.claim_many_by_rows),
        ("claim many by insert", &statements.claim_many_by_insert),
        ("finish many", &statements.finish_many),
    ] {
        let sized = SIZES.map(|size| Statements::sized(batch, size));
        named.extend(sized.map(|(statement, size)| (format!("{name} ({size})"), statement)));
    }
    named
}

/// Returns the interpreter that has sqlglot.
fn python() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("IDEM_SQLGLOT_PYTHON") {
        return Some(path.into());
    }
    let program = std::env::current_exe().ok()?;
    let around = program.ancestors();
    around
        .map(|folder| folder.join("idem/venv/bin/python"))
        .find(|python| python.exists())
}

fn parse(python: &Path) -> Result<(), Failed> {
    let mut parser = Command::new(python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/parse.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut input = parser.stdin.take().ok_or("no standard input")?;
    for (name, script) in scripts() {
        // A line with the name, one with the number of lines, and these.
        write!(input, "{name}\n{}\n{script}", script.lines().count())?;
        if !script.ends_with('\n') {
            writeln!(input)?;
        }
    }
    drop(input);
    let output = parser.wait_with_output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned().into())
}

fn no_placeholder_is_left() -> Result<(), Failed> {
    for (name, script) in scripts() {
        if script.contains(['{', '}']) {
            return Err(format!("{name}:\n{script}").into());
        }
    }
    Ok(())
}

fn ends() -> Result<(), Failed> {
    for (name, script) in scripts() {
        if !script.trim_end().ends_with(';') {
            return Err(format!("{name}:\n{script}").into());
        }
    }
    Ok(())
}

/// A batch has its count, and then the parameters of each row.
fn numbers() -> Result<(), Failed> {
    let statements = Statements::new(&Config::new());
    for (name, statement) in named(&statements) {
        let text = statement.alone(Wait::Not);
        let numbers = text.split("@P").skip(1).filter_map(|rest| {
            let digits = rest.find(|c: char| !c.is_ascii_digit());
            rest[..digits.unwrap_or(rest.len())].parse::<usize>().ok()
        });
        let (greatest, parameters) = (numbers.max().unwrap_or(0), statement.parameters.len());
        let fits = greatest == parameters || parameters > 0 && (greatest - 1) % parameters == 0;
        if !fits {
            return Err(format!("{name}: @P{greatest} of {parameters} parameters").into());
        }
    }
    Ok(())
}

fn parameters() -> Result<(), Failed> {
    for (name, script) in scripts() {
        // The statement and the list of the parameters are two more.
        let too_many = tiberius::Query::MAX_PARAMETERS - 1;
        if script.contains(&format!("@P{too_many}")) || !script.is_ascii() {
            return Err(name.into());
        }
    }
    Ok(())
}
