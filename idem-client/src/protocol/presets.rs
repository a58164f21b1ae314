//! The protocols, one function each.

use std::time::Duration;

use http::{HeaderName, Method};

use super::judgement::{Answer, CodeRule, ReplayMarker, Verdict};
use super::{Carrier, Protocol};
use crate::{BodyComparison, KeyForm};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

impl Protocol {
    /// The `Idempotency-Key` header of the [IETF
    /// draft](https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-idempotency-key-header-07).
    ///
    /// The draft has no marker for replays; servers that have one use `Idempotent-Replayed`. How
    /// long a server keeps answers is its own choice, which it publishes: 24 h is a guess.
    #[must_use]
    pub fn ietf() -> Self {
        Self {
            carrier: Carrier::QuotedHeader(IDEMPOTENCY_KEY),
            form: KeyForm::UuidV4,
            comparison: BodyComparison::JsonValue,
            lifetime: Some(DAY),
            marker: replayed_header(Answer::Unknown),
            codes: problems_of_idem_http(),
            headers: Vec::new(),
            methods: vec![Method::POST, Method::PATCH, Method::PUT, Method::DELETE],
            is_draft: false,
        }
    }

    /// A server behind `idem-http`, which marks every replay. Its default retention is 24 h.
    #[must_use]
    pub fn idem_http() -> Self {
        Self::ietf().with_marker(replayed_header(Answer::First))
    }

    /// The Agentic Commerce Protocol, checkout, cart and payment, 2026-04-17
    /// ([source](https://github.com/agentic-commerce-protocol/agentic-commerce-protocol)). Its
    /// servers keep answers for at least 24 h, and should mark replays.
    #[must_use]
    pub fn acp() -> Self {
        Self::bare(IDEMPOTENCY_KEY)
            .with_methods([Method::POST, Method::PUT])
            .with_marker(replayed_header(Answer::Unknown))
            .with_code("/code", "idempotency_conflict", Verdict::Final)
            .with_code("/code", "idempotency_in_flight", Verdict::Retry)
    }

    /// The REST binding of the Universal Commerce Protocol
    /// ([source](https://github.com/Universal-Commerce-Protocol/ucp)). Its servers compare the
    /// bytes of the body and keep answers for at least 24 h. A `409` is a conflict. Add the key
    /// before you sign the request: the signature covers it.
    #[must_use]
    pub fn ucp_rest() -> Self {
        Self::bare(IDEMPOTENCY_KEY)
            .with_methods([Method::POST, Method::PUT])
            .with_body_comparison(BodyComparison::Bytes)
    }

    /// The Ad Context Protocol, the input of a task as the body
    /// ([source](https://github.com/adcontextprotocol/adcp)). A seller declares how long it keeps
    /// answers, at least 1 h, in `get_adcp_capabilities`: set that. Errors may come with `200`.
    #[must_use]
    pub fn adcp() -> Self {
        let mut protocol = Self::member("/idempotency_key")
            .with_lifetime(HOUR)
            .with_marker(ReplayMarker::Member {
                pointer: "/replayed".to_owned(),
                absent: Answer::First,
            });
        for pointer in ["/adcp_error/code", "/errors/0/code"] {
            protocol = protocol
                .with_code(pointer, "IDEMPOTENCY_CONFLICT", Verdict::Final)
                .with_code(pointer, "IDEMPOTENCY_EXPIRED", Verdict::Final)
                .with_code(pointer, "IDEMPOTENCY_IN_FLIGHT", Verdict::Retry)
                .with_code(pointer, "RATE_LIMITED", Verdict::Retry);
        }
        protocol
    }

    /// The REST catalog of Apache Iceberg 1.11
    /// ([source](https://github.com/apache/iceberg/blob/main/open-api/rest-catalog-open-api.yaml)).
    /// `lifetime` is the `idempotency-key-lifetime` of `GET /v1/config`. Without one, the catalog
    /// knows no keys: do not use this client.
    #[must_use]
    pub fn iceberg(lifetime: Duration) -> Self {
        Self::bare(IDEMPOTENCY_KEY)
            .with_key_form(KeyForm::UuidV7)
            .with_methods([Method::POST, Method::DELETE])
            .with_lifetime(lifetime)
    }

    /// [OASIS Repeatable Requests 1.0](https://docs.oasis-open.org/odata/repeatable-requests/v1.0/)
    /// as in the [guidelines of
    /// Azure](https://github.com/microsoft/api-guidelines/blob/vNext/azure/Guidelines.md): for
    /// `POST`, kept for at least 5 min. The date of the first sending stays the same on every repeat.
    #[must_use]
    pub fn azure() -> Self {
        Self {
            carrier: Carrier::HeaderPair {
                id: HeaderName::from_static("repeatability-request-id"),
                first_sent: HeaderName::from_static("repeatability-first-sent"),
            },
            lifetime: Some(5 * MINUTE),
            marker: ReplayMarker::Nothing,
            ..Self::ietf().with_methods([Method::POST])
        }
    }

