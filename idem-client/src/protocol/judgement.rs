//! What an answer means: whether it is a replay, and whether the request may be sent again.

use std::time::Duration;

use http::{HeaderMap, HeaderName, StatusCode};
use idem_core::json::RawJson;

use super::Protocol;
use crate::retry::retry_after;

/// Whether an answer was made for this request, or is the stored answer to an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The server did the work for this request.
    First,
    /// The server did the work for an earlier request with this key, and this is that answer.
    Replayed,
    /// The answer says neither.
    Unknown,
}

/// How an answer says that it is a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplayMarker {
    /// It does not.
    Nothing,
    /// By a header with this value, compared without case.
    Header {
        /// The header's name.
        name: HeaderName,
        /// Its value in a replay.
        value: String,
        /// What an answer without it is.
        absent: Answer,
    },
    /// By a member of the JSON body that is `true`, by its JSON Pointer.
    Member {
        /// The pointer, such as `/replayed`.
        pointer: String,
        /// What an answer without it, or with `false`, is.
        absent: Answer,
    },
}

/// Whether a request may be sent again after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The same request may get another answer.
    Retry,
    /// It may not: the answer is the caller's.
    Final,
}

/// A code in the JSON body of an answer that decides, whatever the status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CodeRule {
    pub(super) pointer: String,
    pub(super) code: String,
    /// `None`: it may be sent again where the answer says when.
    pub(super) verdict: Option<Verdict>,
}

/// A header of an answer that decides, whatever the status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HeaderRule {
    pub(super) name: HeaderName,
    pub(super) value: String,
    pub(super) verdict: Verdict,
}

/// What an answer means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Judgement {
    pub(crate) answer: Answer,
    pub(crate) verdict: Verdict,
    /// How long the server wants the client to wait.
    pub(crate) retry_after: Option<Duration>,
}

impl Protocol {
    /// Returns whether the judgement needs the JSON body of an answer with this status.
    pub(crate) fn needs_body(&self, status: StatusCode) -> bool {
        let is_error = status.is_client_error() || status.is_server_error();
        is_error || matches!(self.marker, ReplayMarker::Member { .. })
    }

    /// Judges an answer. `text` is its JSON body, where it has one and it was read.
    pub(crate) fn judge(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        text: Option<&[u8]>,
    ) -> Judgement {
        let body = text.and_then(RawJson::read);
        let rule = body.and_then(|body| self.code_rule(body).map(|rule| (body, rule)));
        let answer = self.answer(headers, body, rule.is_some());
        let mut after = retry_after(headers);
        let verdict = if let Some((body, rule)) = rule {
            after = after.or_else(|| wait_in(body, &rule.pointer));
            rule.verdict.unwrap_or_else(|| retry_if(after.is_some()))
        } else if let Some(rule) = self.header_rule(headers) {
            rule.verdict
        } else if answer == Answer::Replayed {
            // It is stored: the next one is the same.
            Verdict::Final
        } else {
            by_status(status, after.is_some())
        };
        Judgement {
            answer,
            verdict,
            retry_after: after,
        }
    }

    fn answer(&self, headers: &HeaderMap, body: Option<RawJson<'_>>, is_refusal: bool) -> Answer {
        let (is_marked, absent) = match &self.marker {
            ReplayMarker::Nothing => return Answer::Unknown,
            ReplayMarker::Header {
                name,
                value,
                absent,
            } => (has(headers, name, value), *absent),
            ReplayMarker::Member { pointer, absent } => {
                // A body that was not read says nothing.
                let Some(body) = body else {
                    return Answer::Unknown;
                };
                let marker = at(body, pointer).map(RawJson::bytes);
                (marker == Some(b"true"), *absent)
            }
        };
        match (is_marked, is_refusal) {
            (true, _) => Answer::Replayed,
            // The server refused the key, so there is no answer of the work.
            (false, true) => Answer::Unknown,
            (false, false) => absent,
        }
    }

    fn code_rule(&self, body: RawJson<'_>) -> Option<&CodeRule> {
        self.codes.iter().find(|rule| {
            let code = at(body, &rule.pointer).and_then(RawJson::as_str);
            code.is_some_and(|code| match rule.code.strip_suffix('*') {
                Some(prefix) => code.starts_with(prefix),
                None => code == rule.code,
            })
        })
    }

    fn header_rule(&self, headers: &HeaderMap) -> Option<&HeaderRule> {
        let mut rules = self.headers.iter();
        rules.find(|rule| has(headers, &rule.name, &rule.value))
    }
}

fn has(headers: &HeaderMap, name: &HeaderName, value: &str) -> bool {
    let mut values = headers.get_all(name).iter();
    values.any(|found| {
        let found = found.as_bytes().trim_ascii();
        found.eq_ignore_ascii_case(value.as_bytes())
    })
}

