//! Lists and forced steps.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use async_trait::async_trait;
use idem_core::admin::{
    Cursor, Forced, ForcedStep, RecordFilter, RecordPage, RecordSummary, Rewrite, SummaryState,
};
use idem_core::backend::check::{self, CheckedRewrite};
use idem_core::backend::{FinalResult, ForcedSteps, LISTED_RESULT_BYTES, force};
use idem_core::{
    Claim, ClaimOutcome, ClaimRequest, IdempotencyStore, Key, RecordAdmin, Response, Result,
};
use redis::Value;

use crate::error::Access;
use crate::info::Info;
use crate::operations::{Operations, is_done, items, nonsense, nothing};
use crate::record::Stored;
use crate::script::Call;
use crate::store::{RedisStore, at};
use crate::sweep::step;

/// How many steps of a `SCAN` one page takes at most. Most of them find nothing where records are few
/// among other keys.
const MAX_STEPS: u32 = 32;

/// The masters, in a fixed order, and what distinguishes them from others.
struct Masters {
    /// The address of each; a single server has none.
    nodes: Vec<Option<String>>,
    identity: u64,
}

/// Where a list goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Position {
    /// The masters that the list has begun with.
    masters: u64,
    /// Which of them is next.
    index: usize,
    /// The cursor of its `SCAN`.
    scan: u64,
}

impl Position {
    fn start(masters: &Masters) -> Self {
        Self {
            masters: masters.identity,
            index: 0,
            scan: 0,
        }
    }

    fn read(cursor: &Cursor) -> Result<Self> {
        let parts: Vec<_> = cursor.as_str().split(' ').collect();
        let position = match parts[..] {
            [masters, index, scan] => {
                let masters = u64::from_str_radix(masters, 16).ok();
                masters.zip(index.parse().ok()).zip(scan.parse().ok())
            }
            _ => None,
        };
        let ((masters, index), scan) = position.ok_or_else(Cursor::unreadable)?;
        Ok(Self {
            masters,
            index,
            scan,
        })
    }

    fn cursor(&self) -> Cursor {
        Cursor::new(format!("{:x} {} {}", self.masters, self.index, self.scan))
    }
}

