//! [`NonceWindow`]: a message that is sent again within minutes is posted once.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use idem_core::backend::Subscription;
use idem_core::{AttemptId, Effect, Error, Key, Nonce, Result};
use redis::Value;
use tokio::time::Instant;

use crate::error::Access;
use crate::operations::{nonsense, nothing};
use crate::script::{Call, Script};
use crate::store::{BACKEND, RedisStore};

/// The first byte of a nonce's value: either a pending try, with its random mark, or the message's
/// id.
const PENDING: u8 = b'p';
const POSTED: u8 = b'i';

/// The operation in the keys of nonces, beside author and nonce.
const OPERATION: &str = "nonce";

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Whether a nonce is only passed on, or also keeps its author from posting twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Enforce {
    /// The nonce only lets the client recognise its message; nothing is looked up or kept.
    #[default]
    No,
    /// Within the window, a second message of this author with this nonce is not posted: it gets
    /// the first one's id.
    Yes,
}

/// The result of a post.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Posted {
    /// It was posted under this id.
    Now(String),
    /// It had been posted before, under this id.
    Before(String),
}

impl Posted {
    /// Returns the message's id.
    #[must_use]
    pub fn id(&self) -> &str {
        let (Self::Now(id) | Self::Before(id)) = self;
        id
    }
}

/// Why a message has no id.
#[derive(Debug)]
#[non_exhaustive]
pub enum NonceError<E> {
    /// Another try with this nonce has not ended within the wait, or its process is gone. It is
    /// unknown whether it has posted, and the nonce is free again when its window ends.
    Pending,
    /// Redis could not be reached; nothing was posted.
    Store(Error),
    /// The message was not posted, according to the post function. The nonce is free again.
    Post(E),
    /// The post function has panicked, or the runtime has ended: it may be posted or not. The nonce
    /// is free again when its window ends.
    Interrupted,
}

impl<E: fmt::Display> fmt::Display for NonceError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pending => f.write_str("a message with this nonce is being posted; ask again"),
            Self::Store(error) => write!(f, "the nonce could not be looked up: {error}"),
            Self::Post(error) => write!(f, "the message was not posted: {error}"),
            Self::Interrupted => f.write_str("posting was interrupted; the message may be posted"),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for NonceError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Store(error) => Some(error),
            Self::Post(error) => Some(error),
            Self::Pending | Self::Interrupted => None,
        }
    }
}

/// Short keys that clients make for their messages, honoured for some minutes:
/// `SET key pending NX PX window`, later replaced by the message's id. Lighter than a claim: no
/// lease, no fingerprint, no takeover. For work whose loss or repetition costs money use
/// [`IdempotencyStore`](idem_core::IdempotencyStore).
///
/// A try that dies leaves its nonce pending until the window ends, so a message is posted at most
/// once in a window. A failover loses the same as with the store (see the README). A post that
/// fails frees its nonce. The example `chat_nonce` serves it over HTTP.
///
/// ```no_run
/// use idem_core::Nonce;
/// use idem_redis::{Config, Enforce, NonceWindow, Posted, RedisStore};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let window = NonceWindow::new(RedisStore::connect("redis://localhost", Config::new()).await?);
/// let nonce = Nonce::new("8f14e45f")?;
/// let store_message = || async { Ok::<_, std::io::Error>("message 1".to_owned()) };
/// let posted = window.post("ada", Some(&nonce), Enforce::Yes, store_message).await?;
/// assert!(matches!(posted, Posted::Now(_) | Posted::Before(_)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct NonceWindow {
    store: RedisStore,
    end: Arc<Script>,
    window: Duration,
    wait: Duration,
}

impl NonceWindow {
    /// Creates a window of 300 s on this store's server and in its namespace; duplicates wait up to
    /// 5 s for the id.
    #[must_use]
    pub fn new(store: RedisStore) -> Self {
        Self {
            store,
            end: Arc::new(Script::new(include_str!("scripts/nonce_end.lua"))),
            window: Duration::from_secs(300),
            wait: Duration::from_secs(5),
        }
    }

