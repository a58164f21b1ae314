//! [`Progress`]: what the callers have got done, from the histories that they write.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use idem_core::BoxError;

/// Counts the calls in a folder of growing histories.
#[derive(Debug)]
pub(crate) struct Progress {
    folder: PathBuf,
    read: HashMap<PathBuf, u64>,
    /// The calls that were sent.
    pub(crate) sent: u64,
    /// The claims and results that the store acknowledged.
    pub(crate) acknowledged: u64,
}

impl Progress {
    pub(crate) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            read: HashMap::new(),
            sent: 0,
            acknowledged: 0,
        }
    }

    /// Reads what was added.
    pub(crate) fn look(&mut self) -> Result<(), BoxError> {
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.extension().is_none_or(|end| end != "ndjson") {
                continue;
            }
            let from = self.read.get(&path).copied().unwrap_or_default();
            let text = whole_lines(&path, from)?;
            self.read.insert(path, from + text.len() as u64);
            for line in text.lines() {
                self.count(line);
            }
        }
        Ok(())
    }

    fn count(&mut self, line: &str) {
        const ACKNOWLEDGED: [&str; 2] = [r#""ans":"acquired""#, r#""ans":"done""#];
        if line.starts_with(r#"{"t":"inv""#) {
            self.sent += 1;
        }
        if ACKNOWLEDGED.iter().any(|answer| line.contains(answer)) {
            self.acknowledged += 1;
        }
    }
}

/// Returns the lines from there on, without one that is still written.
fn whole_lines(path: &Path, from: u64) -> io::Result<String> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let end = bytes.iter().rposition(|byte| *byte == b'\n');
    bytes.truncate(end.map_or(0, |end| end + 1));
    String::from_utf8(bytes).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::Progress;

    #[test]
    fn whole_lines_are_counted_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = std::fs::File::create(folder.path().join("1.ndjson")).unwrap();
        let mut progress = Progress::new(folder.path());
        let lines =
            "{\"t\":\"inv\",\"id\":1}\n{\"t\":\"ret\",\"ans\":\"acquired\"}\n{\"t\":\"inv\"";
        file.write_all(lines.as_bytes()).unwrap();
        progress.look().unwrap();
        assert_eq!((progress.sent, progress.acknowledged), (1, 1));
        file.write_all(b",\"id\":2}\n{\"t\":\"ret\",\"ans\":\"unknown\"}\n")
            .unwrap();
        progress.look().unwrap();
        progress.look().unwrap();
        assert_eq!((progress.sent, progress.acknowledged), (2, 1));
    }
}
