//! [`RedisCache`]: entries that may be lost at any time, and that never come back once they are
//! invalidated.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use idem_core::{AttemptId, Key, Result};
use redis::{RedisResult, Value};

use crate::config::{Config, Eviction, checked_namespace};
use crate::connect::Connector;
use crate::error::{Access, classify};
use crate::link::Link;
use crate::operations::{items, nonsense, nothing};
use crate::reads::Reads;
use crate::script::{Call, Script};

const NAME: &str = "redis cache";

/// How long an epoch is kept. When it expires, the tickets issued in it are void; entries stay.
const EPOCH_MILLIS: u64 = 24 * 60 * 60 * 1000;

/// The header of an entry: when its ticket was issued and when it ends, microseconds since 1970 by
/// the server's clock.
const STAMP_BYTES: usize = 16;

/// A cache on Redis or Valkey, for data that also exists elsewhere: `idem-hybrid` puts it in front
/// of a database.
///
/// The *ticket* makes it safe in front of a source of truth. A read issues one. The caller may then
/// store under it what it reads from the source, for a lifetime that counts from the ticket. The
/// cache refuses the store when the key was invalidated since. So neither a paused process nor a
/// slow network can bring back a deleted record, or keep it for longer than it was valid. A ticket
/// is the *epoch* of the key's bucket, a random value that each invalidation replaces. When the
/// server loses it (flushed, restarted, evicted, failed over), tickets are void, which costs a
/// store and nothing else.
///
/// The cache connects at its first use, so a cache that is down does not keep a service from
/// starting. A server that evicts is fine. After a failover to a replica that missed an
/// invalidation, the entry is served until its lifetime ends; [`Config::with_replicas`] lets
/// invalidations wait for replicas.
#[derive(Clone)]
pub struct RedisCache {
    inner: Arc<Inner>,
}

struct Inner {
    link: Arc<Link>,
    reads: Reads,
    namespace: String,
    read: Script,
    store: Script,
    invalidate: Script,
}

/// Permission to store what is read from the source of truth after it was issued.
#[derive(Debug, Clone)]
pub struct CacheTicket {
    epoch: Vec<u8>,
    /// Microseconds since 1970 by the server's clock.
    issued_at: i64,
}

/// The result of a read.
#[derive(Debug, Clone)]
pub struct CacheRead {
    /// The entry, if there is one.
    pub hit: Option<CacheHit>,
    /// Permission to store another.
    pub ticket: CacheTicket,
}

/// An entry that was found.
#[derive(Clone)]
pub struct CacheHit {
    /// The bytes that were stored.
    pub entry: Bytes,
    /// The time since the issue of the ticket under which it was stored, by the server's clock.
    pub age: Duration,
    /// How much longer it is kept, by the server's clock.
    pub remaining: Duration,
}

/// Shows the size of the entry only.
impl fmt::Debug for CacheHit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheHit")
            .field("bytes", &self.entry.len())
            .field("age", &self.age)
            .field("remaining", &self.remaining)
            .finish()
    }
}

impl RedisCache {
    /// Creates a cache on one server; URLs as for
    /// [`RedisStore::connect`](crate::RedisStore::connect).
    ///
    /// `namespace` names the source of truth, such as `orders-db`. All caches of one database use
    /// the same, and caches of different databases different ones: they then share nothing, on any
    /// server.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a namespace with other than 1 to 64 letters, digits, `_`, `-` and `.`;
    /// `Misconfigured` for a URL that cannot be parsed.
    pub fn new(url: &str, namespace: &str, config: &Config) -> Result<Self> {
        Self::on(Connector::node(url, config), namespace, config)
    }

