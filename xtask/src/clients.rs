//! The clients that people use, against worlds of `tests/clients`: `cargo xtask test --clients`.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::programs::Counts;
use crate::step::{cargo, output};
use crate::{Result, tools, workspace};

const PAGE: &str = "docs/clients.md";

const HEAD: &str = "# Clients

What the clients that people use make of our answers. `cargo xtask test --clients` writes this page:
it installs their locked versions from [`tests/clients`](../tests/clients), and runs each against a
server with the preset or the receiver, over a wire that loses, delays and repeats.

*ok*: one effect, and the answer that the client's own users need. *known*: it does not hold, for the
reason below. *–*: the case is not one of this client's.

Two presets have no client, `acp` and `acp_delegate_authentication`: the registries have
stateset-acp 1.0.0, which sends no key, and agentic-commerce-protocol 0.2.0, which has types alone.
Clients of MCP call `acp_mcp` and `ucp_mcp`. Shopify's SDK sends no webhooks: only its signature is
run. AdCP and CloudEvents are run with the signature of Standard Webhooks.
";

/// How long all clients may take, without their installation.
const LIMIT: Duration = Duration::from_secs(8 * 60);

/// What a client's case gave.
#[derive(Debug, Default, Deserialize)]
struct Case {
    language: String,
    preset: String,
    client: String,
    version: String,
    case: String,
    result: String,
    why: String,
}

/// Runs all clients that can be had here, or the quarter of them that `draw` picks.
pub(crate) fn run(writes: bool, draw: Option<u64>) -> Result<Counts> {
    let target = workspace::members()?.target_directory.join("idem/clients");
    let target = target.into_std_path_buf();
    let not_run = |language: &str, error: &dyn std::fmt::Display| {
        format!("{language}'s clients are not run: {error}").replace('\n', " ")
    };
    let python = target.join("python");
    let requirements = Path::new("tests/clients/python/requirements.txt");
    let mut missing = Vec::new();
    if let Err(error) = tools::venv(&python, requirements) {
        // Their script makes the calls of the others, too.
        missing.push(not_run("Python", &error));
        missing.push(not_run("Node", &"Python's are not"));
        return Ok(counted(&[], &missing));
    }
    let node = target.join("node");
    let node = tools::node_modules(&node, Path::new("tests/clients/node")).map(|()| node);
    let mut command = Command::new(python.join("bin/python"));
    match node {
        Ok(folder) => drop(command.env("IDEM_NODE_MODULES", folder)),
        Err(error) => missing.push(not_run("Node", &error)),
    }
    let mut server = serve()?;
    let mut port = String::new();
    let lines = server.0.stdout.take().ok_or("the server has no output")?;
    BufReader::new(lines).read_line(&mut port)?;
    command.env("PYTHONPYCACHEPREFIX", target.join("pycache"));
    command.env_remove("PYTHONDONTWRITEBYTECODE");
    command.env_remove("IDEM_DRAW");
    command.envs(draw.map(|draw| ("IDEM_DRAW", draw.to_string())));
    command.args(["tests/clients/python/run.py", port.trim()]);
    let log = target.join("cases.jsonl");
    let ended = until(command.stdout(File::create(&log)?).spawn()?);
    let text = fs::read_to_string(&log)?;
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines() {
        cases.push(serde_json::from_str(line).map_err(|error| format!("{line}: {error}"))?);
    }
    if let Err(error) = ended {
        cases.push(Case {
            client: "run.py".to_owned(),
            result: "failed".to_owned(),
            why: error.to_string(),
            ..Case::default()
        });
    } else if writes {
        fs::write(PAGE, format!("{HEAD}\n{}", table(&cases, &missing)))?;
    }
    Ok(counted(&cases, &missing))
}

/// A process that ends with this value.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn serve() -> Result<Served> {
    output(&mut cargo("build --quiet --package idem-clients"))?;
    let program = workspace::members()?
        .target_directory
        .join("debug/idem-clients");
    let mut server = Command::new(program);
    server.stdin(Stdio::piped()).stdout(Stdio::piped());
    Ok(Served(server.spawn()?))
}

