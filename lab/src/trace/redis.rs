//! Redis and Valkey: the append-only file. A script's writes stand in it in their order.

use std::path::{Path, PathBuf};

use idem_core::{BoxError, Fingerprint, Key};
use idem_redis::redis::cmd;
use idem_servers::Options;
use idem_stores::Redis;

use super::Change;
use super::columns::{Parts, hashed_key};

/// Every write, at once, in text and with seconds; nothing is rewritten.
pub(super) fn options(options: Options) -> Options {
    options
        .with_setting("appendonly", "yes")
        .with_setting("appendfsync", "always")
        .with_setting("aof-use-rdb-preamble", "no")
        .with_setting("aof-timestamp-enabled", "yes")
        .with_setting("auto-aof-rewrite-percentage", "0")
}

pub(super) async fn changes(adapter: &Redis, namespace: &str) -> Result<Vec<Change>, BoxError> {
    let setting = async |name: &str| {
        let pair: Vec<String> = adapter.query(cmd("CONFIG").arg("GET").arg(name)).await?;
        let value = pair.into_iter().nth(1);
        value.ok_or_else(|| BoxError::from(format!("there is no setting `{name}`")))
    };
    let folder = Path::new(&setting("dir").await?).join(setting("appenddirname").await?);
    let mut changes = Vec::new();
    let prefix = format!("{namespace}:r:");
    for file in parts(&folder)? {
        let mut log = File {
            rest: &std::fs::read(&file)?,
            whole: 0,
        };
        log.whole = log.rest.len();
        let mut seconds = None;
        loop {
            let at = format!("{}:{}", file_name(&file), log.whole - log.rest.len());
            match log.next()? {
                None => break,
                Some(Entry::Time(time)) => seconds = Some(time),
                Some(Entry::Command(words)) => {
                    // What is noted for a second may be written at its end.
                    let now = seconds.map(|seconds: i64| (seconds + 1) * 1_000_000);
                    changes.extend(of_command(&words, &prefix, &at, now)?);
                }
            }
        }
    }
    Ok(changes)
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Returns the files of the log in their order: the base, then what was appended.
fn parts(folder: &Path) -> Result<Vec<PathBuf>, BoxError> {
    let entries: Result<Vec<_>, _> = std::fs::read_dir(folder)?.collect();
    let paths = entries?.into_iter().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|end| end == "aof"))
        .collect();
    files.sort();
    Ok(files)
}

enum Entry<'a> {
    Time(i64),
    Command(Vec<&'a [u8]>),
}

struct File<'a> {
    rest: &'a [u8],
    whole: usize,
}

impl<'a> File<'a> {
    fn line(&mut self) -> Result<&'a str, BoxError> {
        let end = self.rest.windows(2).position(|two| two == b"\r\n");
        let (line, rest) = self.rest.split_at(end.ok_or("a line without an end")?);
        self.rest = &rest[2..];
        Ok(std::str::from_utf8(line)?)
    }

    /// Returns the next entry: `*2 $3 DEL $1 k`, or a comment with the time.
    fn next(&mut self) -> Result<Option<Entry<'a>>, BoxError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let line = self.line()?;
        if let Some(time) = line.strip_prefix("#TS:") {
            return Ok(Some(Entry::Time(time.parse()?)));
        }
        let words: usize = line.strip_prefix('*').ok_or("no command")?.parse()?;
        let mut command = Vec::with_capacity(words);
        for _ in 0..words {
            let length = self.line()?.strip_prefix('$').ok_or("no word")?.parse()?;
            let word = self.rest.get(..length).ok_or("a word without an end")?;
            command.push(word);
            self.rest = self.rest.get(length + 2..).ok_or("a word without an end")?;
        }
        Ok(Some(Entry::Command(command)))
    }
}

fn of_command(
    words: &[&[u8]],
    prefix: &str,
    at: &str,
    now: Option<i64>,
) -> Result<Vec<Change>, BoxError> {
    let name = words.first().map(|name| name.to_ascii_uppercase());
    let keys = match name.as_deref() {
        Some(b"SET") => words.get(1..2),
        Some(b"DEL" | b"UNLINK") => words.get(1..),
        _ => None,
    };
    let mut changes = Vec::new();
    for key in keys.unwrap_or_default() {
        let path = std::str::from_utf8(key)?.strip_prefix(prefix);
        let Some(path) = path else {
            continue;
        };
        let value = words.get(2).filter(|_| name.as_deref() == Some(b"SET"));
        changes.push(Change {
            at: at.to_owned(),
            k: hashed_key(&Key::from_path(path)?),
            now,
            row: value.map(|value| parts_of(value)?.row()).transpose()?,
        });
    }
    Ok(changes)
}

/// Reads a record: the layout is that of `idem-redis`.
fn parts_of(value: &[u8]) -> Result<Parts<'_>, BoxError> {
    const HEADER: usize = 100;
    let header = value.get(..HEADER).ok_or("a record that is cut short")?;
    let number = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&header[at..at + 8]);
        i64::from_be_bytes(bytes)
    };
    let small = |at: usize| {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&header[at..at + 4]);
        u32::from_be_bytes(bytes)
    };
    let metadata = small(63 + Fingerprint::BYTES) as usize;
    let rest = value
        .get(HEADER + metadata..)
        .ok_or("metadata without an end")?;
    Ok(Parts {
        state: header[1].into(),
        fails: header[2] != 0,
        attempts: small(3).into(),
        token: number(7),
        expires_at: number(23),
        lease_ends_at: number(31),
        attempt: &header[47..63],
        fingerprint: &header[63..63 + Fingerprint::BYTES],
        result: (!rest.is_empty()).then_some(rest),
    })
}
