//! An independent parser, sqlglot, accepts every statement as T-SQL. `cargo xtask test` makes the
//! virtual environment for it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
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
        Trial::test("the_locks_of_claims_let_one_in_and_end", locks),
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

/// A lock of the table at [`sql::CLAIM_BY_MERGE`], or of a claim by rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Lock {
    U,
    X,
    RangeSU,
    /// Only tested.
    RangeIN,
    RangeXX,
}

/// A request with claims, key by key, as far as it has come.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Request {
    keys: Vec<u8>,
    by_rows: bool,
    /// Whether it is a transaction that nobody ends.
    stays: bool,
    at: usize,
    /// Whether the key at hand had a row when it was read.
    found: Option<bool>,
    locks: Vec<(u8, Lock)>,
    is_done: bool,
    is_refused: bool,
}

/// Requests on one index, and its rows with the request that has claimed each.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Index {
    requests: Vec<Request>,
    rows: BTreeMap<u8, Option<usize>>,
}

/// The end of the index, and a key whose row has expired.
const END: u8 = u8::MAX;
const EXPIRED: u8 = 5;

impl Index {
    /// Returns the lock that the request asks for next.
    fn asked(&self, who: usize) -> Option<(u8, Lock)> {
        let request = &self.requests[who];
        let key = *request.keys.get(request.at)?;
        let after = self
            .rows
            .range(key + 1..)
            .next()
            .map_or(END, |(key, _)| *key);
        let has_row = self.rows.contains_key(&key);
        Some(match (request.found, request.by_rows, has_row) {
            (None, true, false) => return None,
            (None, true, true) | (Some(false), _, true) => (key, Lock::U),
            (None, false, has_row) => (if has_row { key } else { after }, Lock::RangeSU),
            (Some(true), true, _) => (key, Lock::X),
            (Some(true), false, _) => (key, Lock::RangeXX),
            (Some(false), _, false) => (after, Lock::RangeIN),
        })
    }

    /// Returns the requests that it waits for. Of these locks, only the test of an insert and a lock on
    /// the row alone agree: "Lock compatibility" in
    /// <https://learn.microsoft.com/sql/relational-databases/sql-server-transaction-locking-and-row-versioning-guide>.
    fn waits_for(&self, who: usize) -> Vec<usize> {
        let Some((key, asked)) = self.asked(who) else {
            return Vec::new();
        };
        let agrees = |held: Lock| asked == Lock::RangeIN && matches!(held, Lock::U | Lock::X);
        let stops = |other: &usize| {
            let held = &self.requests[*other].locks;
            *other != who && held.iter().any(|&(on, held)| on == key && !agrees(held))
        };
        (0..self.requests.len()).filter(stops).collect()
    }

    fn is_in_circle(&self, who: usize) -> bool {
        let (mut seen, mut next) = (BTreeSet::new(), self.waits_for(who));
        while let Some(other) = next.pop() {
            if !self.requests[other].is_done && seen.insert(other) {
                next.extend(self.waits_for(other));
            }
        }
        seen.contains(&who)
    }

    /// Gets the lock, and does what it is for.
    fn step(mut self, who: usize) -> Self {
        let asked = self.asked(who);
        let request = &mut self.requests[who];
        let Some(&key) = request.keys.get(request.at) else {
            request.is_done = true;
            request.locks.retain(|_| request.stays);
            return self;
        };
        let row = self.rows.get(&key).copied();
        let is_won = match request.found {
            None => {
                request.found = Some(row.is_some());
                request.locks.extend(asked);
                matches!(row, Some(Some(_)))
            }
            Some(false) if row.is_some() => {
                assert!(request.by_rows, "2627 within a range: {self:?}");
                request.found = None;
                false
            }
            Some(had_row) => {
                let held = if had_row { asked } else { Some((key, Lock::X)) };
                request.locks.extend(held);
                self.rows.insert(key, Some(who));
                true
            }
        };
        if is_won {
            (request.at, request.found) = (request.at + 1, None);
        }
        self
    }

    /// Undoes all: 1222 or 1205. A claim that locked ranges is repeated by rows.
    fn refuse(mut self, who: usize) -> Self {
        for (key, winner) in &mut self.rows {
            if *winner == Some(who) && *key == EXPIRED {
                *winner = None;
            }
        }
        self.rows.retain(|_, winner| *winner != Some(who));
        let request = &mut self.requests[who];
        let ends = request.by_rows;
        *request = Request {
            keys: std::mem::take(&mut request.keys),
            by_rows: true,
            is_done: ends,
            is_refused: ends,
            ..Request::default()
        };
        self
    }
}

/// Every order of the steps: one request claims each key, a claim by itself is in no circle, and an
/// open transaction refuses its own key alone.
fn locks() -> Result<(), Failed> {
    let ranges = |keys: &[u8]| Request {
        keys: keys.to_vec(),
        ..Request::default()
    };
    let rows = |keys: &[u8]| Request {
        by_rows: true,
        ..ranges(keys)
    };
    let open = |keys: &[u8]| Request {
        stays: true,
        ..rows(keys)
    };
    for (requests, may_circle) in [
        (
            vec![ranges(&[1]), ranges(&[1]), rows(&[1]), ranges(&[2])],
            false,
        ),
        (
            vec![ranges(&[4]), ranges(&[5]), rows(&[5]), rows(&[4])],
            false,
        ),
        (
            vec![open(&[2]), ranges(&[1]), ranges(&[2]), rows(&[3])],
            false,
        ),
        (
            vec![open(&[5]), ranges(&[4]), ranges(&[5]), ranges(&[6])],
            false,
        ),
        (vec![ranges(&[1, 6]), ranges(&[6, 1])], true),
        (vec![ranges(&[6, 2]), open(&[5, 7])], true),
    ] {
        let start = Index {
            requests,
            rows: [(EXPIRED, None)].into(),
        };
        let (mut seen, mut next) = (HashSet::new(), vec![start.clone()]);
        let mut has_circled = false;
        while let Some(index) = next.pop() {
            if !seen.insert(index.clone()) {
                continue;
            }
            let requests = &index.requests;
            let under_way = (0..requests.len()).filter(|who| !requests[*who].is_done);
            for who in under_way.clone() {
                let holders = index.waits_for(who);
                let is_in_circle = index.is_in_circle(who);
                has_circled |= is_in_circle;
                if holders.is_empty() {
                    next.push(index.clone().step(who));
                } else if is_in_circle || holders.iter().any(|holder| requests[*holder].is_done) {
                    next.push(index.clone().refuse(who));
                }
            }
            // In a circle, the server refuses one again and again.
            if under_way.count() > 0 || may_circle {
                continue;
            }
            for request in requests {
                let is_held = |key| requests.iter().any(|it| it.stays && it.keys.contains(key));
                let is_won = |key| index.rows.get(key).is_some_and(Option::is_some);
                assert!(request.keys.iter().all(is_won), "{index:?}");
                assert!(
                    !request.is_refused || request.keys.iter().all(is_held),
                    "{index:?}"
                );
            }
        }
        assert_eq!(has_circled, may_circle, "{start:?}");
    }
    Ok(())
}
