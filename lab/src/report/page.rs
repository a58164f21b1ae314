//! The text of the page.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use idem_core::BoxError;
use serde_json::Value;

use super::{CAUGHT, LEDGER, MODELS, read, sentences};
use crate::campaign::{Counts, Entry, Ledger, Tally, code_of};
use crate::cells::{self, CellSpec, Expects};
use crate::regress::{Caught, Patch};

/// The beginning of the page.
const HEAD: &str = "\
# Proof

What was done to the stores, what their callers saw, and whether the specification of a key explains
it. `cargo xtask prove report` writes this page from the files below `lab/results`, and CI compares
it. [The README of the lab](../lab/README.md) explains how histories are recorded and judged.

A row counts only for the code that it is about: a change of a store's crate voids its rows.
";

/// What nothing here shows.
const NOT_SHOWN: &str = "\
- All servers ran on one machine, with one monotonic clock. Drift between the clocks of a cluster's
  nodes was not tried, except where a row says so.
- A power cut is that of the file system: it shuts down without writing its log, and every process is
  killed. Disks that lie about what they have written were not tried.
- Writes that fail after the kernel has taken them were tried on PostgreSQL only, which writes its log
  to blocks that it has. A program that appends, and writes again after each error, loses on this
  machine's ext4 what was forced with success before and after: nothing would be shown about a store.
- The MongoDB-compatible server is secantusd, not `mongod`: nothing here is about `mongod`, and no
  elections ran.
- That server comes to a stand under more than some ten callers, so it left fewer calls without an
  answer than the others.
- SQL Server was not run.
- Batches, watermarks and forced steps are not recorded: the suite's cases try them.
";

/// Returns the text of the page.
pub(super) fn page(root: &Path) -> Result<String, BoxError> {
    let cells = cells::all();
    let ledger = Ledger::read(&root.join(LEDGER))?;
    let entries = current(root, &cells, &ledger)?;
    let mut text = HEAD.to_owned();
    text += "\n## Track record\n\n";
    text += &track_record(root)?;
    text += "\n## What ran\n\n";
    text += &what_ran(&cells, &ledger, &entries)?;
    text += "\n## By product\n\n";
    text += &by_product(&cells, &entries)?;
    text += "\n## What did not run\n\n";
    text += &not_run(&cells, &ledger, &entries)?;
    text += "\n";
    text += NOT_SHOWN;
    text += "\n## Models\n\n";
    text += &models(root)?;
    text += "\n## Guarantees\n\n";
    text += &guarantees(root, &cells)?;
    Ok(text)
}

/// Patches that bring a fault back, and when each was last caught.
fn track_record(root: &Path) -> Result<String, BoxError> {
    let caught: BTreeMap<String, Caught> = read(&root.join(CAUGHT))?;
    let patches = Patch::all(root)?;
    let (past, wrong): (Vec<_>, Vec<_>) = patches.iter().partition(|patch| patch.found.is_some());
    let last = |patch: &Patch| match caught.get(&patch.name) {
        Some(caught) => format!("`{}`, {} s", caught.commit, caught.seconds),
        None => "**not caught yet**".to_owned(),
    };
    let mut text =
        "Faults that idem once had. `cargo xtask prove regress NAME` brings one back by its \
        patch in `lab/patches`, and fails unless its command catches it.\n\n"
            .to_owned();
    text += "| name | fault | crate | found by | fixed in | caught by | last caught at |\n";
    text += "| --- | --- | --- | --- | --- | --- | --- |\n";
    for patch in past {
        let (found, fixed) = patch.found.clone().unwrap_or_default();
        let Patch {
            name,
            defect,
            package,
            caught_by,
            ..
        } = patch;
        let last = last(patch);
        writeln!(
            text,
            "| {name} | {defect} | {package} | {found} | `{fixed}` | `{caught_by}` | {last} |"
        )?;
    }
    text +=
        "\nStatements that are wrong on purpose, which traffic on a real server has to catch:\n\n";
    text += "| name | mistake | crate | caught by | last caught at |\n| --- | --- | --- | --- | --- |\n";
    for patch in wrong {
        let Patch {
            name,
            defect,
            package,
            caught_by,
            ..
        } = patch;
        let last = last(patch);
        writeln!(
            text,
            "| {name} | {defect} | {package} | `{caught_by}` | {last} |"
        )?;
    }
    Ok(text)
}

