//! The sentences of the Guarantees tables, and what tries each.

use std::path::Path;

use idem_core::BoxError;

use crate::cells::CellSpec;

/// The READMEs with a Guarantees table.
const READMES: &[&str] = &[
    "idem-postgres/README.md",
    "idem-mysql/README.md",
    "idem-redis/README.md",
    "idem-mongo/README.md",
    "idem-sqlite/README.md",
    "idem-hybrid/README.md",
    "idem-duckdb/README.md",
    "idem-dynamodb/README.md",
];

/// The same for single crates, which have no cells: the file, the beginning of the row, and what
/// tries it.
const OF_CRATES: &[(&str, &str, &str)] = &[
    (
        "idem-duckdb/README.md",
        "a process killed",
        "tests of idem-duckdb: `processes`; its example `batch_load`",
    ),
    (
        "idem-duckdb/README.md",
        "the machine loses power",
        "nothing: documentation of DuckDB",
    ),
    (
        "idem-duckdb/README.md",
        "several handles",
        "tests of idem-duckdb: `registry`",
    ),
    (
        "idem-duckdb/README.md",
        "async code",
        "suite: `law13`; tests of idem-duckdb: `transactions`",
    ),
    (
        "idem-dynamodb/README.md",
        "cost",
        "tests of idem-dynamodb: `answers`",
    ),
    (
        "idem-dynamodb/README.md",
        "a lost answer",
        "tests of idem-dynamodb: `answers`",
    ),
    (
        "idem-dynamodb/README.md",
        "a worker killed",
        "suite: `law12`",
    ),
    (
        "idem-dynamodb/README.md",
        "an acknowledged completion",
        "nothing: documentation of the service",
    ),
];

/// What tries the sentences for which no fault is needed: cases of the conformance suite, by a
/// part of their names, or tests of the crate.
const ELSEWHERE: &[(&str, &str)] = &[
    ("one winner per key", "suite: `law01`, `law04`, `law06`"),
    ("a fresh key, a duplicate", "suite: `law02`, `law15`"),
    ("a duplicate", "suite: `law02`, `law15`"),
    ("duplicates", "suite: `law02`, `law15`"),
    (
        "a key that an open transaction holds",
        "suite: `transactions`",
    ),
    ("checkpoints", "suite: `checkpoint`"),
    ("watermarks", "suite: `watermark`"),
    ("an error", "suite: `law13`, `faults`"),
    ("wrong clocks of clients", "suite: `law09`"),
    ("a future dropped anywhere", "suite: `law13`"),
    ("the file is deleted", "tests of idem-sqlite: `files`"),
    (
        "the machine's clock",
        "suite: `law09`, with the clock of a process",
    ),
    ("the suite", "suites `hybrid-*`"),
    (
        "a late promotion",
        "model: `hybrid`; tests of idem-hybrid: `invalidation`",
    ),
    (
        "a paused process",
        "model: `hybrid`; tests of idem-hybrid: `invalidation`",
    ),
    (
        "garbage",
        "suite `hybrid-*-garbage`; fuzz target of entries",
    ),
    (
        "errors of the cache",
        "suites `hybrid-*`; tests of idem-hybrid: `faults`",
    ),
    ("memory and tasks", "tests of idem-hybrid: `breaker`"),
];

/// A row of a Guarantees table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sentence {
    /// The file.
    pub file: &'static str,
    /// The first cell of the row.
    pub about: String,
    /// The names of the cells that try it.
    pub cells: Vec<&'static str>,
    /// What else tries it.
    pub elsewhere: Option<&'static str>,
}

/// Returns every row of every Guarantees table.
///
/// # Errors
///
/// A README cannot be read, or has no such table.
pub fn sentences(root: &Path, cells: &[CellSpec]) -> Result<Vec<Sentence>, BoxError> {
    let mut sentences = Vec::new();
    for file in READMES {
        let text = std::fs::read_to_string(root.join(file))?;
        let before = sentences.len();
        for about in rows(&text) {
            let tries = |cell: &&CellSpec| {
                let of_file = cell.guarantee.strip_prefix(file);
                let sentence = of_file.and_then(|rest| rest.strip_prefix(": "));
                sentence.is_some_and(|sentence| sentence.split(" | ").next() == Some(&about))
            };
            let mut of_crate = OF_CRATES.iter();
            let by_crate = of_crate
                .find(|(of, start, _)| of == file && about.starts_with(start))
                .map(|(.., by)| *by);
            let by_suite = ELSEWHERE.iter().find(|(start, _)| about.starts_with(start));
            sentences.push(Sentence {
                file,
                cells: cells.iter().filter(tries).map(|cell| cell.name).collect(),
                elsewhere: by_crate.or(by_suite.map(|(_, by)| *by)),
                about,
            });
        }
        if sentences.len() == before {
            return Err(format!("{file} has no table below `## Guarantees`").into());
        }
    }
    Ok(sentences)
}

/// Returns the first cells of the first table below `## Guarantees`.
fn rows(text: &str) -> Vec<String> {
    let lines = text.lines().skip_while(|line| *line != "## Guarantees");
    let table = lines
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'));
    // The head and the rule below it.
    let rows = table.skip(2);
    rows.filter_map(|row| Some(row.split('|').nth(1)?.trim().to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::rows;

    #[test]
    fn only_the_first_table_counts() {
        let text = "## Other\n| a | b |\n\n## Guarantees\n\n| | |\n| --- | --- |\n| one | x |\n\
            | two, three | y |\n\n| more | z |\n";
        assert_eq!(rows(text), ["one", "two, three"]);
    }
}
