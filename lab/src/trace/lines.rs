//! [`Trace`]: a history and the log of its server, in one file.

use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use super::Change;
use crate::history::{Calls, Line, ReadError};

/// The calls of a run, and the changes that its server committed, in the server's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// The calls.
    pub calls: Calls,
    /// The changes.
    pub changes: Vec<Change>,
    /// The line of each call, and of its answer.
    pub(super) call_lines: Vec<(usize, usize)>,
    /// The line of each change.
    pub(super) change_lines: Vec<usize>,
}

/// Why a file is no trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// A change cannot be read.
    #[error("line {line}: {source}")]
    Change {
        /// The number of the line, from 1.
        line: usize,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// The history cannot be read.
    #[error(transparent)]
    History(#[from] ReadError),
}

/// A line of a server's log.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "t", rename = "log")]
struct Logged {
    #[serde(flatten)]
    change: Change,
}

/// What the lines of a log begin with.
const BEGINS: &str = r#"{"t":"log","#;

impl Trace {
    /// Joins the calls of a run and the log of its server.
    #[must_use]
    pub fn new(calls: Calls, changes: Vec<Change>) -> Self {
        let mut line = 1;
        let mut call_lines = Vec::with_capacity(calls.seen.len());
        for seen in &calls.seen {
            let of_call = line + 1;
            line = of_call + usize::from(seen.answer.is_some());
            call_lines.push((of_call, line));
        }
        let change_lines = (line + 1..).take(changes.len()).collect();
        Self {
            calls,
            changes,
            call_lines,
            change_lines,
        }
    }

    /// Reads the lines of [`to_ndjson`](Self::to_ndjson).
    ///
    /// # Errors
    ///
    /// [`LineError`].
    pub fn parse(text: &str) -> Result<Self, LineError> {
        let (mut history, mut changes, mut change_lines) = (String::new(), Vec::new(), Vec::new());
        let mut by_id: HashMap<u64, usize> = HashMap::new();
        let mut call_lines: Vec<(usize, usize)> = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            if text.starts_with(BEGINS) {
                let logged: Logged = serde_json::from_str(text)
                    .map_err(|source| LineError::Change { line, source })?;
                changes.push(logged.change);
                change_lines.push(line);
                continue;
            }
            history += text;
            history.push('\n');
            match serde_json::from_str(text) {
                Ok(Line::Inv(invocation)) => {
                    by_id.insert(invocation.id, call_lines.len());
                    call_lines.push((line, line));
                }
                Ok(Line::Ret(answer)) => {
                    if let Some(at) = by_id.get(&answer.id) {
                        call_lines[*at].1 = line;
                    }
                }
                _ => {}
            }
        }
        Ok(Self {
            calls: Calls::parse(&history)?,
            changes,
            call_lines,
            change_lines,
        })
    }

    /// Returns the trace as lines of JSON: the history, then the log.
    ///
    /// # Errors
    ///
    /// None: all of it can be written as JSON.
    pub fn to_ndjson(&self) -> serde_json::Result<String> {
        let mut text = self.calls.to_ndjson()?;
        for change in &self.changes {
            let change = change.clone();
            text += &(serde_json::to_string(&Logged { change })? + "\n");
        }
        Ok(text)
    }

    /// Returns the part that concerns one key, sweeps included.
    #[must_use]
    pub fn of_key(&self, key: &str) -> Self {
        let mut calls = self.calls.clone();
        calls.seen.retain(|seen| seen.invocation.k == key);
        let first = calls.seen.iter().map(|seen| seen.invocation.c0).min();
        let last = calls.seen.iter().filter_map(|seen| seen.answer.as_ref());
        let last = last.map(|answer| answer.c1).max();
        let is_beside = |c0: i64| first <= Some(c0) && Some(c0) <= last;
        let sweeps = self
            .calls
            .seen
            .iter()
            .filter(|seen| seen.invocation.k.is_empty() && is_beside(seen.invocation.c0));
        calls.seen.extend(sweeps.cloned());
        calls.seen.sort_by_key(|seen| seen.invocation.c0);
        let changes = self.changes.iter().filter(|change| change.k == key);
        Self::new(calls, changes.cloned().collect())
    }

    /// Returns the hashes of the keys.
    #[must_use]
    pub fn keys(&self) -> BTreeSet<String> {
        let called = self.calls.seen.iter().map(|seen| &seen.invocation.k);
        let changed = self.changes.iter().map(|change| &change.k);
        let keys = called.chain(changed).filter(|key| !key.is_empty());
        keys.cloned().collect()
    }
}