/// Waits until the process ends; ends it at the limit.
fn until(child: Child) -> Result {
    let (mut child, begun) = (Served(child), Instant::now());
    while begun.elapsed() < LIMIT {
        if let Some(status) = child.0.try_wait()? {
            return match status.success() {
                true => Ok(()),
                false => Err(format!("ended with {status}").into()),
            };
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Err(format!("not ended after {} s", LIMIT.as_secs()).into())
}

/// Counts the cases. One that is not run is ignored, never passed.
fn counted(cases: &[Case], missing: &[String]) -> Counts {
    missing.iter().for_each(|line| println!("    {line}"));
    let of = |result: &str| cases.iter().filter(|case| case.result == result).count();
    let failed = cases
        .iter()
        .filter(|case| !["ok", "known"].contains(&case.result.as_str()));
    let failed = failed.map(|case| {
        let Case {
            language,
            client,
            preset,
            case,
            why,
            ..
        } = case;
        format!("{preset}, {client} ({language}), {case}: {why}")
    });
    Counts {
        passed: u64::try_from(of("ok")).unwrap_or(u64::MAX),
        ignored: u64::try_from(of("known") + missing.len()).unwrap_or(u64::MAX),
        failed: failed.collect(),
    }
}

fn table(cases: &[Case], missing: &[String]) -> String {
    let mut names: Vec<&str> = cases.iter().map(|case| case.case.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let client = |case: &Case| {
        let Case {
            language,
            preset,
            client,
            version,
            ..
        } = case;
        format!("| `{preset}` | {client} {version}, {language} |")
    };
    let mut rows: Vec<_> = cases.iter().map(client).collect();
    rows.sort_unstable();
    rows.dedup();
    let mut text = format!("| preset | client | {} |\n| --- | --- |", names.join(" | "));
    text.push_str(&" --- |".repeat(names.len()));
    let mut notes = Vec::new();
    for row in rows {
        text.push_str(&format!("\n{row}"));
        for name in &names {
            let case = cases
                .iter()
                .find(|case| client(case) == row && case.case == *name);
            let mut cell = case.map_or("–", |case| case.result.as_str()).to_owned();
            if let Some(why) = case
                .map(|case| case.why.as_str())
                .filter(|why| !why.is_empty())
            {
                let known = notes.iter().position(|note| *note == why);
                let number = known.unwrap_or(notes.len()) + 1;
                notes.extend(known.is_none().then_some(why));
                cell.push_str(&format!(" ({number})"));
            }
            text.push_str(&format!(" {cell} |"));
        }
    }
    text.push('\n');
    for (number, note) in (1..).zip(notes) {
        text.push_str(&format!("\n{number}. {note}"));
    }
    for line in missing {
        text.push_str(&format!("\n\n{line}"));
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_run_is_not_passed_and_what_is_known_says_why() {
        let case = |client: &str, case: &str, result: &str, why: &str| Case {
            preset: "stripe".to_owned(),
            client: client.to_owned(),
            case: case.to_owned(),
            result: result.to_owned(),
            why: why.to_owned(),
            ..Case::default()
        };
        let cases = [
            case("a", "repeat", "ok", ""),
            case("a", "late", "known", "it sleeps"),
            case("b", "late", "failed", "no"),
        ];
        let missing = ["Node's clients are not run: no npm".to_owned()];
        let counts = counted(&cases, &missing);
        assert_eq!((counts.passed, counts.ignored), (1, 2));
        assert_eq!(counts.failed, ["stripe, b (), late: no"]);
        let table = table(&cases, &missing);
        assert!(
            table.contains("| `stripe` | a ,  | known (1) | ok |"),
            "{table}"
        );
        assert!(
            table.contains("| `stripe` | b ,  | failed (2) | – |"),
            "{table}"
        );
        assert!(table.contains("1. it sleeps") && table.contains(&missing[0]));
    }
}
