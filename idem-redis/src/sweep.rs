//! Failing what is abandoned and may not be taken over.

use idem_core::{Error, Result, check};
use redis::{Cmd, Value};

use crate::error::Sent;
use crate::operations::nothing;
use crate::store::RedisStore;

/// How many keys the server looks at in one step. Nothing else runs meanwhile, some tens of microseconds.
const STEP: u32 = 500;

impl RedisStore {
    /// Walks through the keys of every master in bounded steps (`SCAN`, never `KEYS`) until `limit` records were failed
    /// or all were seen: <https://redis.io/docs/latest/commands/scan/>. A record that is there during the whole walk
    /// is seen.
    pub(crate) async fn sweep_some(&self, limit: u32) -> Result<u64> {
        let limit = u64::from(check::batch(limit)?);
        let mut failed = 0;
        let first = self.link.at_masters(&self.scan("0")).await?;
        for (place, mut answer) in first {
            loop {
                let (cursor, keys) = step(answer)?;
                let left = usize::try_from(limit - failed).unwrap_or(usize::MAX);
                failed += self.fail_abandoned(&keys, left).await?;
                if failed >= limit {
                    return Ok(failed);
                }
                if cursor == "0" {
                    break;
                }
                answer = self.link.at(place.as_deref(), &self.scan(&cursor)).await?;
            }
        }
        Ok(failed)
    }

    fn scan(&self, cursor: &str) -> Cmd {
        let pattern = format!("{}*", self.operations.record_prefix());
        let mut cmd = redis::cmd("SCAN");
        cmd.arg(cursor).arg("MATCH").arg(pattern);
        cmd.arg("COUNT").arg(STEP).arg("TYPE").arg("string");
        cmd
    }

    /// Fails at most `limit` of these.
    async fn fail_abandoned(&self, keys: &[String], limit: usize) -> Result<u64> {
        let operations = &self.operations;
        let mut failed = 0;
        let mut rest = keys;
        while !rest.is_empty() && failed < limit {
            // No more than may still be failed: each of these might be.
            let (now, later) = rest.split_at(rest.len().min(limit - failed));
            let calls: Vec<_> = now
                .iter()
                .map(|key| {
                    let call = operations.scripts.sweep.call(key);
                    call.arg(&operations.abandoned[..])
                        .arg(operations.config.grace_millis())
                        .arg(operations.announced_for(key))
                })
                .collect();
            for answer in self.link.run_all(&calls, Sent::Write, nothing).await {
                failed += usize::from(answer? == Value::Int(1));
            }
            rest = later;
        }
        Ok(failed as u64)
    }
}

/// The next cursor, and the keys that were found. A cursor is a number of 64 bits without sign.
fn step(answer: Value) -> Result<(String, Vec<String>)> {
    redis::from_redis_value(answer).map_err(|error| {
        Error::corrupt("the server's answer to SCAN makes no sense").with_source(error)
    })
}
