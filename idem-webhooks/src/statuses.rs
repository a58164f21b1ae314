//! [`Statuses`]: the statuses that a provider expects.

use http::StatusCode;

use crate::{Received, Rejection};

/// The statuses that a provider expects. Each provider has its own defaults; the receiver adds
/// `Retry-After` where a later delivery may succeed.
///
/// Providers repeat a delivery after most statuses outside of 2xx. Some statuses have a meaning of
/// their own, so this crate does not use them by default: with Standard Webhooks and CloudEvents,
/// 410 makes the sender stop for good; with Standard Webhooks, 429, 502 and 504 make it slow down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statuses {
    done: StatusCode,
    in_flight: StatusCode,
    conflict: StatusCode,
    failed: StatusCode,
    error: StatusCode,
    unavailable: StatusCode,
    unverified: StatusCode,
    unreadable: StatusCode,
}

impl Statuses {
    /// Sets the status of an event that is handled, a duplicate, or refused for its version. With
    /// 204 the answer has no body. Default: 200.
    #[must_use]
    pub fn with_done(mut self, status: StatusCode) -> Self {
        self.done = status;
        self
    }

    /// Sets the status while another delivery of the event is in progress. Default: 409.
    #[must_use]
    pub fn with_in_flight(mut self, status: StatusCode) -> Self {
        self.in_flight = status;
        self
    }

    /// Sets the status of an id that belongs to another body. Default: 422.
    #[must_use]
    pub fn with_conflict(mut self, status: StatusCode) -> Self {
        self.conflict = status;
        self
    }

    /// Sets the status of an event whose failure is recorded. Default: 422.
    #[must_use]
    pub fn with_failed(mut self, status: StatusCode) -> Self {
        self.failed = status;
        self
    }

    /// Sets the status of the handler's errors, and of errors that an operator has to repair.
    /// Default: 500.
    #[must_use]
    pub fn with_error(mut self, status: StatusCode) -> Self {
        self.error = status;
        self
    }

    /// Sets the status while the store is unavailable or does not confirm the result. Default: 503.
    #[must_use]
    pub fn with_unavailable(mut self, status: StatusCode) -> Self {
        self.unavailable = status;
        self
    }

    /// Sets the status of a delivery that is not proven to come from the provider. Default: 401.
    #[must_use]
    pub fn with_unverified(mut self, status: StatusCode) -> Self {
        self.unverified = status;
        self
    }

    /// Sets the status of a proven delivery that cannot be read, or has no id. Default: 400.
    #[must_use]
    pub fn with_unreadable(mut self, status: StatusCode) -> Self {
        self.unreadable = status;
        self
    }

    pub(crate) fn of<E>(&self, received: &Received<E>) -> StatusCode {
        match received {
            Received::Handled | Received::Duplicate { .. } | Received::Stale { .. } => self.done,
            Received::Challenge(_) | Received::Permitted(_) => StatusCode::OK,
            Received::Rejected(rejection) => match rejection {
                Rejection::UnsupportedFormat => StatusCode::UNSUPPORTED_MEDIA_TYPE,
                Rejection::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
                rejection if rejection.is_unverified() => self.unverified,
                _ => self.unreadable,
            },
            Received::InFlight { .. } => self.in_flight,
            Received::Conflict => self.conflict,
            Received::Failed { .. } => self.failed,
            Received::Error(_) => self.error,
            Received::Store(error) if !error.is_retryable() => self.error,
            Received::NotStored(_) | Received::Store(_) => self.unavailable,
            // A retry helps as long as it helps one event of the batch.
            Received::Batch(events) => {
                let retryable = events.iter().find(|event| event.is_retryable());
                let open = retryable.or_else(|| events.iter().find(|event| !event.is_done()));
                open.map_or(self.done, |event| self.of(event))
            }
        }
    }
}

/// Returns the statuses of a provider that asks for no others.
impl Default for Statuses {
    fn default() -> Self {
        Self {
            done: StatusCode::OK,
            in_flight: StatusCode::CONFLICT,
            conflict: StatusCode::UNPROCESSABLE_ENTITY,
            failed: StatusCode::UNPROCESSABLE_ENTITY,
            error: StatusCode::INTERNAL_SERVER_ERROR,
            unavailable: StatusCode::SERVICE_UNAVAILABLE,
            unverified: StatusCode::UNAUTHORIZED,
            unreadable: StatusCode::BAD_REQUEST,
        }
    }
}
