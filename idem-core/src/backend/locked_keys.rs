//! [`LockedKeys`]: keys that open transactions keep locked, so that few callers wait for them.

use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::fmt;
use std::future::Future;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::{Effect, Error, ErrorKind, Key, Result};

/// How long a statement of a store itself waits for the lock of a key: 100 ms.
///
/// Only open transactions of callers hold a lock for longer; a statement that commits by itself
/// holds its lock for one flush of the server's log.
pub const MAX_LOCK_WAIT: Duration = Duration::from_millis(100);

/// How long a key counts as locked after the first wait in vain; each further wait in vain doubles
/// it.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How long no other caller reads a locked key after a read of it did not answer.
const READ_PAUSE: Duration = Duration::from_millis(10);

/// The number of keys from which a shard forgets those without a recent claim.
const SHARD_SIZE: usize = 64;
const SHARDS: usize = 64;

/// Tracks keys that an open transaction keeps locked: for authors of stores.
///
/// A statement that waits for a lock occupies a connection. If every caller of a locked key waited,
/// a dozen of them would take all connections of a store and block all other keys. So a store takes
/// the key's [`turn`](Self::turn) before a statement that may wait for the lock of its key:
///
/// * one caller of a process at a time sends such a statement for a key; the others wait without
///   a connection;
/// * the server bounds the statement's wait for the lock to [`MAX_LOCK_WAIT`]. When that has passed
///   in vain, the store reports it with [`Turn::found_locked`]. From then on the key is refused
///   with `Contention` without a wait, for 100 ms at first and 1 s at most; then one caller tries
///   again;
/// * a record that was committed before the key was locked answers a claim without a lock. So
///   claims of a locked key [`read`](Self::read) it. While reads do not answer, one caller reads,
///   every 10 ms.
///
/// It is a hint and proves nothing: decisions come from the server alone. A keyed hash of 64 bits
/// distinguishes keys; two keys with the same hash share their turns. Clones share their state.
#[derive(Clone)]
pub struct LockedKeys(Arc<Inner>);

struct Inner {
    /// Whether a key was ever found locked: callers without a turn look for none before.
    has_found: AtomicBool,
    hasher: RandomState,
    shards: [Mutex<HashMap<u64, State>>; SHARDS],
}

/// The state of a key that is not simply free.
struct State {
    /// The end of the turn that is under way, if one is.
    turn: Option<Arc<Notify>>,
    /// How long the key is refused, while it counts as locked.
    locked: Option<Lock>,
    /// When the last read of the locked key began, if reads do not answer.
    read: Option<Instant>,
}

#[derive(Clone, Copy)]
struct Lock {
    until: Instant,
    pause: Duration,
}

/// The right to send a statement that may wait for the key's lock. Its drop ends it.
pub struct Turn {
    keys: Arc<Inner>,
    hash: u64,
    /// The pause before this one, if the key was found locked then.
    pause: Option<Duration>,
    ends_with: Option<Lock>,
}

/// The answer of [`LockedKeys::try_turn`].
#[derive(Debug)]
pub enum TryTurn {
    /// Send the statement.
    Turn(Turn),
    /// Send this key by itself, after the batch: another caller of this process has its turn, or
    /// the key was locked a moment ago and would delay the whole batch.
    Busy,
    /// The key is known to be locked: return this error.
    Locked(Error),
}

enum Admission {
    Turn(Turn),
    /// Ends with the turn of another caller.
    Busy(Arc<Notify>),
    Locked,
}