impl RedisStore {
    /// Looks at the keys of the first step of a `SCAN` that finds records, one master after the
    /// other.
    async fn list_page(
        &self,
        filter: &RecordFilter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<RecordPage> {
        let limit = check::batch(limit)?;
        let after = after.map(Position::read).transpose()?;
        let masters = self.masters().await?;
        // The cursor of a server means nothing to another, and a slot that has moved may have been
        // passed over. So the list begins anew.
        let is_current = |position: &Position| position.masters == masters.identity;
        let after = after.filter(is_current);
        let mut position = after.unwrap_or_else(|| Position::start(&masters));
        let mut records = Vec::new();
        for _ in 0..MAX_STEPS {
            let node = masters.nodes.get(position.index);
            let node = node.ok_or_else(Cursor::unreadable)?.as_deref();
            let scan = self.scan(&position.scan.to_string(), limit);
            let (scan, names) = step(self.link.at(node, &scan).await?)?;
            records = self.peek_all(&names).await?;
            position.scan = scan.parse().map_err(|_| nonsense())?;
            position.index += usize::from(position.scan == 0);
            if !records.is_empty() || position.index == masters.nodes.len() {
                break;
            }
        }
        if position.index < masters.nodes.len() {
            return Ok(RecordPage::of(records, filter, Some(position.cursor())));
        }
        let masters = self.masters().await?;
        let is_over = position.masters == masters.identity;
        let next = (!is_over).then(|| Position::start(&masters).cursor());
        Ok(RecordPage::of(records, filter, next))
    }

    /// Returns the masters. A server that was restarted is another one, because it keeps its keys
    /// in another order. Masters between which slots have moved are others, too.
    async fn masters(&self) -> Result<Masters> {
        let mut info = redis::cmd("INFO");
        let mut nodes = Vec::new();
        for (node, answer) in self.link.at_masters(info.arg("server")).await? {
            let text: String = redis::from_redis_value(answer).map_err(|_| nonsense())?;
            nodes.push((Info::new(&text).run_id().to_owned(), node));
        }
        nodes.sort_unstable();
        let mut identity = DefaultHasher::new();
        nodes.hash(&mut identity);
        if !self.link.connector.is_one_node() {
            let mut slots = redis::cmd("CLUSTER");
            let mut views = BTreeSet::new();
            for (_, view) in self.link.at_masters(slots.arg("SLOTS")).await? {
                views.insert(owners(view)?);
            }
            views.hash(&mut identity);
        }
        Ok(Masters {
            nodes: nodes.into_iter().map(|(_, node)| node).collect(),
            identity: identity.finish(),
        })
    }

    /// Returns the records of these keys of the server; keys of others are left out.
    async fn peek_all(&self, names: &[Vec<u8>]) -> Result<Vec<RecordSummary>> {
        // `SCAN` may return a key twice.
        let keys: BTreeSet<_> = names
            .iter()
            .filter_map(|name| self.operations.key_of(name))
            .collect();
        let calls: Vec<_> = keys.iter().map(|key| self.operations.peek(key)).collect();
        let answers = self.link.run_all(&calls, Access::Read, nothing).await;
        let mut records = Vec::new();
        for (key, answer) in keys.into_iter().zip(answers) {
            let peeked = Operations::peeked(answer?)?;
            records.extend(peeked.and_then(|(stored, bytes)| stored.summary(key, bytes)));
        }
        Ok(records)
    }

    async fn peek(&self, key: &Key) -> Result<Option<RecordSummary>> {
        let call = self.operations.peek(key);
        let answer = self.link.run(&call, Access::Read, nothing).await?;
        let peeked = Operations::peeked(answer)?;
        Ok(peeked.and_then(|(stored, bytes)| stored.summary(key.clone(), bytes)))
    }
}

/// Returns the first and last slot of each range, and the id of the master that has it:
/// <https://redis.io/docs/latest/commands/cluster-slots/>.
fn owners(view: Value) -> Result<Vec<(i64, i64, String)>> {
    let range = |range: Vec<Value>| {
        let mut parts = range.into_iter();
        let (first, last) = (parts.next()?, parts.next()?);
        let mut master = items(parts.next()?).ok()?.into_iter();
        let id = redis::from_redis_value(master.nth(2)?).ok()?;
        let number = |value| redis::from_redis_value(value).ok();
        Some((number(first)?, number(last)?, id))
    };
    let ranges: Vec<Vec<Value>> = redis::from_redis_value(view).map_err(|_| nonsense())?;
    let owners: Option<Vec<_>> = ranges.into_iter().map(range).collect();
    let mut owners = owners.ok_or_else(nonsense)?;
    owners.sort_unstable();
    Ok(owners)
}

impl Operations {
    /// Returns the key whose record has this name on the server.
    fn key_of(&self, name: &[u8]) -> Option<Key> {
        let path = std::str::from_utf8(name).ok()?;
        let path = path.strip_prefix(&self.record_prefix())?;
        let key = Key::from_path(path).ok()?;
        // A path can be read that no key is written as, such as one with `{`.
        (key.path() == path).then_some(key)
    }

    fn peek(&self, key: &Key) -> Call<'_> {
        let call = self.scripts.peek.call(&self.record_key(key));
        call.arg(LISTED_RESULT_BYTES)
    }

    /// Decodes the answer: the record without all of its result, and the result's bytes.
    fn peeked(answer: Value) -> Result<Option<(Stored, u64)>> {
        if answer == Value::Nil {
            return Ok(None);
        }
        match <[Value; 3]>::try_from(items(answer)?) {
            Ok(
                [
                    Value::Int(now),
                    Value::BulkString(record),
                    Value::Int(bytes),
                ],
            ) => {
                let bytes = u64::try_from(bytes).unwrap_or_default();
                Ok(Some((Stored::new(record, now), bytes)))
            }
            _ => Err(nonsense()),
        }
    }

    fn force(&self, step: &ForcedStep, seen: i64, result: &FinalResult) -> Call<'_> {
        let call = self.scripts.force.call(&self.record_key(step.key()));
        call.arg(step.token().as_i64())
            .arg(seen)
            .arg(result.state())
            .arg(result.bytes())
            .arg(result.retention())
            .arg(self.config.grace_millis())
            .arg(self.channel_of(step.key()))
    }

    fn rewrite(&self, rewrite: &Rewrite, checked: &CheckedRewrite) -> Call<'_> {
        let call = self.scripts.rewrite.call(&self.record_key(rewrite.key()));
        call.arg(rewrite.token().as_i64())
            .arg(rewrite.state())
            .arg(&checked.result[..])
            .arg(checked.metadata.as_deref().unwrap_or_default())
            .arg(self.config.grace_millis())
    }

    /// Decodes the answer: whether the step was taken.
    fn forced(answer: &Value) -> Result<bool> {
        match answer {
            Value::BulkString(word) if word == b"done" => Ok(true),
            Value::BulkString(word) if word == b"lost" => Ok(false),
            _ => Err(nonsense()),
        }
    }
}