/// Decides by the status alone.
fn by_status(status: StatusCode, has_retry_after: bool) -> Verdict {
    retry_if(match status {
        StatusCode::CONFLICT => has_retry_after,
        // Not 401 and 407: they stay until the caller sends other credentials with the same intent.
        StatusCode::REQUEST_TIMEOUT
        | StatusCode::MISDIRECTED_REQUEST
        | StatusCode::LOCKED
        | StatusCode::TOO_EARLY
        | StatusCode::TOO_MANY_REQUESTS => true,
        // No later try is implemented, either.
        StatusCode::NOT_IMPLEMENTED | StatusCode::HTTP_VERSION_NOT_SUPPORTED => false,
        status => status.is_server_error(),
    })
}

fn retry_if(may_retry: bool) -> Verdict {
    match may_retry {
        true => Verdict::Retry,
        false => Verdict::Final,
    }
}

/// Reads the seconds to wait beside the code, as several protocols have them.
fn wait_in(body: RawJson<'_>, pointer: &str) -> Option<Duration> {
    let (object, _) = pointer.rsplit_once('/')?;
    let object = at(body, object)?;
    let seconds = at(object, "/retry_after").or_else(|| at(object, "/retryAfter"));
    Some(Duration::from_secs(seconds?.parse().ok()?))
}

/// Returns the value at the pointer. One on which readers may differ says nothing.
fn at<'a>(body: RawJson<'a>, pointer: &str) -> Option<RawJson<'a>> {
    body.pointer(pointer).ok()?
}

#[cfg(test)]
mod tests {
    use super::*;
    use idem_http::ProblemType;
    use serde_json::{Value, json};

    fn judged(
        protocol: &Protocol,
        status: u16,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Judgement {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: HeaderName = name.parse().unwrap();
            map.append(name, value.parse().unwrap());
        }
        protocol.judge(
            StatusCode::from_u16(status).unwrap(),
            &map,
            Some(body.to_string().as_bytes()),
        )
    }