    /// Stripe's API v1. Draft. It stores answers with 5xx, too, and marks their replays.
    #[must_use]
    pub fn stripe() -> Self {
        let should_retry = HeaderName::from_static("stripe-should-retry");
        Self::bare(IDEMPOTENCY_KEY)
            .with_methods([Method::POST])
            .with_marker(replayed_header(Answer::First))
            .with_code("/error/type", "idempotency_error", Verdict::Final)
            .with_code("/error/code", "idempotency_key_in_use", Verdict::Retry)
            .with_deciding_header(should_retry.clone(), "false", Verdict::Final)
            .with_deciding_header(should_retry, "true", Verdict::Retry)
            .into_draft()
    }

    /// Square's API. Draft. How long Square keeps answers is not documented: 24 h is a guess.
    #[must_use]
    pub fn square() -> Self {
        Self::member("/idempotency_key")
            .with_methods([Method::POST, Method::PUT])
            .with_code("/errors/0/code", "IDEMPOTENCY_KEY_REUSED", Verdict::Final)
            .into_draft()
    }

    /// PayPal's REST APIs
    /// ([source](https://github.com/paypal/paypal-rest-api-specifications)). A repeat gets the
    /// current state of the resource. Payments are kept for 6 h, orders for 45 days: set what your
    /// call has.
    #[must_use]
    pub fn paypal() -> Self {
        let mut protocol = Self::bare(HeaderName::from_static("paypal-request-id"))
            .with_methods([Method::POST])
            .with_lifetime(6 * HOUR);
        for pointer in ["/name", "/details/0/issue"] {
            protocol = protocol
                .with_code(pointer, "PREVIOUS_REQUEST_IN_PROGRESS", Verdict::Retry)
                .with_code(pointer, "DUPLICATE_REQUEST_ID", Verdict::Final)
                .with_code(pointer, "PAYPAL_REQUEST_ID_PREVIOUSLY_USED", Verdict::Final);
        }
        protocol
    }

    /// Adyen's API. Draft. Keys belong to the company account in one region.
    #[must_use]
    pub fn adyen() -> Self {
        let transient = HeaderName::from_static("transient-error");
        Self::bare(IDEMPOTENCY_KEY)
            .with_methods([Method::POST])
            .with_lifetime(7 * DAY)
            .with_code("/errorCode", "704", Verdict::Retry)
            .with_deciding_header(transient, "true", Verdict::Retry)
            .into_draft()
    }

    /// A client token in the manner of AWS, such as `/clientToken`, for services with JSON bodies.
    /// Draft. The times differ by service, from 15 min on: set the service's.
    #[must_use]
    pub fn aws_style(pointer: impl Into<String>) -> Self {
        Self::member(pointer)
            .with_methods([Method::POST, Method::PUT])
            .with_lifetime(15 * MINUTE)
            .into_draft()
    }

    /// [AIP-155](https://google.aip.dev/155): the member `request_id` of the body. A service
    /// documents how long it knows an id; 1 h is a guess.
    #[must_use]
    pub fn aip155() -> Self {
        Self::member("/request_id")
            .with_methods([Method::POST, Method::PATCH])
            .with_lifetime(HOUR)
    }

    /// A key as it is in a header, without a marker.
    fn bare(name: HeaderName) -> Self {
        Self::ietf()
            .with_carrier(Carrier::Header(name))
            .with_marker(ReplayMarker::Nothing)
    }

    /// A key in the body of a `POST`, without a marker.
    fn member(pointer: impl Into<String>) -> Self {
        Self::ietf()
            .with_carrier(Carrier::Member(pointer.into()))
            .with_marker(ReplayMarker::Nothing)
            .with_methods([Method::POST])
    }

    fn into_draft(mut self) -> Self {
        self.is_draft = true;
        self
    }
}

/// The marker of `idem-http` and of several vendors.
fn replayed_header(absent: Answer) -> ReplayMarker {
    ReplayMarker::Header {
        name: HeaderName::from_static("idempotent-replayed"),
        value: "true".to_owned(),
        absent,
    }
}

/// The problem types of `idem-http`. A later version may add some, which are final.
fn problems_of_idem_http() -> Vec<CodeRule> {
    let rule = |name: &str, verdict| CodeRule {
        pointer: "/type".to_owned(),
        code: format!("urn:idem:problem:{name}"),
        verdict,
    };
    vec![
        rule("request-in-flight", Some(Verdict::Retry)),
        rule("store-unavailable", Some(Verdict::Retry)),
        rule("too-early", Some(Verdict::Retry)),
        rule("request-unreadable", Some(Verdict::Retry)),
        // Of a lost commit the next try may learn more; of a recorded failure it may not.
        rule("outcome-unknown", None),
        rule("*", Some(Verdict::Final)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_presets_from_second_hand_are_drafts() {
        for (protocol, is_draft) in [
            (Protocol::ietf(), false),
            (Protocol::idem_http(), false),
            (Protocol::acp(), false),
            (Protocol::ucp_rest(), false),
            (Protocol::adcp(), false),
            (Protocol::iceberg(HOUR), false),
            (Protocol::azure(), false),
            (Protocol::stripe(), true),
            (Protocol::square(), true),
            (Protocol::paypal(), false),
            (Protocol::adyen(), true),
            (Protocol::aws_style("/clientToken"), true),
            (Protocol::aip155(), false),
        ] {
            assert_eq!(protocol.is_draft(), is_draft, "{protocol:?}");
            assert!(protocol.lifetime().is_some());
            assert!(protocol.guards(&Method::POST) && !protocol.guards(&Method::GET));
        }
    }
}