/// Returns the entries of the ledger that are about the code of the commit.
fn current<'a>(
    root: &Path,
    cells: &[CellSpec],
    ledger: &'a Ledger,
) -> Result<Vec<&'a Entry>, BoxError> {
    let mut hashes: BTreeMap<&str, String> = BTreeMap::new();
    for cell in cells {
        if !hashes.contains_key(cell.product) {
            hashes.insert(cell.product, code_of(root, cell.product)?);
        }
    }
    let is_current = |entry: &&Entry| {
        let cell = cells.iter().find(|cell| cell.name == entry.cell);
        cell.is_some_and(|cell| hashes[cell.product] == entry.code)
    };
    Ok(ledger.entries.iter().filter(is_current).collect())
}

fn what_ran(cells: &[CellSpec], ledger: &Ledger, entries: &[&Entry]) -> Result<String, BoxError> {
    let mut sum = Tally::default();
    let mut all = Tally::default();
    entries.iter().for_each(|entry| sum.add(entry.tally));
    ledger.entries.iter().for_each(|entry| all.add(entry.tally));
    let mut accepted: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in entries {
        *accepted.entry(&entry.cell).or_default() += entry.seeds.len() - entry.not_accepted.len();
    }
    let mut text = format!(
        "{} claims in {} calls on {} keys of this code; {} claims with earlier code. Every key of \
         every history was searched. Accepted pieces of each cell, with seeds of their own: {} or \
         more.\n\n",
        sum.claims,
        sum.calls,
        sum.keys,
        all.claims - sum.claims,
        accepted.values().min().copied().unwrap_or_default(),
    );
    text += "*Holds* means that no answer may be lost; *takes back* that the documentation says one \
        may be that rests on a write without an answer; *loses* that it says any may be, and that \
        one had to be seen. A verdict counts pieces with their own seeds.\n\n";
    text += "| cell | expects | product | settings | faults | claims | calls | keys | undecided | \
        without an answer | takeovers | losses | refused | pieces not accepted |\n";
    text += "| --- | --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: \
        | --- |\n";
    for entry in entries {
        let cell = cells.iter().find(|cell| cell.name == entry.cell);
        let expects = cell.map_or("", |cell| expects(cell));
        let faults: Vec<String> = entry.faults.iter().map(in_words).collect();
        let not: BTreeMap<&str, usize> =
            entry
                .not_accepted
                .iter()
                .fold(BTreeMap::new(), |mut map, (_, why)| {
                    *map.entry(why.as_str()).or_default() += 1;
                    map
                });
        let not: Vec<String> = not
            .iter()
            .map(|(why, count)| format!("{count}: {why}"))
            .collect();
        let Tally {
            claims,
            calls,
            keys,
            unknown,
            takeovers,
            ..
        } = entry.tally;
        writeln!(
            text,
            "| `{}` | {expects} | {} | {} | {} | {claims} | {calls} | {keys} | {} | {unknown} | \
             {takeovers} | {} | {} | {} of {}{} |",
            entry.cell,
            entry.product,
            entry.settings,
            faults.join("; "),
            entry.undecided,
            entry.losses,
            entry.refused,
            entry.not_accepted.len(),
            entry.seeds.len(),
            if not.is_empty() {
                String::new()
            } else {
                format!(": {}", not.join("; "))
            },
        )?;
    }
    Ok(text)
}

/// Returns the sums of each product, in whatever cells and settings.
fn by_product(cells: &[CellSpec], entries: &[&Entry]) -> Result<String, BoxError> {
    let mut products: BTreeMap<&str, (Tally, BTreeMap<String, Counts>)> = BTreeMap::new();
    for entry in entries {
        let cell = cells.iter().find(|cell| cell.name == entry.cell);
        let (tally, faults) = products
            .entry(cell.map_or("", |cell| cell.product))
            .or_default();
        tally.add(entry.tally);
        for (kind, counts) in &entry.faults {
            faults.entry(kind.clone()).or_default().add(*counts);
        }
    }
    let mut text = "| product | claims | without an answer | takeovers | faults |\n\
        | --- | ---: | ---: | ---: | --- |\n"
        .to_owned();
    for (product, (tally, faults)) in products {
        let faults: Vec<String> = faults.iter().map(in_words).collect();
        writeln!(
            text,
            "| {product} | {} | {} | {} | {} |",
            tally.claims,
            tally.unknown,
            tally.takeovers,
            faults.join("; "),
        )?;
    }
    Ok(text)
}