    fn verdict(
        protocol: &Protocol,
        status: u16,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Verdict {
        judged(protocol, status, headers, body).verdict
    }

    #[test]
    fn statuses_decide_where_nothing_else_does() {
        let protocol = Protocol::ietf();
        for (status, headers, may_retry) in [
            (200, &[][..], false),
            (303, &[], false),
            (400, &[], false),
            (401, &[], false),
            (404, &[], false),
            (408, &[], true),
            (409, &[], false),
            (409, &[("retry-after", "1")][..], true),
            (409, &[("retry-after", "soon")][..], false),
            (410, &[], false),
            (412, &[], false),
            (407, &[], false),
            (421, &[], true),
            (422, &[("retry-after", "1")][..], false),
            (423, &[], true),
            (425, &[], true),
            (429, &[], true),
            (500, &[], true),
            (501, &[], false),
            (502, &[], true),
            (503, &[], true),
            (504, &[], true),
            (505, &[], false),
            (529, &[], true),
        ] {
            let found = verdict(&protocol, status, headers, &Value::Null);
            assert_eq!(found, retry_if(may_retry), "{status} {headers:?}");
        }
    }

    #[test]
    fn problems_of_idem_http_decide_whatever_their_status() {
        let (no, always, if_told) = ([false, false], [true, true], [false, true]);
        let rules = [
            ("key-missing", no),
            ("key-malformed", no),
            ("key-reused", no),
            ("key-expired", no),
            ("key-unsupported", no),
            ("request-in-flight", always),
            ("too-early", always),
            ("request-too-large", no),
            ("request-unreadable", always),
            ("scope-unknown", no),
            ("response-not-stored", no),
            ("outcome-unknown", if_told),
            ("store-unavailable", always),
            ("misconfigured", no),
            ("one-of-a-later-version", no),
        ];
        for kind in ProblemType::ALL {
            let has_rule = rules.iter().any(|(name, _)| kind.uri().ends_with(name));
            assert!(has_rule, "{kind:?}");
        }
        for (name, may_retry) in rules {
            let kind = format!("urn:idem:problem:{name}");
            let member = json!({"type": kind, "retryAfter": 7});
            let header = &[("retry-after", "7")][..];
            for (headers, body, wait) in [
                (&[][..], json!({"type": kind}), None),
                (&[], member, Some(7)),
                (header, json!({"type": kind}), Some(7)),
            ] {
                for status in [400, 409, 422, 425, 500, 503] {
                    let found = judged(&Protocol::idem_http(), status, headers, &body);
                    let expected = retry_if(may_retry[usize::from(wait.is_some())]);
                    assert_eq!(found.verdict, expected, "{name} {headers:?}");
                    assert_eq!(
                        found.answer,
                        Answer::Unknown,
                        "a refusal is no first answer"
                    );
                    assert_eq!(found.retry_after, wait.map(Duration::from_secs));
                }
            }
        }
    }

    #[test]
    fn a_replay_is_known_by_the_protocol_s_marker_and_final() {
        let marked = &[("idempotent-replayed", "TRUE")][..];
        for (protocol, status, headers, body, answer) in [
            (Protocol::ietf(), 201, marked, json!({}), Answer::Replayed),
            (Protocol::ietf(), 201, &[][..], json!({}), Answer::Unknown),
            (Protocol::idem_http(), 201, &[], json!({}), Answer::First),
            (Protocol::acp(), 201, &[], json!({}), Answer::Unknown),
            (Protocol::stripe(), 500, marked, json!({}), Answer::Replayed),
            (
                Protocol::adcp(),
                200,
                &[],
                json!({"replayed": true}),
                Answer::Replayed,
            ),
            (
                Protocol::adcp(),
                200,
                &[],
                json!({"replayed": false}),
                Answer::First,
            ),
            (Protocol::adcp(), 200, &[], json!({}), Answer::First),
            (
                Protocol::ucp_rest(),
                200,
                marked,
                json!({}),
                Answer::Unknown,
            ),
        ] {
            let found = judged(&protocol, status, headers, &body);
            assert_eq!(found.answer, answer, "{protocol:?}");
            assert_eq!(found.verdict, Verdict::Final, "{protocol:?}");
        }
        let unread = Protocol::adcp().judge(StatusCode::OK, &HeaderMap::new(), None);
        assert_eq!(unread.answer, Answer::Unknown);
    }

    #[test]
    fn a_code_decides_whatever_stands_beside_it() {
        let in_flight =
            br#"{"adcp_error":{"retry_after":3,"code":"IDEMPOTENCY_IN_FLIGHT","x":SKIPPED}}"#;
        let deep = ["[".repeat(200), "]".repeat(200)].concat();
        for skipped in [
            &b"1"[..],
            br#""\ud83d""#,
            b"1e999",
            b"\"\xff\"",
            deep.as_bytes(),
        ] {
            let at = in_flight
                .windows(7)
                .position(|text| text == b"SKIPPED")
                .unwrap();
            let text = [&in_flight[..at], skipped, &in_flight[at + 7..]].concat();
            let found = Protocol::adcp().judge(StatusCode::OK, &HeaderMap::new(), Some(&text));
            assert_eq!(found.verdict, Verdict::Retry);
            assert_eq!(found.retry_after, Some(Duration::from_secs(3)));
        }
    }

    #[test]
    fn the_codes_of_each_protocol_decide() {
        let in_flight = json!({"adcp_error": {"code": "IDEMPOTENCY_IN_FLIGHT", "retry_after": 3}});
        let found = judged(&Protocol::adcp(), 200, &[], &in_flight);
        assert_eq!(found.verdict, Verdict::Retry);
        assert_eq!(found.retry_after, Some(Duration::from_secs(3)));

        for (protocol, status, headers, body, expected) in [
            (
                Protocol::acp(),
                409,
                &[][..],
                json!({"code": "idempotency_in_flight"}),
                Verdict::Retry,
            ),
            (
                Protocol::acp(),
                409,
                &[],
                json!({"code": "idempotency_conflict"}),
                Verdict::Final,
            ),
            (
                Protocol::adcp(),
                200,
                &[],
                json!({"errors": [{"code": "IDEMPOTENCY_CONFLICT"}]}),
                Verdict::Final,
            ),
            (
                Protocol::stripe(),
                409,
                &[],
                json!({"error": {"code": "idempotency_key_in_use"}}),
                Verdict::Retry,
            ),
            (
                Protocol::stripe(),
                400,
                &[],
                json!({"error": {"type": "idempotency_error"}}),
                Verdict::Final,
            ),
            (
                Protocol::stripe(),
                500,
                &[("stripe-should-retry", "false")],
                json!({}),
                Verdict::Final,
            ),
            (
                Protocol::stripe(),
                402,
                &[("stripe-should-retry", "true")],
                json!({}),
                Verdict::Retry,
            ),
            (
                Protocol::adyen(),
                422,
                &[],
                json!({"errorCode": "704"}),
                Verdict::Retry,
            ),
            (
                Protocol::adyen(),
                422,
                &[("transient-error", "true")],
                json!({}),
                Verdict::Retry,
            ),
            (
                Protocol::adyen(),
                422,
                &[],
                json!({"errorCode": "167"}),
                Verdict::Final,
            ),
            (
                Protocol::paypal(),
                409,
                &[],
                json!({"details": [{"issue": "PREVIOUS_REQUEST_IN_PROGRESS"}]}),
                Verdict::Retry,
            ),
            (
                Protocol::paypal(),
                422,
                &[],
                json!({"name": "DUPLICATE_REQUEST_ID"}),
                Verdict::Final,
            ),
        ] {
            let found = verdict(&protocol, status, headers, &body);
            assert_eq!(found, expected, "{status} {body}");
        }
    }
}