    /// Creates a cache on the server that leads according to the sentinels; see
    /// [`RedisStore::connect_sentinel`](crate::RedisStore::connect_sentinel).
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new).
    pub fn new_sentinel(
        urls: &[&str],
        group: &str,
        template: &str,
        namespace: &str,
        config: &Config,
    ) -> Result<Self> {
        Self::on(
            Connector::sentinel(urls, group, template, config),
            namespace,
            config,
        )
    }

    /// Creates a cache on a cluster; see
    /// [`RedisStore::connect_cluster`](crate::RedisStore::connect_cluster).
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new).
    pub fn new_cluster(urls: &[&str], namespace: &str, config: &Config) -> Result<Self> {
        Self::on(Connector::cluster(urls, config), namespace, config)
    }

    fn on(connector: RedisResult<Connector>, namespace: &str, config: &Config) -> Result<Self> {
        let connector = connector.map_err(|error| classify(error, Access::Read).at(NAME, "new"))?;
        let config = config.clone().with_eviction(Eviction::Accept);
        let namespace = checked_namespace(namespace.to_owned())?;
        let link = Arc::new(Link::new(connector, &config));
        Ok(Self {
            inner: Arc::new(Inner {
                reads: Reads::new(Arc::clone(&link), config.batching()),
                link,
                namespace,
                read: Script::new(include_str!("scripts/cache_read.lua")),
                store: Script::new(include_str!("scripts/cache_store.lua")),
                invalidate: Script::new(include_str!("scripts/cache_invalidate.lua")),
            }),
        })
    }

    /// Reads the entry of this key, and issues a ticket, in one round trip. Only where the bucket
    /// has no epoch does a second one write it.
    ///
    /// # Errors
    ///
    /// `Unavailable`, `Misconfigured`; `Corrupt` for an invalid answer.
    ///
    /// # Cancellation
    ///
    /// Without effect.
    pub async fn read(&self, key: &Key) -> Result<CacheRead> {
        let read = self.inner.read(key).await;
        read.map_err(|error| error.at(NAME, "read"))
    }

    /// Stores an entry that was read from the source of truth after the ticket was issued, until
    /// `lifetime` after that instant. Returns `false`, and stores nothing, when the key may have
    /// been invalidated since.
    ///
    /// # Errors
    ///
    /// `Unavailable`, `Misconfigured`.
    ///
    /// # Cancellation
    ///
    /// The entry may be stored or not.
    pub async fn store(
        &self,
        key: &Key,
        ticket: &CacheTicket,
        entry: &[u8],
        lifetime: Duration,
    ) -> Result<bool> {
        let lifetime = i64::try_from(lifetime.as_micros()).unwrap_or(i64::MAX);
        let ends_at = ticket.issued_at.saturating_add(lifetime);
        let mut value = Vec::with_capacity(STAMP_BYTES + entry.len());
        value.extend(ticket.issued_at.to_be_bytes());
        value.extend(ends_at.to_be_bytes());
        value.extend(entry);
        let call = self
            .inner
            .call(&self.inner.store, key)
            .arg(&ticket.epoch)
            .arg(ends_at / 1000)
            .arg(value);
        let answer = self.inner.link.run(&call, Access::Write, nothing).await;
        answer
            .map(|answer| answer == Value::Int(1))
            .map_err(|error| error.at(NAME, "store"))
    }

    /// Removes the entry of this key; no earlier ticket can bring it back.
    ///
    /// # Errors
    ///
    /// `Unavailable`, `Misconfigured`: the entry may still be there, until its lifetime ends;
    /// repeat it.
    ///
    /// # Cancellation
    ///
    /// The entry may be removed or not; repeat the call.
    pub async fn invalidate(&self, key: &Key) -> Result<()> {
        let call = self
            .inner
            .call(&self.inner.invalidate, key)
            .arg(epoch())
            .arg(EPOCH_MILLIS);
        let done = |answer: &Value| *answer == Value::Int(1);
        let answer = self.inner.link.run(&call, Access::Write, done).await;
        answer
            .map(drop)
            .map_err(|error| error.at(NAME, "invalidate"))
    }
}

