//! One call: the key, the tries, and the judgement of each answer.

use std::future::Future;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, Method, Response, Uri};
use http_body::Body as HttpBody;
use idem_core::BoxError;
use idem_core::backend::check;
use tokio::time::{Instant, sleep, timeout_at};

use crate::body::AnswerBody;
use crate::protocol::{Judgement, Placed};
use crate::{
    Delivery, Error, ErrorKind, GaveUp, IdempotencyClient, Intent, IssuedKey, MissingIntent,
    Verdict, fingerprint,
};

/// What sends a request.
pub(crate) trait Transport: Send {
    type Body: HttpBody<Data = Bytes> + Send;
    type Error: Send;

    /// Sends the request with its key.
    fn send(
        &mut self,
        placed: &Placed,
    ) -> impl Future<Output = Result<Response<Self::Body>, Self::Error>> + Send;

    /// Returns whether the request may be sent again after this error.
    fn is_retryable(&self, error: &Self::Error) -> bool;
}

/// Why a call has no answer.
pub(crate) enum Failure<E> {
    Own(Error),
    /// The error of the last try.
    Transport(E),
}

/// The parts of a request that its key depends on.
pub(crate) struct Described<'r> {
    pub(crate) method: &'r Method,
    pub(crate) uri: &'r Uri,
    pub(crate) headers: &'r HeaderMap,
    pub(crate) body: &'r Bytes,
    pub(crate) intent: Option<&'r Intent>,
}

/// When a call began, by two clocks.
struct Begun {
    /// Does not count the time that the machine was suspended.
    monotonic: Instant,
    /// May jump.
    wall: SystemTime,
}

/// A request with its key.
pub(crate) struct Keyed {
    begun: Begun,
    key: IssuedKey,
    placed: Placed,
}

impl IdempotencyClient {
    /// Returns the key of the request, which is kept when this returns.
    pub(crate) async fn key(&self, request: Described<'_>) -> Result<Keyed, Error> {
        let begun = Begun {
            monotonic: Instant::now(),
            wall: SystemTime::now(),
        };
        let protocol = &*self.protocol;
        protocol.carrier.check(request.headers, request.body)?;
        let key = match (request.intent, self.missing_intent) {
            (Some(intent), _) => {
                self.check_retention()?;
                let fingerprint = fingerprint::of(
                    request.method,
                    request.uri,
                    request.headers,
                    request.body,
                    protocol.comparison,
                );
                let deadline = check::deadline_from(begun.monotonic, self.retry.deadline);
                let key = self.keys.key_for(intent, &fingerprint, protocol.form);
                let key = timeout_at(deadline, key).await;
                key.unwrap_or_else(|_| Err(late()))?
            }
            (None, MissingIntent::OneCall) => IssuedKey::make(protocol.form),
            (None, MissingIntent::Refuse) => {
                return Err(Error::new(
                    ErrorKind::IntentMissing,
                    "the request has no intent, and this client refuses such requests",
                ));
            }
        };
        let placed = protocol.carrier.place(&key, request.body)?;
        Ok(Keyed { begun, key, placed })
    }

    /// A key that is forgotten before the server's answer would be made again, for a second effect.
    fn check_retention(&self) -> Result<(), Error> {
        let retention = self.keys.retention();
        let needed = self.protocol.lifetime.unwrap_or_default();
        if retention < needed {
            return Err(Error::new(
                ErrorKind::Misconfigured,
                format!(
                    "keys are kept for {} s, and the server keeps answers for {} s; keep keys \
                     for longer",
                    retention.as_secs(),
                    needed.as_secs()
                ),
            ));
        }
        Ok(())
    }

    /// Sends the request until it has an answer that is final, or a limit is reached.
    pub(crate) async fn deliver<T: Transport>(
        &self,
        keyed: Keyed,
        mut transport: T,
    ) -> Result<Response<AnswerBody<T::Body>>, Failure<T::Error>> {
        let Keyed { begun, key, placed } = keyed;
        let deadline = check::deadline_from(begun.monotonic, self.retry.deadline);
        self.check_age(&begun, &key)?;
        self.budget.deposit();
        let mut tries = 0;
        loop {
            tries += 1;
            let limit = check::deadline(self.retry.try_timeout).min(deadline);
            let tried = match timeout_at(limit, self.attempt(&mut transport, &placed)).await {
                Ok(tried) => tried,
                Err(_) => Tried::TimedOut,
            };
            let wish = match &tried {
                Tried::Answered(_, judgement) if judgement.verdict == Verdict::Final => {
                    return tried.ended(key, tries, None);
                }
                Tried::Failed(error) if !transport.is_retryable(error) => {
                    return tried.ended(key, tries, None);
                }
                Tried::Answered(_, judgement) => judgement.retry_after,
                Tried::Failed(_) | Tried::BrokenOff(_) | Tried::TimedOut => None,
            };
            let pause = self.retry.pause(tries, wish);
            if let Some(gave_up) = self.limit(&begun, &key, tries, deadline, pause) {
                tracing::debug!(tries, reason = gave_up.text(), "a request gave up");
                return tried.ended(key, tries, Some(gave_up));
            }
            tracing::debug!(
                tries,
                ?pause,
                status = tried.status(),
                "a request is sent again"
            );
            // An answer that nobody reads keeps its connection busy.
            drop(tried);
            sleep(pause).await;
        }
    }

