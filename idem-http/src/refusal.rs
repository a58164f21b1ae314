//! [`Refusal`]: a request that the layer refuses, and the response for it.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LANGUAGE, CONTENT_TYPE, LINK, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use http_body::Body as HttpBody;
use serde::Serializer;
use serde_json::{Value, json};

use crate::lifetime::rounded_up;
use crate::{Body, HttpPolicy, KeyedRequest, ProblemType};

/// How a request differs from the first one: a JSON Patch (RFC 6902), or in how many places, where
/// a patch would be over the limits.
pub(crate) type Differences = Result<Value, usize>;

/// Why a request is refused, before the request is known.
#[derive(Debug)]
pub(crate) struct Problem {
    kind: ProblemType,
    /// Replaces the status of the type and of the policy.
    status: Option<StatusCode>,
    detail: String,
    retry_after: Option<u64>,
    challenge: Option<HeaderValue>,
    differences: Option<Differences>,
}

impl Problem {
    pub(crate) fn new(kind: ProblemType, detail: impl Into<String>) -> Self {
        Self {
            kind,
            status: None,
            detail: detail.into(),
            retry_after: None,
            challenge: None,
            differences: None,
        }
    }

    pub(crate) fn misconfigured(error: &impl fmt::Display) -> Self {
        tracing::error!(
            %error,
            "idempotency keys cannot be used as the server is set up"
        );
        let detail = "This request was not handled; an earlier one with its key may have been. The server's log says what \
                      is wrong. Send it again unchanged, with the same key, once the server is repaired.";
        Self::new(ProblemType::Misconfigured, detail)
    }

    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = Some(status);
        self
    }

    pub(crate) fn with_differences(mut self, differences: Option<Differences>) -> Self {
        if let Some(Err(places)) = &differences {
            let more = format!(" It differs from the first request in {places} places.");
            self.detail.push_str(&more);
        }
        self.differences = differences;
        self
    }

    /// Sets when to retry, in whole seconds, at least one.
    pub(crate) fn with_retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(rounded_up(after));
        self
    }

    /// Requires the caller to authenticate.
    pub(crate) fn with_challenge(mut self, challenge: HeaderValue) -> Self {
        self.challenge = Some(challenge);
        self.with_status(StatusCode::UNAUTHORIZED)
    }

    /// Returns the response in the policy's words.
    pub(crate) fn into_response<B>(
        self,
        policy: &HttpPolicy,
        request: Option<&KeyedRequest>,
    ) -> Response<Body<B>>
    where
        B: HttpBody<Data = Bytes>,
    {
        let by_policy = policy.statuses.iter().rev();
        let mut by_policy = by_policy.filter(|(kind, _)| *kind == self.kind);
        let status = self
            .status
            .or_else(|| by_policy.next().map(|(_, status)| *status));
        let refusal = Refusal {
            status: status.unwrap_or_else(|| self.kind.status()),
            problem: &self,
            policy,
            request,
        };
        let mut response = match &policy.refusals {
            Some(words) => words(&refusal),
            None => refusal.problem_json(),
        };
        if self.kind == ProblemType::TooEarly {
            // The client's TLS reads the status, and sends the request again (RFC 8470, 5.2).
            *response.status_mut() = StatusCode::TOO_EARLY;
        }
        let sent = request.and_then(KeyedRequest::key);
        policy.markers.mark_refused(response.headers_mut(), sent);
        response.extensions_mut().insert(self.kind);
        response.map(Body::from)
    }
}

/// A request that the layer refuses, for the function that words the response: see
/// [`HttpPolicy::with_refusals`].
///
/// Nothing ran for this request.
#[derive(Debug)]
pub struct Refusal<'a> {
    problem: &'a Problem,
    policy: &'a HttpPolicy,
    request: Option<&'a KeyedRequest>,
    status: StatusCode,
}

