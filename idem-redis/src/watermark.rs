//! The latest version of each source, each in a key of its own.

use std::time::Duration;

use async_trait::async_trait;
use idem_core::backend::check;
use idem_core::{Advance, Error, Key, Result, WatermarkStore};
use redis::Value;

use crate::error::Access;
use crate::operations::{Operations, items, nonsense, nothing};
use crate::script::Call;
use crate::store::{RedisStore, at};

/// The digits of the largest version.
const DIGITS: usize = 19;

impl Operations {
    /// Returns the key of a mark: `namespace:m:scope:operation:id`.
    fn mark_key(&self, source: &Key) -> String {
        format!("{}:m:{}", self.config.namespace(), source.path())
    }

    fn advance(&self, source: &Key, version: u64, retention: Duration) -> Result<Call<'_>> {
        let version = check::version(version)?;
        let retention = check::retention(retention)?;
        let call = self.scripts.advance.call(&self.mark_key(source));
        Ok(call
            .arg(format!("{version:0DIGITS$}"))
            .arg(retention / 1000)
            .arg(Self::flag(self.config.replicas().is_some())))
    }

    /// Decodes the answer of an advance.
    fn advanced(answer: Value) -> Result<Advance> {
        let answer = items(answer)?;
        let Some(Value::BulkString(word)) = answer.first() else {
            return Err(nonsense());
        };
        match (&word[..], answer.get(1)) {
            (b"advanced", None) => Ok(Advance::Advanced),
            (b"unchanged", None) => Ok(Advance::Unchanged),
            (b"stale", Some(Value::BulkString(mark))) => Ok(Advance::Stale {
                current: version(mark)?,
            }),
            (b"garbage", None) => Err(unreadable()),
            _ => Err(nonsense()),
        }
    }

    fn mark(&self, source: &Key) -> Call<'static> {
        let mut get = redis::cmd("GET");
        get.arg(self.mark_key(source));
        Call::plain(get)
    }

    /// Decodes the answer of a read of a mark.
    fn marked(answer: Value) -> Result<Option<u64>> {
        match answer {
            Value::Nil => Ok(None),
            Value::BulkString(mark) => version(&mark).map(Some),
            _ => Err(nonsense()),
        }
    }
}

/// Returns whether the answer of an advance reports a write, or rests on one that replicas may not
/// have: every answer that names a version does.
fn rests_on_mark(answer: &Value) -> bool {
    let word = |word: &[u8]| matches!(word, b"advanced" | b"unchanged" | b"stale");
    matches!(answer, Value::Array(items)
        if matches!(items.first(), Some(Value::BulkString(answer)) if word(answer)))
}

/// Exactly as many digits as are written.
fn version(mark: &[u8]) -> Result<u64> {
    let digits =
        Some(mark).filter(|mark| mark.len() == DIGITS && mark.iter().all(u8::is_ascii_digit));
    let text = digits.and_then(|digits| std::str::from_utf8(digits).ok());
    text.and_then(|text| text.parse().ok())
        .ok_or_else(unreadable)
}

fn unreadable() -> Error {
    Error::corrupt(
        "a watermark is no version; it was written by another program under the same namespace",
    )
}

/// One script, one key, whose TTL is the retention: `SET … PX`, judged by the server's clock. Stale
/// and unchanged write nothing, with one exception: where the store waits for replicas, the mark is
/// written once more as it is. A read does not wait: it returns what the master has.
#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl WatermarkStore for RedisStore {
    async fn advance(&self, source: &Key, version: u64, retention: Duration) -> Result<Advance> {
        let advance = async {
            let call = self.operations.advance(source, version, retention)?;
            let answer = self.link.run(&call, Access::Write, rests_on_mark).await?;
            Operations::advanced(answer)
        };
        advance.await.map_err(at("advance"))
    }

    async fn watermark(&self, source: &Key) -> Result<Option<u64>> {
        let call = self.operations.mark(source);
        let answer = self.link.run(&call, Access::Read, nothing).await;
        answer.and_then(Operations::marked).map_err(at("watermark"))
    }

    /// The server deletes expired keys by itself; nothing is left to do.
    async fn delete_expired_watermarks(&self, limit: u32) -> Result<u64> {
        check::batch(limit).map_err(at("delete_expired_watermarks"))?;
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use idem_core::ErrorKind;
    use idem_core::limits::MAX_VERSION;

    #[test]
    fn a_mark_is_read_to_the_last_digit() {
        for expected in [0, 1, (1 << 53) + 1, MAX_VERSION] {
            let mark = format!("{expected:019}");
            assert_eq!(version(mark.as_bytes()).unwrap(), expected);
        }
        for wrong in [
            "",
            "7",
            "00000000000000000007",
            "000000000000000000x",
            "+000000000000000007",
        ] {
            let error = version(wrong.as_bytes()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{wrong}");
        }
    }

    #[test]
    fn an_answer_that_makes_no_sense_is_corrupt() {
        let word = |word: &str| Value::BulkString(word.into());
        let one = Value::Array(vec![word("advanced")]);
        assert!(rests_on_mark(&one));
        assert_eq!(Operations::advanced(one).unwrap(), Advance::Advanced);
        let stale = Value::Array(vec![word("stale"), word(&format!("{:019}", 7))]);
        assert!(rests_on_mark(&stale) && !rests_on_mark(&Value::Nil));
        for wrong in [
            Value::Nil,
            Value::Array(vec![]),
            Value::Array(vec![word("stale")]),
            Value::Array(vec![word("stale"), word("7")]),
            Value::Array(vec![word("garbage")]),
        ] {
            let error = Operations::advanced(wrong).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
        }
    }
}
