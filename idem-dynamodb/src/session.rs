//! How a request is sent: within the operation's time, measured, and with a record of the tries
//! whose answer was lost.

use std::error::Error as StdError;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::config::interceptors::{
    BeforeDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
};
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::{BoxError, SdkError};
use idem_core::{Effect, Result};
use tokio::time::{Instant, timeout_at};

use crate::clock::{Clock, Reading, date};
use crate::config::Config;
use crate::error::{Access, Failed};

/// How often an operation is repeated after a conflict, or after a write that met another record
/// than it expected. Each time another caller has made progress, so more than a few retries are a
/// sign of trouble.
pub(crate) const MAX_RETRIES: u32 = 16;

/// The longest pause before the last retry; the first is a sixteenth of it. A transaction of the
/// service takes some tens of milliseconds.
const MAX_PAUSE: Duration = Duration::from_millis(200);

/// The time of one operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Session {
    deadline: Instant,
    timeout: Duration,
}

impl Session {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            deadline: Instant::now() + config.timeout(),
            timeout: config.timeout(),
        }
    }

    /// Sends a request, with the SDK's retries.
    ///
    /// A request whose future is dropped may still take effect, which its repetition recognizes. The
    /// SDK closes the connection then.
    pub(crate) async fn send<T, E, F>(
        &self,
        clock: &Arc<Clock>,
        access: Access,
        request: impl FnOnce(Watch) -> F + Send,
    ) -> Result<Result<T, Failed<E>>>
    where
        T: Send,
        F: Future<Output = Result<T, SdkError<E, HttpResponse>>> + Send,
        E: StdError + Send + Sync + 'static,
    {
        let watch = Watch::new(clock, self.deadline);
        let sent = Box::pin(request(watch.clone()));
        match timeout_at(self.deadline, sent).await {
            Ok(Ok(answer)) => Ok(Ok(answer)),
            Ok(Err(error)) => Ok(Err(Failed {
                error,
                is_unknown: watch.is_unknown(),
            })),
            Err(_) if watch.is_unknown() => Err(access.timed_out(self.timeout)),
            Err(_) => {
                let error = access.timed_out(self.timeout);
                Err(error.with_effect(Effect::None))
            }
        }
    }
}

/// Waits before the next retry, for a random time, so that callers that lost together do not come
/// back together.
pub(crate) async fn pause(tries: u32) {
    let share = f64::from(tries) / f64::from(MAX_RETRIES);
    tokio::time::sleep(MAX_PAUSE.mul_f64(share * rand::random_range(0.0..=1.0))).await;
}

/// Watches the tries of one request.
#[derive(Debug, Clone)]
pub(crate) struct Watch(Arc<Watched>);

#[derive(Debug)]
struct Watched {
    clock: Arc<Clock>,
    deadline: Instant,
    /// When the last try was sent.
    sent: Mutex<Option<Instant>>,
    /// Whether the last try has no answer yet, or one after which its effect is unknown.
    is_open: AtomicBool,
    /// Whether this is so for an earlier try.
    was_open: AtomicBool,
}

impl Watch {
    fn new(clock: &Arc<Clock>, deadline: Instant) -> Self {
        Self(Arc::new(Watched {
            clock: Arc::clone(clock),
            deadline,
            sent: Mutex::new(None),
            is_open: AtomicBool::new(false),
            was_open: AtomicBool::new(false),
        }))
    }

    /// Returns whether a try may have had an effect that no answer tells of.
    fn is_unknown(&self) -> bool {
        self.0.is_open.load(Ordering::SeqCst) || self.0.was_open.load(Ordering::SeqCst)
    }

    fn sent(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.0.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Intercept for Watch {
    fn name(&self) -> &'static str {
        "idem"
    }

    /// Refuses to send after the operation's time is over: the instants in the request are as old
    /// as the operation, for example if the process has slept.
    fn read_before_transmit(
        &self,
        _context: &BeforeTransmitInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let now = Instant::now();
        if now >= self.0.deadline {
            return Err("the operation's time is over, so nothing more is sent".into());
        }
        if self.0.is_open.swap(true, Ordering::SeqCst) {
            self.0.was_open.store(true, Ordering::SeqCst);
        }
        *self.sent() = Some(now);
        Ok(())
    }

    fn read_after_transmit(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let response = context.response();
        if !response.status().is_server_error() {
            self.0.is_open.store(false, Ordering::SeqCst);
        }
        let header = response.headers().get("date").and_then(date);
        if let (Some(date), Some(sent)) = (header, *self.sent()) {
            self.0.clock.measure(sent.into_std(), Reading::take(), date);
        }
        Ok(())
    }
}
