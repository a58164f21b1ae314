//! Fails abandoned claims that may not be taken over.

use idem_core::backend::check;
use idem_core::{Effect, Error, Result};
use redis::{Cmd, Value};

use crate::error::Access;
use crate::operations::nothing;
use crate::store::RedisStore;

/// How many keys the server checks in one step. Nothing else runs meanwhile, some tens of
/// microseconds.
const STEP: u32 = 500;

impl RedisStore {
    /// Walks through the keys of every master in bounded steps (`SCAN`, never `KEYS`) until `limit`
    /// records were failed or all were seen: <https://redis.io/docs/latest/commands/scan/>. It sees
    /// every record that exists during the whole walk.
    pub(crate) async fn sweep_some(&self, limit: u32) -> Result<u64> {
        let limit = u64::from(check::batch(limit)?);
        let mut failed = 0;
        let walked = self.walk(limit, &mut failed).await;
        walked.map(|()| failed).map_err(|error| {
            if failed > 0 {
                error.with_effect(Effect::Unknown)
            } else {
                error
            }
        })
    }

    async fn walk(&self, limit: u64, failed: &mut u64) -> Result<()> {
        let first = self.link.at_masters(&self.scan("0", STEP)).await?;
        for (node, mut answer) in first {
            loop {
                let (cursor, keys) = step(answer)?;
                self.fail_abandoned(&keys, limit, failed).await?;
                if *failed >= limit {
                    return Ok(());
                }
                if cursor == "0" {
                    break;
                }
                answer = self
                    .link
                    .at(node.as_deref(), &self.scan(&cursor, STEP))
                    .await?;
            }
        }
        Ok(())
    }

    /// Returns the command that looks at this many keys, and finds those of records.
    pub(crate) fn scan(&self, cursor: &str, count: u32) -> Cmd {
        let pattern = format!("{}*", self.operations.record_prefix());
        let mut cmd = redis::cmd("SCAN");
        cmd.arg(cursor).arg("MATCH").arg(pattern);
        cmd.arg("COUNT").arg(count).arg("TYPE").arg("string");
        cmd
    }

    /// Fails as many of these as the limit still allows, and counts them.
    async fn fail_abandoned(&self, keys: &[Vec<u8>], limit: u64, failed: &mut u64) -> Result<()> {
        let operations = &self.operations;
        // A key that is not text is not one of this store's.
        let keys: Vec<_> = keys
            .iter()
            .filter_map(|key| std::str::from_utf8(key).ok())
            .collect();
        let mut rest = &keys[..];
        while !rest.is_empty() && *failed < limit {
            // No more than may still be failed: each of these might be.
            let left = usize::try_from(limit - *failed).unwrap_or(usize::MAX);
            let (now, later) = rest.split_at(rest.len().min(left));
            let calls: Vec<_> = now
                .iter()
                .map(|key| {
                    let call = operations.scripts.sweep.call(key);
                    call.arg(&operations.abandoned[..])
                        .arg(operations.config.grace_millis())
                        .arg(operations.channel_for(key))
                })
                .collect();
            let mut result = Ok(());
            for answer in self.link.run_all(&calls, Access::Write, nothing).await {
                match answer {
                    Ok(answer) => *failed += u64::from(answer == Value::Int(1)),
                    Err(error) => result = Err(error),
                }
            }
            result?;
            rest = later;
        }
        Ok(())
    }
}

/// Returns the next cursor, and the keys that were found. A cursor is an unsigned number of 64
/// bits.
pub(crate) fn step(answer: Value) -> Result<(String, Vec<Vec<u8>>)> {
    redis::from_redis_value(answer).map_err(|error| {
        Error::corrupt("the server's answer to SCAN makes no sense").with_source(error)
    })
}