    /// Sets how long a nonce is honoured, from its first use; rounded up to whole milliseconds, at
    /// least 1.
    #[must_use]
    pub fn with_window(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    /// Sets how long a duplicate waits for the id of a message that is being posted; zero: not at
    /// all.
    #[must_use]
    pub fn with_wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Posts a message, except when this author has posted one with this nonce within the window;
    /// returns its id either way. Without a nonce, or where it is not enforced, the message is just
    /// posted.
    ///
    /// `author` is the client as the server has identified it, never what the client says of
    /// itself; 1 to 255 bytes without control characters. `post` stores the message and returns its
    /// id. It runs in a task of its own and finishes even when the caller goes away, so that a
    /// retry gets the id.
    ///
    /// # Errors
    ///
    /// See [`NonceError`].
    ///
    /// # Cancellation
    ///
    /// The message is posted or not; the same nonce returns the state.
    pub async fn post<E, F, Fut>(
        &self,
        author: &str,
        nonce: Option<&Nonce>,
        enforce: Enforce,
        post: F,
    ) -> Result<Posted, NonceError<E>>
    where
        E: Send + 'static,
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<String, E>> + Send,
    {
        let Some(nonce) = nonce.filter(|_| enforce == Enforce::Yes) else {
            return post().await.map(Posted::Now).map_err(NonceError::Post);
        };
        let at = |error: Error| NonceError::Store(error.at(BACKEND, "nonce"));
        let key = Key::new(author, OPERATION, nonce.as_str()).map_err(at)?;
        let window = self.clone();
        let whole = tokio::spawn(async move { window.post_once(&key, post).await });
        match whole.await {
            Ok(posted) => posted,
            Err(_) => Err(NonceError::Interrupted),
        }
    }

    async fn post_once<E, F, Fut>(&self, key: &Key, post: F) -> Result<Posted, NonceError<E>>
    where
        F: FnOnce() -> Fut + Send,
        Fut: Future<Output = Result<String, E>> + Send,
        E: Send,
    {
        let mark = mark();
        match self.begin(key, &mark).await {
            Ok(Begun::Mine) => {}
            Ok(Begun::Posted(id)) => return Ok(Posted::Before(id)),
            Ok(Begun::Pending) => return Err(NonceError::Pending),
            Err(error) => {
                // The lost answer may have granted the nonce to this try.
                if error.effect() == Effect::Unknown {
                    self.end(key, &mark, None).await;
                }
                return Err(NonceError::Store(error.at(BACKEND, "nonce")));
            }
        }
        let posted = post().await;
        self.end(key, &mark, posted.as_deref().ok()).await;
        posted.map(Posted::Now).map_err(NonceError::Post)
    }

    fn name(&self, key: &Key) -> String {
        let namespace = self.store.config().namespace();
        format!("{namespace}:n:{}", key.path())
    }

    /// Takes the nonce, or waits for the result of another try. After a lost answer the step is
    /// repeated: the mark identifies the owner.
    async fn begin(&self, key: &Key, mark: &[u8]) -> Result<Begun> {
        let mut pauses = Pauses::within(self.wait);
        let mut listener = None;
        let mut has_waited = false;
        loop {
            match self.lookup(key, mark).await {
                Ok(Some(Begun::Pending)) if !pauses.are_over() => {}
                Ok(Some(begun)) => return Ok(begun),
                // The other try ended between two steps.
                Ok(None) => continue,
                Err(error) if !error.is_retryable() || pauses.are_over() => return Err(error),
                Err(_) => {
                    pauses.next(None).await;
                    continue;
                }
            }
            if !has_waited {
                has_waited = true;
                let channel = self.store.operations.channel(key);
                listener = self.store.hub.listen(channel).await.ok();
                // The next step sees at once what happened before.
                if listener.is_some() {
                    continue;
                }
            }
            pauses.next(listener.as_mut()).await;
        }
    }

    /// Takes the nonce, or returns its owner; `None` when it was free again by the second step.
    async fn lookup(&self, key: &Key, mark: &[u8]) -> Result<Option<Begun>> {
        if self.take(key, mark).await? {
            return Ok(Some(Begun::Mine));
        }
        let Some(found) = self.found(key).await? else {
            return Ok(None);
        };
        if found == mark {
            // The answer to an earlier step was lost, or replicas did not have it in time.
            return Ok(self.take_again(key, mark).await?.then_some(Begun::Mine));
        }
        match found.split_first() {
            Some((&PENDING, _)) => Ok(Some(Begun::Pending)),
            Some((&POSTED, id)) => {
                let id = String::from_utf8(id.to_vec());
                let id =
                    id.map_err(|error| Error::corrupt("an id is not UTF-8").with_source(error))?;
                let waits = self.store.config().replicas().is_some();
                // Replicas may not have the id yet.
                if waits && !self.take_again(key, &found).await? {
                    return Ok(None);
                }
                Ok(Some(Begun::Posted(id)))
            }
            _ => Err(Error::corrupt("what stands under a nonce is none of ours")),
        }
    }

    /// Returns whether the nonce was free.
    async fn take(&self, key: &Key, mark: &[u8]) -> Result<bool> {
        let millis = self.window.as_nanos().div_ceil(1_000_000);
        let millis = u64::try_from(millis).unwrap_or(u64::MAX >> 12).max(1);
        let mut cmd = redis::cmd("SET");
        cmd.arg(self.name(key))
            .arg(mark)
            .arg("NX")
            .arg("PX")
            .arg(millis);
        let taken = |answer: &Value| *answer == Value::Okay;
        let call = Call::plain(cmd);
        let answer = self.store.link.run(&call, Access::Write, taken).await?;
        Ok(answer == Value::Okay)
    }

    /// Returns whether it still has this value, on the replicas, too.
    async fn take_again(&self, key: &Key, mark: &[u8]) -> Result<bool> {
        let call = self.end.call(&self.name(key)).arg(mark).arg(mark).arg("");
        let answer = self.store.link.run(&call, Access::Write, is_one).await?;
        Ok(is_one(&answer))
    }

    async fn found(&self, key: &Key) -> Result<Option<Vec<u8>>> {
        let mut cmd = redis::cmd("GET");
        cmd.arg(self.name(key));
        let call = Call::plain(cmd);
        match self.store.link.run(&call, Access::Read, nothing).await? {
            Value::Nil => Ok(None),
            Value::BulkString(found) => Ok(Some(found)),
            _ => Err(nonsense()),
        }
    }

    /// Replaces the mark by the id, or frees the nonce when there is none. Repeated for as long as
    /// a duplicate would wait: after that the nonce stays pending until the window ends.
    async fn end(&self, key: &Key, mark: &[u8], id: Option<&str>) {
        let posted = id.map(|id| [&[POSTED], id.as_bytes()].concat());
        let call = self
            .end
            .call(&self.name(key))
            .arg(mark)
            .arg(posted.unwrap_or_default())
            .arg(self.store.operations.channel_of(key));
        let longest = self.wait.max(self.store.config().timeout());
        let mut pauses = Pauses::within(longest);
        while let Err(error) = self.store.link.run(&call, Access::Write, is_one).await {
            if !error.is_retryable() || pauses.are_over() {
                return;
            }
            pauses.next(None).await;
        }
    }
}

/// The owner of a nonce.
enum Begun {
    Mine,
    Posted(String),
    Pending,
}

/// Returns whether the script has written.
fn is_one(answer: &Value) -> bool {
    *answer == Value::Int(1)
}

/// Returns the mark of one try, which no other try has.
fn mark() -> Vec<u8> {
    [&[PENDING], &AttemptId::random().as_bytes()[..]].concat()
}

/// Jittered pauses that double, up to a deadline.
struct Pauses {
    next: Duration,
    deadline: Instant,
}

impl Pauses {
    fn within(limit: Duration) -> Self {
        let now = Instant::now();
        Self {
            next: FIRST_PAUSE,
            // A limit beyond the range of the clock counts as a year.
            deadline: now
                .checked_add(limit)
                .unwrap_or_else(|| now + Duration::from_secs(365 * 24 * 60 * 60)),
        }
    }

    fn are_over(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// Waits until the listener is notified, or the pause has passed, or the deadline has.
    async fn next(&mut self, listener: Option<&mut Subscription>) {
        let returned = async {
            match listener {
                Some(listener) => listener.changed().await,
                None => std::future::pending().await,
            }
        };
        let pause = self.next.mul_f64(rand::random_range(0.5..=1.0));
        let until = (Instant::now() + pause).min(self.deadline);
        self.next = (self.next * 2).min(LONGEST_PAUSE);
        // Either way it is read again.
        let _ = tokio::time::timeout_at(until, returned).await;
    }
}

impl fmt::Debug for NonceWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NonceWindow")
            .field("store", &self.store)
            .field("window", &self.window)
            .field("wait", &self.wait)
            .finish_non_exhaustive()
    }
}