impl Inner {
    /// A script on the epoch and the entry of this key: `namespace:e:{…}` and
    /// `namespace:c:{…}:scope:operation:id`, in one slot because of the text in braces
    /// (<https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/>).
    fn call<'s>(&self, script: &'s Script, key: &Key) -> Call<'s> {
        let [epoch, entry] = self.keys(key);
        script.call_with(&[&epoch, &entry])
    }

    fn keys(&self, key: &Key) -> [String; 2] {
        // The key's bucket of the 256, the same in every process, by its SHA-256.
        let (namespace, hash, path) = (&*self.namespace, key.hashed(), key.path());
        let bucket = &hash[..2];
        [
            [namespace, ":e:{", namespace, ".", bucket, "}"].concat(),
            [namespace, ":c:{", namespace, ".", bucket, "}:", &path].concat(),
        ]
    }

    /// Reads by plain commands, and by the script where they do not suffice. The clock is read
    /// first, and epoch and entry at once after it. So a ticket is no younger than it says and its
    /// epoch no older: an invalidation in between counts as one before the ticket.
    async fn read(&self, key: &Key) -> Result<CacheRead> {
        if let Some((now, values)) = self.reads.read(|| self.keys(key).into()).await?
            && let Ok([Value::BulkString(epoch), entry]) = <[Value; 2]>::try_from(values)
        {
            return found(now, epoch, entry);
        }
        let call = self.call(&self.read, key).arg(epoch()).arg(EPOCH_MILLIS);
        self.link
            .run(&call, Access::Read, nothing)
            .await
            .and_then(read)
    }
}

/// Shows the namespace, not the server's address.
impl fmt::Debug for RedisCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisCache")
            .field("namespace", &self.inner.namespace)
            .finish_non_exhaustive()
    }
}

/// Returns 128 random bits.
fn epoch() -> Vec<u8> {
    AttemptId::random().as_bytes().to_vec()
}

fn read(answer: Value) -> Result<CacheRead> {
    let Ok([Value::Int(now), Value::BulkString(epoch), entry]) =
        <[Value; 3]>::try_from(items(answer)?)
    else {
        return Err(nonsense());
    };
    found(now, epoch, entry)
}

fn found(now: i64, epoch: Vec<u8>, entry: Value) -> Result<CacheRead> {
    let hit = match entry {
        Value::Nil => None,
        Value::BulkString(value) => hit(value.into(), now),
        _ => return Err(nonsense()),
    };
    let issued_at = now;
    Ok(CacheRead {
        hit,
        ticket: CacheTicket { epoch, issued_at },
    })
}

/// Returns `None`, too, for bytes that no cache of this crate has stored, and when the clock was
/// set back behind the ticket's: then the age of the entry is unknown.
fn hit(mut value: Bytes, now: i64) -> Option<CacheHit> {
    if value.len() < STAMP_BYTES {
        return None;
    }
    let (issued_at, ends_at) = (value.get_i64(), value.get_i64());
    let micros = |span: i64| Duration::from_micros(u64::try_from(span).unwrap_or(0));
    (issued_at <= now && ends_at > now).then(|| CacheHit {
        entry: value,
        age: micros(now.saturating_sub(issued_at)),
        remaining: micros(ends_at.saturating_sub(now)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(issued_at: i64, ends_at: i64) -> Bytes {
        let stamp = [issued_at.to_be_bytes(), ends_at.to_be_bytes()].concat();
        [stamp, b"entry".to_vec()].concat().into()
    }

    #[test]
    fn an_entry_has_its_age_and_the_time_left() {
        let found = hit(value(1_000, 9_000), 4_000).unwrap();
        assert_eq!(found.entry, "entry");
        assert_eq!(found.age, Duration::from_micros(3_000));
        assert_eq!(found.remaining, Duration::from_micros(5_000));
        let shown = format!("{found:?}");
        assert!(
            shown.contains("bytes: 5") && !shown.contains("entry"),
            "{shown}"
        );
    }

    #[test]
    fn an_entry_that_cannot_be_judged_is_no_hit() {
        assert!(hit(value(1_000, 9_000), 9_000).is_none());
        assert!(hit(value(1_000, 9_000), 999).is_none());
        assert!(hit(value(i64::MIN, i64::MAX), 0).is_some());
        assert!(hit(Bytes::from_static(b"short"), 0).is_none());
    }
}
