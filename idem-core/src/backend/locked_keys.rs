//! [`LockedKeys`]: keys that open transactions keep locked, so that few callers wait for them.

use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::fmt;
use std::hash::BuildHasher;
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

/// The number of keys from which a shard forgets those that nobody claimed lately.
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
///   claims of a locked key read it, one caller at a time: [`read_pause`](Self::read_pause).
///
/// It is a hint and proves nothing: decisions come from the server alone. A keyed hash of 64 bits
/// tells keys apart; two keys with the same hash share their turns. Clones share their state.
#[derive(Clone)]
pub struct LockedKeys(Arc<Inner>);

struct Inner {
    hasher: RandomState,
    shards: [Mutex<HashMap<u64, State>>; SHARDS],
}

/// The state of a key that is not simply free.
struct State {
    /// The end of the turn that is under way, if one is.
    turn: Option<Arc<Notify>>,
    /// How long the key is refused, while it counts as locked.
    locked: Option<Lock>,
    /// When the read of the locked key began that did not answer.
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

    /// Returns whether a wait for the key's lock was in vain a moment ago: for statements in a
    /// caller's transaction, which takes no turn because it may hold the lock itself.
    #[must_use]
    pub fn is_locked(&self, key: &Key) -> bool {
        self.0.is_locked(self.0.hash(key))
    }

    /// Returns whether the key is locked, or was a moment ago: a batch with this key may have to
    /// wait for the lock.
    pub(crate) fn was_locked(&self, key: &Key) -> bool {
        let hash = self.0.hash(key);
        let locked = self.0.shard(hash).get(&hash).and_then(|state| state.locked);
        locked.is_some_and(|lock| lock.is_recent(Instant::now()))
    }

    /// Returns how long no caller reads the record of this key, because it is locked and a recent
    /// read did not answer; up to 10 ms.
    ///
    /// A claim that gets a pause waits for as long, without a connection, and returns `Contention`.
    /// The next claim finds what was committed meanwhile.
    #[must_use]
    pub fn read_pause(&self, key: &Key) -> Option<Duration> {
        let hash = self.0.hash(key);
        let state = self.0.shard(hash);
        let state = state.get(&hash).filter(|state| state.locked.is_some())?;
        let left = READ_PAUSE.saturating_sub(state.read?.elapsed());
        (!left.is_zero()).then_some(left)
    }

    /// Remembers that a read of a locked key, begun at this moment, did not answer. Remembers
    /// nothing of a key that is not known to be locked.
    pub fn read_in_vain(&self, key: &Key, begun: Instant) {
        let hash = self.0.hash(key);
        let mut shard = self.0.shard(hash);
        if let Some(state) = shard.get_mut(&hash).filter(|state| state.locked.is_some()) {
            state.read = Some(begun);
        }
    }

    /// Remembers that a wait for the key's lock was in vain, where no turn was taken.
    pub fn found_locked(&self, key: &Key) {
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
}

impl Lock {
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
                match (&known.turn, known.locked) {
                    // One caller tests whether it still is locked; nobody waits for that one.
                    (Some(_), Some(_)) => return Admission::Locked,
                    (Some(turn), None) => return Admission::Busy(Arc::clone(turn)),
                    (None, locked) => {
                        known.turn = Some(Arc::default());
                        locked.map(|lock| lock.pause)
                    }
                }
            }
        };
        Admission::Turn(Turn {
            keys: Arc::clone(self),
            hash,
            pause,
            ends_with: None,
        })
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
    fn is_locked(&self, now: Instant) -> bool {
        self.locked.is_some_and(|lock| now < lock.until)
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
    async fn one_caller_has_the_turn_and_others_look_again_after_it() {
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
            assert!(other.await.unwrap().unwrap().is_none(), "look again");
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
            "nobody waits for the one who tries"
        );
        drop(trying);
        assert!(matches!(keys.try_turn(&key), TryTurn::Turn(_)), "free");
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_of_a_locked_key_that_did_not_answer_spares_the_others_theirs() {
        let (keys, key) = (LockedKeys::new(), key("one"));
        keys.read_in_vain(&key, Instant::now());
        assert_eq!(keys.read_pause(&key), None, "not locked");
        turn(&keys, &key).await.found_locked();
        assert_eq!(keys.read_pause(&key), None, "not read");
        keys.read_in_vain(&key, Instant::now());
        tokio::time::advance(Duration::from_millis(4)).await;
        assert_eq!(keys.read_pause(&key), Some(Duration::from_millis(6)));
        tokio::time::advance(Duration::from_millis(6)).await;
        assert_eq!(keys.read_pause(&key), None);
        tokio::time::advance(Duration::from_secs(1)).await;
        drop(turn(&keys, &key).await);
        keys.read_in_vain(&key, Instant::now());
        assert_eq!(keys.read_pause(&key), None, "free again");
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_wait_for_a_turn_that_finds_the_key_locked_wait_no_longer() {
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
    async fn what_a_transaction_has_found_is_remembered() {
        let (keys, key) = (LockedKeys::new(), key("one"));
        assert!(!keys.is_locked(&key));
        keys.found_locked(&key);
        assert!(keys.is_locked(&key) && is_refused(&keys, &key));
        tokio::time::advance(FIRST_PAUSE).await;
        assert!(!keys.is_locked(&key));
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_locked_long_ago_is_forgotten() {
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