impl LockedKeys {
    /// Creates a value that knows no locked key.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Inner {
            has_found: AtomicBool::new(false),
            hasher: RandomState::new(),
            shards: std::array::from_fn(|_| Mutex::default()),
        }))
    }

    /// Returns the error for a key that an open transaction holds: `Contention`, without effect.
    #[must_use]
    pub fn error() -> Error {
        Error::new(
            ErrorKind::Contention,
            Effect::None,
            "an open transaction holds the key; ask again when it has ended",
        )
    }

    /// Waits for the key's turn, for at most `limit` and without a connection.
    ///
    /// Returns `None` after the turn of another caller of this process: read the record first,
    /// which may answer, and take a turn again if it does not.
    ///
    /// # Errors
    ///
    /// `Contention`, without effect, when the key is known to be locked, and when no turn came
    /// within `limit`.
    ///
    /// # Cancellation
    ///
    /// Without effect.
    pub async fn turn(&self, key: &Key, limit: Duration) -> Result<Option<Turn>> {
        let hash = self.0.hash(key);
        let other = match self.0.admit(hash) {
            Admission::Turn(turn) => return Ok(Some(turn)),
            Admission::Locked => return Err(Self::error()),
            Admission::Busy(other) => other,
        };
        let ended = other.notified();
        tokio::pin!(ended);
        // From here on the end of the turn cannot be missed.
        ended.as_mut().enable();
        if !self.0.is_turn(hash, &other) {
            return self.after_another(hash);
        }
        match timeout(limit, ended).await {
            Ok(()) => self.after_another(hash),
            Err(_) => Err(Error::new(
                ErrorKind::Contention,
                Effect::None,
                format!(
                    "another caller of this process waits for the key for {} ms already; ask again",
                    limit.as_millis()
                ),
            )),
        }
    }

    fn after_another(&self, hash: u64) -> Result<Option<Turn>> {
        match self.0.is_locked(hash) {
            true => Err(Self::error()),
            false => Ok(None),
        }
    }

    /// Returns the key's turn if it is free: for batches, which leave other keys out.
    #[must_use]
    pub fn try_turn(&self, key: &Key) -> TryTurn {
        match self.0.admit(self.0.hash(key)) {
            Admission::Turn(turn) if turn.pause.is_some() => {
                turn.give_back();
                TryTurn::Busy
            }
            Admission::Turn(turn) => TryTurn::Turn(turn),
            Admission::Busy(_) => TryTurn::Busy,
            Admission::Locked => TryTurn::Locked(Self::error()),
        }
    }

    /// Returns whether a wait for the key's lock was in vain a moment ago, or a caller tests whether
    /// the key is still locked. A statement in a caller's transaction takes no turn, because the
    /// transaction may hold the lock itself; it does not wait for the lock of such a key.
    #[must_use]
    pub fn is_locked(&self, key: &Key) -> bool {
        self.0.is_locked(self.0.hash(key))
    }

    /// Returns whether the key is locked, or was a moment ago: a batch with this key, or the caller
    /// that tries it again, may have to wait for the lock.
    #[must_use]
    pub fn was_locked(&self, key: &Key) -> bool {
        if !self.0.has_found.load(Ordering::Relaxed) {
            return false;
        }
        let hash = self.0.hash(key);
        let locked = self.0.shard(hash).get(&hash).and_then(|state| state.locked);
        locked.is_some_and(|lock| lock.is_recent(Instant::now()))
    }

    /// Reads the record of a locked key with `read`, which waits for no lock. `None`: no committed
    /// record answers; return [`error`](Self::error).
    ///
    /// After a read that did not answer, one caller reads again, 10 ms later. The others wait for
    /// up to 10 ms, without a connection, and get `None`; their next claims find what was committed
    /// meanwhile. So many callers of a locked key do not use up the connections.
    ///
    /// # Errors
    ///
    /// Those of `read`.
    ///
    /// # Cancellation
    ///
    /// As for `read`.
    pub async fn read<T>(
        &self,
        key: &Key,
        read: impl Future<Output = Result<Option<T>>>,
    ) -> Result<Option<T>> {
        let hash = self.0.hash(key);
        if let Some(pause) = self.0.read_pause(hash) {
            tokio::time::sleep(pause).await;
            return Ok(None);
        }
        let begun = Instant::now();
        let answer = read.await?;
        if let Some(state) = self.0.shard(hash).get_mut(&hash) {
            state.read = answer.is_none().then_some(begun);
        }
        Ok(answer)
    }

    /// Remembers that a wait for the key's lock was in vain, where no turn was taken.
    pub fn found_locked(&self, key: &Key) {
        self.0.has_found.store(true, Ordering::Relaxed);
        let hash = self.0.hash(key);
        let mut shard = self.0.shard(hash);
        let state = shard.entry(hash).or_insert(State {
            turn: None,
            locked: None,
            read: None,
        });
        let lock = Lock::after(state.locked.map(|lock| lock.pause));
        state.locked = Some(lock);
    }
}

