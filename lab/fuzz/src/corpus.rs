//! The committed inputs: a file of `corpus` for each target, and `crashes` for all.
//!
//! A line is an input with the escapes of [`u8::escape_ascii`]. In `crashes`, the target and the
//! name of what the input shows come first.

use std::io;
use std::path::PathBuf;

/// Returns the inputs that reach everything that was ever reached, the shortest first.
///
/// # Errors
///
/// A file that cannot be read, other than one that does not exist.
pub fn corpus(target: &str) -> io::Result<Vec<Vec<u8>>> {
    Ok(lines(file(target))?
        .iter()
        .map(|line| unescaped(line))
        .collect())
}

/// Replaces the corpus.
///
/// # Errors
///
/// The file cannot be written.
pub fn keep(target: &str, inputs: &[Vec<u8>]) -> io::Result<()> {
    let lines = inputs.iter().map(|input| escaped(input) + "\n");
    std::fs::write(file(target), lines.collect::<String>())
}

/// Returns a line of `crashes`, for a failure that has no name yet.
#[must_use]
pub fn crash(target: &str, input: &[u8]) -> String {
    format!("{target} NAME {}", escaped(input))
}

/// Passes every committed input of a target to its property, and says which one failed.
///
/// # Panics
///
/// When the property does, or when the files cannot be read.
pub fn replay(target: &str, property: &mut impl FnMut(&[u8])) {
    let mut failing = Failing(String::new());
    for line in lines(folder().join("crashes")).expect("the past crashes") {
        let mut words = line.splitn(3, ' ');
        if words.next() == Some(target) {
            failing.0 = words.next().unwrap_or_default().to_owned();
            property(&unescaped(words.next().unwrap_or_default()));
        }
    }
    for (number, input) in (1..).zip(corpus(target).expect("the corpus")) {
        failing.0 = format!("line {number} of its corpus");
        property(&input);
    }
    failing.0.clear();
}

/// Names an input when it is dropped by a panic.
struct Failing(String);

impl Drop for Failing {
    fn drop(&mut self) {
        if !self.0.is_empty() {
            eprintln!("input: {}", self.0);
        }
    }
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn file(target: &str) -> PathBuf {
    folder().join("corpus").join(target.replace("::", "."))
}

fn lines(file: PathBuf) -> io::Result<Vec<String>> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(text.split_terminator('\n').map(str::to_owned).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn escaped(input: &[u8]) -> String {
    input.escape_ascii().to_string()
}

/// Returns the input of a line. An escape that there is none stands for its last character.
fn unescaped(line: &str) -> Vec<u8> {
    let mut bytes = line.bytes();
    let mut input = Vec::with_capacity(line.len());
    while let Some(byte) = bytes.next() {
        input.push(match byte {
            b'\\' => match bytes.next() {
                Some(b't') => b'\t',
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                Some(b'x') => {
                    let digits: Vec<u8> = bytes.by_ref().take(2).collect();
                    let digits = String::from_utf8_lossy(&digits);
                    u8::from_str_radix(&digits, 16).unwrap_or_default()
                }
                Some(other) => other,
                None => b'\\',
            },
            byte => byte,
        });
    }
    input
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_read_back_from_its_line() {
        let all: Vec<u8> = (0..=u8::MAX).collect();
        let line = escaped(&all);
        assert!(!line.contains(['\n', '\r']));
        assert_eq!(unescaped(&line), all);
    }

    #[test]
    fn a_past_crash_is_replayed() {
        let mut seen = Vec::new();
        replay("policies::yaml", &mut |input: &[u8]| {
            seen.push(input.to_vec());
        });
        assert!(seen.len() > 1 && seen[0] == b"'a'a");
    }
}