/// A forced step on this store. Each of its steps is one script.
struct Steps<'s>(&'s RedisStore);

#[async_trait]
impl ForcedSteps for Steps<'_> {
    async fn held(&mut self, key: &Key) -> Result<Option<RecordSummary>> {
        self.0.peek(key).await
    }

    async fn claim(&mut self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        self.0.claim_once(request).await
    }

    async fn complete(
        &mut self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        self.0.complete(claim, response, retention).await
    }

    async fn take(&mut self, step: &ForcedStep, seen: SummaryState) -> Result<bool> {
        let Some(seen) = seen.stored() else {
            return Ok(false);
        };
        let result = FinalResult::forced(step.action(), &self.0.limits())?;
        let call = self.0.operations.force(step, seen, &result);
        let forced = self.0.link.run(&call, Access::Write, is_done).await?;
        Operations::forced(&forced)
    }
}

/// A list walks through the keys of every master by `SCAN`, which visits every key that is there
/// from its start to its end: <https://redis.io/docs/latest/commands/scan/>. A page takes steps of
/// `limit` keys, of any owner, until one has found records or many have found none. A page may have
/// a few more than `limit` records, because `SCAN` returns a few more keys. Of each record, one
/// script reads all except the result, of which it reads the first bytes.
///
/// The list begins anew, and returns records again, when a server is restarted or replaced, or when
/// a cluster's slot has moved from one master to another. While a slot is on its way, the list may
/// miss its records.
///
/// A forced step and its audit entry are separate scripts, because their keys may be on different
/// servers.
#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl RecordAdmin for RedisStore {
    async fn list(
        &self,
        filter: &RecordFilter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<RecordPage> {
        let page = self.list_page(filter, after, limit).await;
        page.map_err(at("list"))
    }

    async fn summary(&self, key: &Key) -> Result<Option<RecordSummary>> {
        self.peek(key).await.map_err(at("summary"))
    }

    async fn force(&self, step: &ForcedStep) -> Result<Forced> {
        let forced = force(&mut Steps(self), step, &self.limits()).await;
        forced.map_err(at("force"))
    }

    async fn rewrite(&self, rewrite: &Rewrite) -> Result<bool> {
        let checked = check::rewrite(rewrite, &self.limits()).map_err(at("rewrite"))?;
        let call = self.operations.rewrite(rewrite, &checked);
        let rewritten = self.link.run(&call, Access::Write, is_done).await;
        let rewritten = rewritten.and_then(|answer| Operations::forced(&answer));
        rewritten.map_err(at("rewrite"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn a_position_is_read_back() {
        let position = Position {
            masters: u64::MAX,
            index: 2,
            scan: u64::MAX,
        };
        assert_eq!(Position::read(&position.cursor()).unwrap(), position);
        for text in ["", "0", "1 2", "g 0 0", "0 -1 0", "0 0 0 0", "0 0 a:b:c"] {
            assert!(Position::read(&Cursor::new(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn only_records_of_this_store_have_keys() {
        let config = Config::new().with_namespace("shop").unwrap();
        let operations = Operations::new(config).unwrap();
        let key = Key::new("a:b", "{c}", "%3A").unwrap();
        let name = operations.record_key(&key);
        assert_eq!(operations.key_of(name.as_bytes()), Some(key));
        for name in [
            "shop:r:a:b",
            "shop:r:a:b:c:d",
            "shop:r:a:b:{c}",
            "shop:r:a:b:%3a",
            "shop:r:a:b:c\n",
            "shop:m:a:b:c",
            "shop2:r:a:b:c",
            "shop:r2:a:b:c",
        ] {
            assert_eq!(operations.key_of(name.as_bytes()), None, "{name}");
        }
        assert_eq!(operations.key_of(b"shop:r:a:b:\xff"), None);
    }
}