impl Default for LockedKeys {
    fn default() -> Self {
        Self::new()
    }
}

impl Lock {
    fn after(pause: Option<Duration>) -> Self {
        let pause = pause.map_or(FIRST_PAUSE, |pause| (pause * 2).min(LONGEST_PAUSE));
        Self {
            until: Instant::now() + pause,
            pause,
        }
    }

    /// Returns whether the next wait in vain continues this one.
    fn is_recent(self, now: Instant) -> bool {
        now < self.until + self.pause
    }
}

impl Inner {
    fn hash(&self, key: &Key) -> u64 {
        self.hasher.hash_one(key)
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, HashMap<u64, State>> {
        // The low bits choose the bucket within the shard.
        let index = (hash >> (u64::BITS - SHARDS.ilog2())) as usize;
        self.shards[index]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn admit(self: &Arc<Self>, hash: u64) -> Admission {
        let mut shard = self.shard(hash);
        if shard.len() >= SHARD_SIZE {
            let now = Instant::now();
            shard.retain(|_, state| {
                state.turn.is_some() || state.locked.is_some_and(|lock| lock.is_recent(now))
            });
        }
        let pause = match shard.entry(hash) {
            Entry::Vacant(free) => {
                free.insert(State {
                    turn: Some(Arc::default()),
                    locked: None,
                    read: None,
                });
                None
            }
            Entry::Occupied(mut known) => {
                let (known, now) = (known.get_mut(), Instant::now());
                if known.is_locked(now) {
                    return Admission::Locked;
                }
                known.locked = known.locked.filter(|lock| lock.is_recent(now));
                if let Some(turn) = &known.turn {
                    return Admission::Busy(Arc::clone(turn));
                }
                known.turn = Some(Arc::default());
                known.locked.map(|lock| lock.pause)
            }
        };
        Admission::Turn(Turn {
            keys: Arc::clone(self),
            hash,
            pause,
            ends_with: None,
        })
    }

    /// Returns how long the caller leaves the read of the record to another one. `None`: it reads,
    /// and is the only one for the next 10 ms if reads do not answer.
    fn read_pause(&self, hash: u64) -> Option<Duration> {
        let mut shard = self.shard(hash);
        let state = shard.get_mut(&hash)?;
        let left = READ_PAUSE.saturating_sub(state.read?.elapsed());
        if left.is_zero() {
            state.read = Some(Instant::now());
        }
        (!left.is_zero()).then_some(left)
    }

    fn is_turn(&self, hash: u64, turn: &Arc<Notify>) -> bool {
        let shard = self.shard(hash);
        let current = shard.get(&hash).and_then(|state| state.turn.as_ref());
        current.is_some_and(|current| Arc::ptr_eq(current, turn))
    }

    fn is_locked(&self, hash: u64) -> bool {
        let shard = self.shard(hash);
        shard
            .get(&hash)
            .is_some_and(|state| state.is_locked(Instant::now()))
    }

    /// Ends a turn; callers that wait for it check again.
    fn end(&self, hash: u64, locked: Option<Lock>) {
        let mut shard = self.shard(hash);
        let ended = match locked {
            Some(_) => shard.get_mut(&hash).and_then(|state| {
                state.locked = locked;
                state.turn.take()
            }),
            None => shard.remove(&hash).and_then(|state| state.turn),
        };
        drop(shard);
        if let Some(turn) = ended {
            turn.notify_waiters();
        }
    }
}

impl State {
    /// Returns whether a wait for the lock was in vain a moment ago, or one caller tests whether
    /// the key is still locked: no other caller waits for that one.
    fn is_locked(&self, now: Instant) -> bool {
        let is_tested = self.turn.is_some();
        self.locked
            .is_some_and(|lock| now < lock.until || is_tested && lock.is_recent(now))
    }
}

impl Turn {
    /// Ends a turn that found out nothing about the key: its state stays.
    fn give_back(mut self) {
        let now = Instant::now();
        self.ends_with = self.pause.map(|pause| Lock { until: now, pause });
    }

    /// Reports that the wait for the key's lock was in vain: the key counts as locked for a while.
    pub fn found_locked(mut self) {
        self.keys.has_found.store(true, Ordering::Relaxed);
        let lock = Lock::after(self.pause);
        self.ends_with = Some(lock);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.keys.end(self.hash, self.ends_with);
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").finish_non_exhaustive()
    }
}

impl fmt::Debug for LockedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockedKeys").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    fn key(id: &str) -> Key {
        Key::new("tenant", "pay", id).unwrap()
    }