    async fn attempt<T: Transport>(&self, transport: &mut T, placed: &Placed) -> Tried<T> {
        let response = match transport.send(placed).await {
            Ok(response) => response,
            Err(error) => return Tried::Failed(error),
        };
        let (parts, body) = response.into_parts();
        let mut body = AnswerBody::new(body);
        let text = match self.protocol.needs_body(parts.status) {
            true => match body.json(&parts.headers).await {
                Ok(text) => text,
                Err(error) => return Tried::BrokenOff(error),
            },
            false => None,
        };
        let judgement = self
            .protocol
            .judge(parts.status, &parts.headers, text.as_deref());
        Tried::Answered(Response::from_parts(parts, body), judgement)
    }

    /// Refuses an intent whose answer the server may have forgotten.
    fn check_age(&self, begun: &Begun, key: &IssuedKey) -> Result<(), Error> {
        let Some(lifetime) = self.protocol.lifetime else {
            return Ok(());
        };
        // A new key may be sent by another caller in the meantime, but not before it was made.
        let margin = match key.is_new() {
            true => Duration::ZERO,
            false => self.retry.try_timeout,
        };
        let expired = |message| Err(Error::new(ErrorKind::IntentExpired, message));
        match key.age() {
            None => expired(
                "the age of the intent's key is unknown, because the clock was set back or the \
                 key's record has ended; the server may have forgotten the first request",
            ),
            Some(age) if begun.age(age).saturating_add(margin) >= lifetime => expired(
                "the intent's first request is so old that the server may have forgotten it",
            ),
            Some(_) => Ok(()),
        }
    }

    /// Returns the limit that forbids another try after this pause.
    fn limit(
        &self,
        begun: &Begun,
        key: &IssuedKey,
        tries: u32,
        deadline: Instant,
        pause: Duration,
    ) -> Option<GaveUp> {
        let left = deadline.saturating_duration_since(Instant::now());
        let end_of_next = begun
            .age(key.age().unwrap_or_default())
            .saturating_add(pause)
            .saturating_add(self.retry.try_timeout);
        if tries >= self.retry.max_tries {
            Some(GaveUp::Tries)
        } else if pause >= left {
            Some(GaveUp::Deadline)
        } else if self
            .protocol
            .lifetime
            .is_some_and(|most| end_of_next >= most)
        {
            Some(GaveUp::Expired)
        } else if !self.budget.withdraw() {
            Some(GaveUp::Budget)
        } else {
            None
        }
    }
}

impl Begun {
    /// Returns the age now of a key that had this age when the call began. The greater of two
    /// clocks counts: one stands still while the machine is suspended, the other may be set back.
    fn age(&self, age: Duration) -> Duration {
        let passed = self.monotonic.elapsed();
        let by_wall = self.wall.elapsed().unwrap_or_default();
        age.saturating_add(passed.max(by_wall))
    }
}

fn late() -> Error {
    Error::new(
        ErrorKind::KeysUnavailable,
        "the intent's key was not kept before the deadline; nothing was sent",
    )
}

/// The end of one try.
enum Tried<T: Transport> {
    Answered(Response<AnswerBody<T::Body>>, Judgement),
    /// The body of the answer ended with an error before it could be judged.
    BrokenOff(<T::Body as HttpBody>::Error),
    Failed(T::Error),
    TimedOut,
}

impl<T: Transport> Tried<T> {
    fn status(&self) -> Option<u16> {
        match self {
            Self::Answered(response, _) => Some(response.status().as_u16()),
            _ => None,
        }
    }

    /// Returns what the caller gets.
    fn ended(
        self,
        key: IssuedKey,
        tries: u32,
        gave_up: Option<GaveUp>,
    ) -> Result<Response<AnswerBody<T::Body>>, Failure<T::Error>> {
        match self {
            Self::Answered(mut response, judgement) => {
                response.extensions_mut().insert(Delivery {
                    answer: judgement.answer,
                    key,
                    tries,
                    gave_up,
                });
                Ok(response)
            }
            Self::Failed(error) => Err(Failure::Transport(error)),
            Self::BrokenOff(_) | Self::TimedOut => {
                let text = gave_up.map_or("the request has no answer", GaveUp::text);
                Err(Failure::Own(Error::no_answer(text)))
            }
        }
    }
}

impl<E> From<Error> for Failure<E> {
    fn from(error: Error) -> Self {
        Self::Own(error)
    }
}

impl<E: Into<BoxError>> Failure<E> {
    /// Returns the error, with that of the last try as its source.
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Own(error) => error,
            Self::Transport(error) => {
                Error::no_answer("the request has no answer").with_source(error)
            }
        }
    }
}