fn in_words((kind, counts): (&String, &Counts)) -> String {
    let mut text = format!("{} × {kind}", counts.installed);
    if counts.skipped + counts.indeterminate > 0 {
        let Counts {
            skipped,
            indeterminate,
            ..
        } = counts;
        text += &format!(" ({skipped} skipped, {indeterminate} indeterminate)");
    }
    text
}

const fn expects(cell: &CellSpec) -> &'static str {
    match cell.expects {
        Expects::Hold => "holds",
        Expects::TakeBack => "takes back",
        Expects::Loss => "loses",
    }
}

fn not_run(cells: &[CellSpec], ledger: &Ledger, entries: &[&Entry]) -> Result<String, BoxError> {
    let has_run = |cell: &&CellSpec| {
        // One that failed before it asked a server has an entry of its own.
        let mut of_cell = entries.iter().filter(|entry| entry.cell == cell.name);
        of_cell.any(|entry| entry.tally.calls > 0)
    };
    let missing: Vec<&CellSpec> = cells.iter().filter(|cell| !has_run(cell)).collect();
    if missing.is_empty() {
        return Ok("Every cell ran with this code.\n".to_owned());
    }
    let mut text =
        "These cells have no history of this code:\n\n| cell | why |\n| --- | --- |\n".to_owned();
    for cell in missing {
        let tried = ledger
            .entries
            .iter()
            .rev()
            .find(|entry| entry.cell == cell.name);
        let why = tried.and_then(|entry| entry.not_accepted.last());
        let why = why.map_or("not run since the code changed", |(_, why)| why.as_str());
        writeln!(text, "| `{}` | {} |", cell.name, why.replace('\n', " "))?;
    }
    Ok(text)
}

fn models(root: &Path) -> Result<String, BoxError> {
    let outcomes: Vec<Value> = read(&root.join(MODELS))?;
    if outcomes.is_empty() {
        return Ok("The models have not run.\n".to_owned());
    }
    let mut text =
        "[The README of the lab](../lab/README.md#models) says which code the model stands for. \
        `cargo xtask prove model` runs it. Models of the memory store, of statements and of \
        transactions, and traces of the servers' logs, stood here until they were removed: none \
        had found a fault of the list above.\n\n"
            .to_owned();
    text += "| configuration | states | depth | time | expected | found |\n";
    text += "| --- | ---: | ---: | ---: | --- | --- |\n";
    for outcome in &outcomes {
        let word = |name: &str| match &outcome[name] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let seconds = outcome["seconds"].as_f64().unwrap_or_default();
        writeln!(
            text,
            "| {} | {} | {} | {seconds:.1} s | {} | {} |",
            word("name"),
            word("states"),
            word("depth"),
            word("expected"),
            word("got"),
        )?;
    }
    Ok(text)
}

fn guarantees(root: &Path, cells: &[CellSpec]) -> Result<String, BoxError> {
    let mut text = "Each row of a Guarantees table, and what tries it.\n\n".to_owned();
    text += "| README | sentence | tried by |\n| --- | --- | --- |\n";
    for sentence in sentences(root, cells)? {
        let mut by: Vec<String> = sentence
            .cells
            .iter()
            .map(|cell| format!("`{cell}`"))
            .collect();
        by.extend(sentence.elsewhere.map(str::to_owned));
        if by.is_empty() {
            return Err(format!(
                "{}, Guarantees: nothing tries “{}”: add a cell, or say what tries it",
                sentence.file, sentence.about
            )
            .into());
        }
        let folder = sentence.file.split('/').next().unwrap_or_default();
        writeln!(
            text,
            "| {folder} | {} | {} |",
            sentence.about,
            by.join(", ")
        )?;
    }
    Ok(text)
}
