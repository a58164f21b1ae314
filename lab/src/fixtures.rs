//! The kept histories, in `fixtures.ndjson`, and what the judge has to say about each.
//!
//! Before each history is a line with its name and its verdict. A verdict that changes has to be
//! explained there, in the field `changed`.

use std::process::ExitCode;

use idem_core::BoxError;
use serde::Deserialize;

use crate::history::{Calls, ReadError};
use crate::judge::judge;
use crate::search::Bounds;

const FILE: &str = include_str!("../fixtures.ndjson");

/// What begins the line before a history.
const BEGINS: &str = "{\"t\":\"fixture\",";

/// A kept history.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Fixture {
    /// What it shows: a mistake of a store, or what a server did.
    pub name: String,
    /// The verdict of the judge: `refused`, or `accepted with N losses`.
    pub verdict: String,
    /// Why the verdict is another one than on the day that it was recorded.
    #[serde(default)]
    pub changed: Option<String>,
    /// The lines of the history.
    #[serde(skip)]
    pub text: String,
}

impl Fixture {
    /// Returns every kept history.
    ///
    /// # Panics
    ///
    /// When a line before a history is not one.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for line in FILE.lines() {
            if line.starts_with(BEGINS) {
                all.push(serde_json::from_str(line).expect("a line before a history"));
            } else if let Some(fixture) = all.last_mut() {
                fixture.text += line;
                fixture.text.push('\n');
            }
        }
        all
    }

    /// Returns the history with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|fixture| fixture.name == name)
    }

    /// Returns the calls.
    ///
    /// # Errors
    ///
    /// A line is not one of a history.
    pub fn calls(&self) -> Result<Calls, ReadError> {
        Calls::parse(&self.text)
    }

    /// Judges the history again. Returns the verdict.
    ///
    /// # Errors
    ///
    /// The history cannot be judged.
    pub fn judged(&self) -> Result<String, ReadError> {
        let judgement = judge(&self.calls()?.history()?, Bounds::default());
        Ok(
            match (judgement.is_accepted(), judgement.refused.is_empty()) {
                (true, _) => format!("accepted with {} losses", judgement.losses),
                (false, false) => "refused".to_owned(),
                (false, true) => "undecided".to_owned(),
            },
        )
    }
}

/// Judges every kept history again. Returns 0 when all have their verdicts, 1 otherwise.
///
/// # Errors
///
/// A history cannot be judged.
pub fn run() -> Result<ExitCode, BoxError> {
    let all = Fixture::all();
    let mut other = 0;
    for fixture in &all {
        let judged = fixture.judged()?;
        if judged != fixture.verdict {
            other += 1;
            println!("{}: {judged}, not {}", fixture.name, fixture.verdict);
        }
    }
    println!("{} kept histories, {other} with another verdict", all.len());
    Ok(ExitCode::from(u8::from(other > 0)))
}