impl Refusal<'_> {
    /// Returns why.
    #[must_use]
    pub fn kind(&self) -> ProblemType {
        self.problem.kind
    }

    /// Returns the status by the policy.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns one or two sentences for people, which quote nothing of the request.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.problem.detail
    }

    /// Returns after how many seconds a retry makes sense, if that is known.
    #[must_use]
    pub fn retry_after(&self) -> Option<u64> {
        self.problem.retry_after
    }

    /// Returns the request. It has no body when it was refused before that was read, and is `None`
    /// when the handler took it and left no answer, which is a fault of the server.
    #[must_use]
    pub fn request(&self) -> Option<&KeyedRequest> {
        self.request
    }

    /// Returns a JSON Patch (RFC 6902) from the first request with the key to this one, if the
    /// policy keeps requests and it is within the limits of a patch.
    #[must_use]
    pub fn differences(&self) -> Option<&Value> {
        self.problem.differences.as_ref()?.as_ref().ok()
    }

    /// Creates a response of this media type and body, with the refusal's status, `Retry-After`,
    /// `WWW-Authenticate`, and the `Link` to the policy's documentation.
    #[must_use]
    pub fn response(&self, media_type: &'static str, body: impl Into<Bytes>) -> Response<Bytes> {
        let mut response = Response::new(body.into());
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        headers.insert(CONTENT_LANGUAGE, HeaderValue::from_static("en"));
        if let Some(seconds) = self.problem.retry_after {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        if let Some(challenge) = &self.problem.challenge {
            headers.insert(WWW_AUTHENTICATE, challenge.clone());
        }
        if let Some(uri) = &self.policy.documentation
            && let Ok(link) = format!("<{uri}>; rel=\"describedby\"").try_into()
        {
            headers.insert(LINK, link);
        }
        response
    }

    /// Creates a response of this JSON body: [`response`](Self::response) as `application/json`.
    #[must_use]
    pub fn json(&self, body: &Value) -> Response<Bytes> {
        self.response("application/json", body.to_string())
    }

    /// Creates a JSON-RPC error with the request's `id`, and with `200`, as JSON-RPC over HTTP
    /// answers errors of calls; change the status of the response where a protocol wants another.
    /// Without a call, as for a batch, the `id` is `null`.
    #[must_use]
    pub fn json_rpc(&self, code: i64, message: &str, data: &Value) -> Response<Bytes> {
        let call = self.request.and_then(KeyedRequest::call);
        let id = call.map_or(Value::Null, |call| call.id().clone());
        let error = json!({"code": code, "message": message, "data": data});
        let mut response = self.json(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
        *response.status_mut() = StatusCode::OK;
        response
    }

    /// Creates the response of [`ProblemType`], `application/problem+json`.
    #[must_use]
    pub fn problem_json(&self) -> Response<Bytes> {
        self.response("application/problem+json", self.members())
    }

    /// Returns the members in the order in which people read them.
    fn members(&self) -> Bytes {
        let (kind, problem) = (self.problem.kind, self.problem);
        let mut members = vec![
            ("type", json!(kind.uri())),
            ("title", json!(kind.title())),
            ("status", json!(self.status.as_u16())),
            ("detail", json!(problem.detail)),
        ];
        let documentation = self.policy.documentation.as_ref();
        let optional = [
            ("differences", self.differences().cloned()),
            ("retryAfter", problem.retry_after.map(Value::from)),
            (
                "documentation",
                documentation.map(|uri| json!(uri.to_string())),
            ),
        ];
        members.extend(
            optional
                .into_iter()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        let mut body = Vec::new();
        // Writing strings and numbers to memory cannot fail.
        let _ = serde_json::Serializer::new(&mut body).collect_map(members);
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
            let response = problem.into_response::<Full<Bytes>>(&HttpPolicy::ietf(), None);
            assert_eq!(response.headers()["retry-after"], seconds);
        }
    }

    #[test]
    fn a_response_carries_its_problem_type_for_services_around_it() {
        let problem = Problem::new(ProblemType::KeyMissing, "");
        let response = problem.into_response::<Full<Bytes>>(&HttpPolicy::ietf(), None);
        let kind = response.extensions().get::<ProblemType>();
        assert_eq!(kind, Some(&ProblemType::KeyMissing));
    }
}
