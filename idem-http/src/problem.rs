//! [`Problem`]: a refusal, as a response.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LANGUAGE, CONTENT_TYPE, LINK, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body::Body as HttpBody;
use serde::Serializer;
use serde_json::{Value, json};

use crate::{Body, HttpPolicy, ProblemType};

/// A problem to send.
pub(crate) struct Problem {
    kind: ProblemType,
    status: StatusCode,
    detail: String,
    /// Extension members, in their order.
    members: Vec<(&'static str, Value)>,
    headers: Box<HeaderMap>,
}

impl Problem {
    pub(crate) fn new(kind: ProblemType, detail: impl Into<String>) -> Self {
        Self {
            kind,
            status: kind.status(),
            detail: detail.into(),
            members: Vec::new(),
            headers: Box::default(),
        }
    }

    pub(crate) fn misconfigured(error: &impl std::fmt::Display) -> Self {
        tracing::error!(
            %error,
            "idempotency keys cannot be used as the server is set up"
        );
        let detail = "Nothing was done. The server's log says what is wrong.";
        Self::new(ProblemType::Misconfigured, detail)
    }

    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// Adds an extension member.
    pub(crate) fn with_member(mut self, name: &'static str, value: Value) -> Self {
        self.members.push((name, value));
        self
    }

    /// Sets when to retry, in whole seconds, at least one.
    pub(crate) fn with_retry_after(mut self, after: Duration) -> Self {
        let whole = after.as_secs();
        let seconds = whole
            .saturating_add(u64::from(after.subsec_nanos() > 0))
            .max(1);
        self.members.push(("retryAfter", json!(seconds)));
        self.headers.insert(RETRY_AFTER, seconds.into());
        self
    }

    /// Requires the caller to authenticate.
    pub(crate) fn with_challenge(mut self, challenge: HeaderValue) -> Self {
        self.headers.insert(WWW_AUTHENTICATE, challenge);
        self.with_status(StatusCode::UNAUTHORIZED)
    }

    pub(crate) fn into_response<B>(mut self, policy: &HttpPolicy) -> Response<Body<B>>
    where
        B: HttpBody<Data = Bytes>,
    {
        let headers = &mut self.headers;
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        headers.insert(CONTENT_LANGUAGE, HeaderValue::from_static("en"));
        if let Some(uri) = &policy.documentation {
            self.members.push(("documentation", json!(uri.to_string())));
            if let Ok(link) = format!("<{uri}>; rel=\"describedby\"").try_into() {
                headers.insert(LINK, link);
            }
        }
        let mut response = Response::new(Body::from(self.body()));
        *response.status_mut() = self.status;
        *response.headers_mut() = *self.headers;
        response.extensions_mut().insert(self.kind);
        response
    }

    /// Returns the members in the order in which people read them.
    fn body(&self) -> Bytes {
        let standard = [
            ("type", json!(self.kind.uri())),
            ("title", json!(self.kind.title())),
            ("status", json!(self.status.as_u16())),
            ("detail", json!(self.detail)),
        ];
        let members = standard.iter().chain(&self.members);
        let mut body = Vec::new();
        // Writing strings and numbers to memory cannot fail.
        let _ = serde_json::Serializer::new(&mut body)
            .collect_map(members.map(|(name, value)| (name, value)));
        body.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::Full;

    #[test]
    fn seconds_to_wait_are_whole_and_at_least_one() {
        for (nanos, seconds) in [
            (0, "1"),
            (1, "1"),
            (1_000_000_000, "1"),
            (1_000_000_001, "2"),
            (29_000_500_000, "30"),
        ] {
            let problem = Problem::new(ProblemType::RequestInFlight, "")
                .with_retry_after(Duration::from_nanos(nanos));
            let response = problem.into_response::<Full<Bytes>>(&HttpPolicy::ietf());
            assert_eq!(response.headers()["retry-after"], seconds);
        }
    }

    #[test]
    fn a_response_carries_its_problem_type_for_services_around_it() {
        let problem = Problem::new(ProblemType::KeyMissing, "");
        let response = problem.into_response::<Full<Bytes>>(&HttpPolicy::ietf());
        let kind = response.extensions().get::<ProblemType>();
        assert_eq!(kind, Some(&ProblemType::KeyMissing));
    }
}