    const LIMIT: Duration = Duration::from_secs(10);

    async fn turn(keys: &LockedKeys, key: &Key) -> Turn {
        keys.turn(key, LIMIT).await.unwrap().unwrap()
    }

    fn is_refused(keys: &LockedKeys, key: &Key) -> bool {
        matches!(keys.try_turn(key), TryTurn::Locked(_))
    }

    #[tokio::test(start_paused = true)]
    async fn one_caller_has_the_turn_and_others_look_up_the_key_after_it() {
        let (keys, key) = (LockedKeys::new(), key("one"));
        let first = turn(&keys, &key).await;
        assert!(matches!(keys.try_turn(&key), TryTurn::Busy));
        let others: Vec<_> = (0..64)
            .map(|_| {
                let (keys, key) = (keys.clone(), key.clone());
                tokio::spawn(async move { keys.turn(&key, LIMIT).await })
            })
            .collect();
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(others.iter().all(|other| !other.is_finished()));
        drop(first);
        for other in others {
            assert!(other.await.unwrap().unwrap().is_none(), "look up again");
        }
        drop(turn(&keys, &key).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_locked_key_is_refused_for_longer_each_time_and_one_caller_tries_again() {
        let (keys, key) = (LockedKeys::new(), key("one"));
        for pause in [100, 200, 400, 800, 1000, 1000] {
            turn(&keys, &key).await.found_locked();
            let error = keys.turn(&key, LIMIT).await.unwrap_err();
            assert_eq!(
                (error.kind(), error.effect()),
                (ErrorKind::Contention, Effect::None)
            );
            tokio::time::advance(Duration::from_millis(pause - 1)).await;
            assert!(keys.is_locked(&key) && is_refused(&keys, &key));
            tokio::time::advance(Duration::from_millis(1)).await;
            assert!(!keys.is_locked(&key));
        }
        assert!(matches!(keys.try_turn(&key), TryTurn::Busy), "by itself");
        let trying = turn(&keys, &key).await;
        assert!(
            is_refused(&keys, &key),
            "no caller waits for the one that tries"
        );
        drop(trying);
        assert!(matches!(keys.try_turn(&key), TryTurn::Turn(_)), "free");
    }

    /// Reads with 64 callers; returns how many of them have read, and when the last one returned.
    async fn reads(keys: &LockedKeys, key: &Key, answer: Option<u32>) -> (usize, Duration) {
        let (begun, count) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
        let mut callers = tokio::task::JoinSet::new();
        for _ in 0..64 {
            let (keys, key, count) = (keys.clone(), key.clone(), Arc::clone(&count));
            callers.spawn(async move {
                let read = async {
                    count.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    Ok(answer)
                };
                keys.read(&key, read).await.unwrap()
            });
        }
        for returned in callers.join_all().await {
            assert!(returned.is_none() || returned == answer);
        }
        (count.load(Ordering::Relaxed), begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn while_reads_of_a_locked_key_do_not_answer_one_caller_reads() {
        let (keys, key) = (LockedKeys::new(), key("one"));
        turn(&keys, &key).await.found_locked();
        let at = Duration::from_millis;
        assert_eq!(reads(&keys, &key, None).await, (64, at(1)), "not known yet");
        assert_eq!(reads(&keys, &key, None).await, (0, at(9)), "all wait");
        assert_eq!(reads(&keys, &key, None).await, (1, at(10)), "for one");
        assert_eq!(reads(&keys, &key, Some(7)).await, (1, at(10)), "it answers");
        assert_eq!(reads(&keys, &key, Some(7)).await, (64, at(1)), "to each");
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_is_dropped_or_fails_is_followed_by_another() {
        let (keys, key) = (LockedKeys::new(), key("one"));
        turn(&keys, &key).await.found_locked();
        assert_eq!(reads(&keys, &key, None).await.0, 64);
        tokio::time::advance(READ_PAUSE).await;
        let dropped = keys.read(&key, std::future::pending::<Result<Option<()>>>());
        assert!(timeout(Duration::ZERO, dropped).await.is_err());
        assert_eq!(reads(&keys, &key, None).await.0, 0);
        let failed = keys.read(&key, async { Err::<Option<()>, _>(Error::claim_lost()) });
        assert!(failed.await.is_err());
        assert_eq!(reads(&keys, &key, None).await.0, 0);
        assert_eq!(reads(&keys, &key, None).await.0, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn callers_that_wait_for_a_turn_stop_when_it_finds_the_key_locked() {
        let (keys, key) = (LockedKeys::new(), key("one"));
        let first = turn(&keys, &key).await;
        let other = {
            let (keys, key) = (keys.clone(), key.clone());
            tokio::spawn(async move { keys.turn(&key, LIMIT).await })
        };
        tokio::task::yield_now().await;
        first.found_locked();
        let error = other.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Contention);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_for_a_turn_has_an_end() {
        let (keys, key) = (LockedKeys::new(), key("one"));
        let _first = turn(&keys, &key).await;
        let begun = Instant::now();
        let error = keys.turn(&key, LIMIT).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Contention);
        assert_eq!(begun.elapsed(), LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn other_keys_go_on() {
        let keys = LockedKeys::new();
        turn(&keys, &key("locked")).await.found_locked();
        for n in 0..1000 {
            drop(turn(&keys, &key(&n.to_string())).await);
        }
        assert!(keys.is_locked(&key("locked")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_found_locked_in_a_transaction_is_remembered() {
        let (keys, key) = (LockedKeys::new(), key("one"));
        assert!(!keys.is_locked(&key));
        keys.found_locked(&key);
        assert!(keys.is_locked(&key) && is_refused(&keys, &key));
        tokio::time::advance(FIRST_PAUSE).await;
        assert!(!keys.is_locked(&key));
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_was_locked_long_ago_is_forgotten() {
        let keys = LockedKeys::new();
        for n in 0..10_000 {
            turn(&keys, &key(&n.to_string())).await.found_locked();
        }
        tokio::time::advance(3 * LONGEST_PAUSE).await;
        for n in 0..100_000 {
            drop(turn(&keys, &key(&format!("fresh {n}"))).await);
        }
        let known = keys
            .0
            .shards
            .iter()
            .map(|shard| shard.lock().unwrap().len());
        assert!(known.sum::<usize>() <= SHARDS * SHARD_SIZE);
    }
}
