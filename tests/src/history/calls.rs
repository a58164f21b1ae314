//! [`Calls`]: the files of a run, as they are.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::{fs, io, panic, thread};

use super::{Fault, Head, History, Invocation, Line, Outcome, Return, VERSION};
use crate::spec::{Answer, Call, Op};

/// The calls of a run, with their answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calls {
    /// The first line.
    pub head: Head,
    /// The calls, file by file.
    pub seen: Vec<Seen>,
}

/// A call and its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The call.
    pub invocation: Invocation,
    /// Its answer, if the caller lived to note it.
    pub answer: Option<Return>,
}

/// Why a history cannot be judged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// A file cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A line is not one of a history. A torn last line is none of these.
    #[error("{path}, line {line}: {why}")]
    Line {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// The told instants contradict each other: a clock was set while the history was recorded, or
    /// an answer was made at another time than during its call.
    #[error("no clock of the store explains the instants that it told: {0}")]
    Clocks(String),
}

impl Calls {
    /// Reads the files of a folder whose names end in `.ndjson`, or one file.
    ///
    /// # Errors
    ///
    /// [`ReadError`].
    pub fn read(path: &Path) -> Result<Self, ReadError> {
        let io = |source| ReadError::Io {
            path: path.to_owned(),
            source,
        };
        let mut files = vec![path.to_owned()];
        if fs::metadata(path).map_err(io)?.is_dir() {
            let entries: io::Result<Vec<_>> = fs::read_dir(path).map_err(io)?.collect();
            files = entries
                .map_err(io)?
                .iter()
                .map(fs::DirEntry::path)
                .collect();
            files.retain(|file| file.extension().is_some_and(|end| end == "ndjson"));
            files.sort();
        }
        let mut head = None;
        let mut seen = Vec::new();
        // Each file on its own thread: a campaign has millions of lines.
        let read: Vec<Result<_, ReadError>> = thread::scope(|scope| {
            let threads: Vec<_> = files
                .iter()
                .map(|file| scope.spawn(move || of_file(file)))
                .collect();
            let read = threads.into_iter().map(|thread| thread.join());
            read.map(|read| read.unwrap_or_else(|payload| panic::resume_unwind(payload)))
                .collect()
        });
        for file in read {
            // A process that was killed before its first line has left nothing.
            if let Some((first, calls)) = file? {
                head.get_or_insert(first);
                seen.extend(calls);
            }
        }
        let head = head.ok_or_else(|| ReadError::Line {
            path: path.to_owned(),
            line: 0,
            why: "there is no history".to_owned(),
        })?;
        Ok(Self { head, seen })
    }

    /// Reads the text of one file.
    ///
    /// # Errors
    ///
    /// [`ReadError`].
    pub fn parse(text: &str) -> Result<Self, ReadError> {
        let (head, seen) = lines(Path::new("-"), text)?;
        Ok(Self { head, seen })
    }

    /// Returns the calls by key, in the store's time.
    ///
    /// # Errors
    ///
    /// [`ReadError::Clocks`].
    pub fn history(&self) -> Result<History, ReadError> {
        History::of(self)
    }

    /// Returns the calls as one file.
    ///
    /// # Errors
    ///
    /// None: every call can be written as JSON.
    pub fn to_ndjson(&self) -> serde_json::Result<String> {
        let mut text = serde_json::to_string(&Line::Head(self.head.clone()))? + "\n";
        for (id, seen) in (1..).zip(&self.seen) {
            // The numbers of several files may be the same.
            let invocation = Invocation {
                id,
                ..seen.invocation.clone()
            };
            text += &(serde_json::to_string(&Line::Inv(invocation))? + "\n");
            if let Some(answer) = &seen.answer {
                let answer = Return {
                    id,
                    ..answer.clone()
                };
                text += &(serde_json::to_string(&Line::Ret(answer))? + "\n");
            }
        }
        Ok(text)
    }
}

/// Reads a file; `None` without a whole line.
fn of_file(file: &Path) -> Result<Option<(Head, Vec<Seen>)>, ReadError> {
    let text = fs::read_to_string(file).map_err(|source| ReadError::Io {
        path: file.to_owned(),
        source,
    })?;
    match text.contains('\n') {
        true => lines(file, &text).map(Some),
        false => Ok(None),
    }
}

/// Reads the lines of a file.
fn lines(path: &Path, text: &str) -> Result<(Head, Vec<Seen>), ReadError> {
    let wrong = |line: usize, why: String| ReadError::Line {
        path: path.to_owned(),
        line,
        why,
    };
    let mut head = None;
    let mut seen: Vec<Seen> = Vec::new();
    let mut by_id: HashMap<u64, usize> = HashMap::new();
    for (at, line) in text.split_inclusive('\n').enumerate() {
        let number = at + 1;
        let Some(line) = line.strip_suffix('\n') else {
            // The process was killed while it wrote.
            break;
        };
        let line = serde_json::from_str(line).map_err(|error| wrong(number, error.to_string()))?;
        match (line, &head) {
            (Line::Head(first), None) if first.v == VERSION => head = Some(first),
            (Line::Head(first), _) => {
                return Err(wrong(number, format!("a head of version {}", first.v)));
            }
            (_, None) => return Err(wrong(number, "the first line is no head".to_owned())),
            (Line::Inv(invocation), _) => {
                by_id.insert(invocation.id, seen.len());
                seen.push(Seen {
                    invocation,
                    answer: None,
                });
            }
            (Line::Ret(answer), _) => {
                let call = by_id.remove(&answer.id).and_then(|at| seen.get_mut(at));
                let call =
                    call.ok_or_else(|| wrong(number, "an answer without a call".to_owned()))?;
                call.answer = Some(answer);
            }
            (Line::Nem(fault), _) => seen.extend(of_fault(&fault)),
        }
    }
    let head = head.ok_or_else(|| wrong(1, "there is no head".to_owned()))?;
    Ok((head, seen))
}

/// Returns a fault as the calls on the whole store that the search knows.
fn of_fault(fault: &Fault) -> Vec<Seen> {
    if matches!(fault.outcome, Outcome::Skipped { .. }) {
        return Vec::new();
    }
    let mut ops = Vec::new();
    match (fault.sets_clock, fault.loses) {
        (true, forgets) => ops.push(Op::Clock { forgets }),
        (false, true) => ops.push(Op::Loss),
        (false, false) if fault.takes_back => ops.push(Op::TakeBack),
        (false, false) => {}
    }
    let seen = ops.into_iter().map(|op| Seen {
        invocation: Invocation {
            id: 0,
            c0: fault.c0,
            k: String::new(),
            call: Call {
                op,
                attempt: 0,
                token: 0,
            },
        },
        answer: Some(Return {
            id: 0,
            c1: fault.c1,
            now: None,
            answer: Answer::Done,
        }),
    });
    seen.collect()
}
