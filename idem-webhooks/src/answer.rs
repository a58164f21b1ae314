//! [`Answer`]: the response to a provider.

use std::time::Duration;

use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use idem_core::Bytes;

use crate::{Received, Rejection, Statuses};

const ALLOWED_ORIGIN: HeaderName = HeaderName::from_static("webhook-allowed-origin");
const ALLOWED_RATE: HeaderName = HeaderName::from_static("webhook-allowed-rate");

/// What becomes of a delivery, and the response to its provider.
#[derive(Debug)]
pub struct Answer<E> {
    /// What becomes of the delivery.
    pub received: Received<E>,
    statuses: Statuses,
}

/// When the provider may retry while the store is unreachable.
const AFTER_OUTAGE: Duration = Duration::from_secs(5);

impl<E> Answer<E> {
    pub(crate) fn new(received: Received<E>, statuses: Statuses) -> Self {
        Self { received, statuses }
    }

    /// Returns the status for the provider. By default it is a 2xx only for a recorded event, and
    /// for a challenge.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.statuses.of(&self.received)
    }

    /// Returns when the provider may send again, if that is known.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        retry_after(&self.received)
    }

    /// Returns the response for the provider: plain text that contains nothing of the store's
    /// records or the handler's error.
    #[must_use]
    pub fn response(&self) -> Response<Bytes> {
        let mut response = Response::default();
        *response.status_mut() = self.status();
        if self.status() != StatusCode::NO_CONTENT {
            *response.body_mut() = text(&self.received);
            let kind = HeaderValue::from_static("text/plain; charset=utf-8");
            response.headers_mut().insert(header::CONTENT_TYPE, kind);
        }
        let headers = response.headers_mut();
        if let Some(pause) = self.retry_after() {
            // Whole seconds, rounded up: a retry that comes a little late finds the lease ended.
            let more = u64::from(pause.subsec_nanos() > 0);
            let seconds = pause.as_secs().saturating_add(more);
            headers.insert(header::RETRY_AFTER, seconds.max(1).into());
        }
        let post = HeaderValue::from_static("POST");
        match &self.received {
            Received::Permitted(permission) => {
                headers.insert(header::ALLOW, post);
                headers.insert(ALLOWED_ORIGIN, permission.origin.clone());
                headers.insert(ALLOWED_RATE, permission.rate.clone());
            }
            Received::Rejected(Rejection::MethodNotAllowed) => {
                headers.insert(header::ALLOW, post);
            }
            _ => {}
        }
        response
    }
}

fn retry_after<E>(received: &Received<E>) -> Option<Duration> {
    match received {
        Received::InFlight { retry_after } => Some(*retry_after),
        Received::NotStored(_) => Some(AFTER_OUTAGE),
        Received::Store(error) if error.is_retryable() => Some(AFTER_OUTAGE),
        Received::Batch(events) => events.iter().filter_map(retry_after).max(),
        _ => None,
    }
}

fn text<E>(received: &Received<E>) -> Bytes {
    let text = match received {
        Received::Handled => "handled",
        Received::Duplicate { .. } => "handled before",
        Received::Stale { .. } => "older than what was seen before, not handled",
        Received::Challenge(challenge) => return challenge.clone().into(),
        Received::Permitted(_) => "permitted",
        Received::Rejected(rejection) => return rejection.to_string().into(),
        Received::InFlight { .. } => "being handled",
        Received::Conflict => "this id belongs to another event",
        Received::Failed { .. } => "failed before",
        Received::Error(_) => "not handled",
        Received::NotStored(_) => "not known to be handled",
        Received::Store(_) => "cannot be handled now",
        Received::Batch(events) => {
            let done = events.iter().filter(|event| event.is_done()).count();
            return format!("{done} of {} events are done", events.len()).into();
        }
    };
    Bytes::from_static(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_without_end_is_no_panic() {
        let retry_after = Duration::MAX;
        let received = Received::<()>::InFlight { retry_after };
        let answer = Answer::new(received, Statuses::default());
        assert_eq!(answer.response().status(), StatusCode::CONFLICT);
    }
}
