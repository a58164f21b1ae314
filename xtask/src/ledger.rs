//! The ledger: when each case last passed, and with which code.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::Result;

/// The ledger of the workspace.
pub(crate) const FILE: &str = "tests/ledger.txt";

const HEAD: &str = "\
# What passed last, and with which code; `cargo xtask release` writes it.
# A row is a row of the conformance suite, or the tests of a package.
";

/// What passed of a row.
#[derive(Debug, Clone, Default, PartialEq)]
struct Entry {
    /// The hash of the code.
    code: String,
    date: String,
    cases: BTreeSet<String>,
}

/// The rows by name.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Ledger {
    file: PathBuf,
    rows: BTreeMap<String, Entry>,
}

impl Ledger {
    /// Reads a ledger; one that does not exist is empty.
    ///
    /// # Errors
    ///
    /// The file is no ledger.
    pub(crate) fn read(file: &Path) -> Result<Self> {
        let text = match std::fs::read_to_string(file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            text => text?,
        };
        let rows = parse(&text).map_err(|error| format!("{}: {error}", file.display()))?;
        let file = file.to_owned();
        Ok(Self { file, rows })
    }

    /// Returns the cases of the row that passed with this code.
    pub(crate) fn passed(&self, row: &str, code: &str) -> BTreeSet<String> {
        let entry = self.rows.get(row).filter(|entry| entry.code == code);
        entry.map(|entry| entry.cases.clone()).unwrap_or_default()
    }

    /// Returns a line `row::case` for each case that passed with this code.
    pub(crate) fn done(&self, code: &str) -> String {
        let rows = self.rows.iter().filter(|(_, entry)| entry.code == code);
        let lines = rows.flat_map(|(row, entry)| {
            entry
                .cases
                .iter()
                .map(move |case| format!("{row}::{case}\n"))
        });
        lines.collect()
    }

    /// Adds cases of a row that passed with this code, and forgets those that passed with another.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub(crate) fn note(
        &mut self,
        row: &str,
        code: &str,
        date: &str,
        cases: impl IntoIterator<Item = String>,
    ) -> Result {
        let entry = self.rows.entry(row.to_owned()).or_default();
        if entry.code != code {
            *entry = Entry::default();
        }
        entry.code = code.to_owned();
        entry.date = date.to_owned();
        entry.cases.extend(cases);
        let unfinished = self.file.with_extension("unfinished");
        std::fs::write(&unfinished, self.text())?;
        Ok(std::fs::rename(&unfinished, &self.file)?)
    }

    /// Writes each name once; rows name cases by number.
    fn text(&self) -> String {
        let cases = self.rows.values().flat_map(|entry| &entry.cases);
        let cases: BTreeSet<&String> = cases.collect();
        let numbers: BTreeMap<_, _> = cases.iter().copied().zip(1_usize..).collect();
        let mut text = format!("{HEAD}\n# The cases, by number.\n");
        for (case, number) in &numbers {
            let _ = writeln!(text, "{number} {case}");
        }
        text += "\n# The rows: name, hash of the code, date, cases that passed.\n";
        for (row, entry) in &self.rows {
            let numbers = entry.cases.iter().map(|case| numbers[case]);
            let ranges = ranges(numbers);
            let _ = writeln!(text, "{row} {} {} {ranges}", entry.code, entry.date);
        }
        text
    }
}

/// Returns `1-3,7` for 1, 2, 3, 7.
fn ranges(numbers: impl Iterator<Item = usize>) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let shown = ranges.into_iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    shown.collect::<Vec<_>>().join(",")
}

fn parse(text: &str) -> Result<BTreeMap<String, Entry>> {
    let mut names = BTreeMap::new();
    let mut rows = BTreeMap::new();
    let lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    for line in lines {
        let wrong = || format!("no row of a ledger: `{line}`");
        let (first, rest) = line.split_once(' ').ok_or_else(wrong)?;
        if let Ok(number) = first.parse::<usize>() {
            names.insert(number, rest.to_owned());
            continue;
        }
        let mut words = rest.splitn(3, ' ');
        let mut word = || words.next().ok_or_else(wrong);
        let (code, date, ranges) = (word()?, word()?, word()?);
        let mut cases = BTreeSet::new();
        for range in ranges.split(',').filter(|range| !range.is_empty()) {
            let (from, to) = range.split_once('-').unwrap_or((range, range));
            let [from, to] = [from, to].map(str::parse::<usize>);
            for (_, case) in names.range(from?..=to?) {
                cases.insert(case.clone());
            }
        }
        let entry = Entry {
            code: code.to_owned(),
            date: date.to_owned(),
            cases,
        };
        rows.insert(first.to_owned(), entry);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn what_is_noted_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ledger.txt");
        let mut ledger = Ledger::read(&file).unwrap();
        let all = names(&["law01::a", "law01::b", "law02::c", "law03::d"]);
        ledger
            .note("sqlite", "aa", "2026-11-29", all.clone())
            .unwrap();
        ledger
            .note(
                "redis",
                "bb",
                "2026-11-30",
                names(&["law01::a", "law02::c"]),
            )
            .unwrap();
        ledger
            .note("redis", "bb", "2026-11-30", names(&["law03::d"]))
            .unwrap();
        let read = Ledger::read(&file).unwrap();
        assert_eq!(read, ledger);
        assert_eq!(read.passed("sqlite", "aa"), all.into_iter().collect());
        assert_eq!(read.passed("redis", "bb").len(), 3);
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(
            text.ends_with("redis bb 2026-11-30 1,3-4\nsqlite aa 2026-11-29 1-4\n"),
            "{text}"
        );
    }

    #[test]
    fn other_code_voids_a_row() {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::read(&folder.path().join("ledger.txt")).unwrap();
        ledger
            .note("redis", "bb", "2026-11-29", names(&["law01::a"]))
            .unwrap();
        assert!(ledger.passed("redis", "cc").is_empty());
        ledger
            .note("redis", "cc", "2026-11-30", names(&["law01::b"]))
            .unwrap();
        assert_eq!(
            ledger.passed("redis", "cc"),
            BTreeSet::from(["law01::b".to_owned()])
        );
        assert!(ledger.passed("redis", "bb").is_empty());
    }

    #[test]
    fn a_broken_line_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ledger.txt");
        std::fs::write(&file, "1 law01::a\nredis bb\n").unwrap();
        let error = Ledger::read(&file).unwrap_err().to_string();
        assert!(error.ends_with("no row of a ledger: `redis bb`"), "{error}");
    }
}
