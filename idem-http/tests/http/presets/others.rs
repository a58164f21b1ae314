//! Repeatable requests, drafts, and presets in the manner of vendors.

use idem_http::presets;

use super::conformance::check;
use super::row::Does::{Refuses, Replays, Runs};
use super::row::{Expected as E, Row};
use super::rpc::Rpc;
use super::subject::{Carrier, Subject};

/// Source: `odata-repeatable-requests.md`, 3 to 8.
#[tokio::test]
async fn oasis_answers_as_its_page_says() {
    let subject = Subject {
        name: "oasis",
        policy: presets::oasis,
        carrier: Carrier::Pair,
        rows: &[
            E(Row::Missing, 201, Runs, &["!repeatability-result"]),
            E(
                Row::NoFirstSent,
                400,
                Refuses,
                &["repeatability-result: rejected"],
            ),
            E(
                Row::OldFirstSent,
                412,
                Refuses,
                &["repeatability-result: rejected"],
            ),
            E(Row::First, 201, Runs, &["repeatability-result: accepted"]),
            E(
                Row::Replay,
                201,
                Replays,
                &["repeatability-result: accepted"],
            ),
            E(Row::Rewritten, 201, Replays, &[]),
            E(
                Row::OtherBody,
                400,
                Refuses,
                &["repeatability-result: rejected"],
            ),
            E(
                Row::Elsewhere,
                400,
                Refuses,
                &["repeatability-result: rejected"],
            ),
            E(Row::OtherAccount, 201, Runs, &[]),
            E(Row::Rejected, 402, Replays, &[]),
            E(Row::Broken, 500, Runs, &[]),
            E(Row::Get, 200, Runs, &["!repeatability-result"]),
            E(
                Row::InFlight,
                409,
                Refuses,
                &["repeatability-result: rejected", "retry-after: 1"],
            ),
            E(
                Row::StoreDown,
                503,
                Refuses,
                &["repeatability-result: rejected"],
            ),
            E(
                Row::Unsupported,
                501,
                Refuses,
                &["repeatability-result: rejected"],
            ),
        ],
    };
    check(&subject).await;
}

#[tokio::test]
async fn azure_answers_as_its_page_says() {
    let subject = Subject {
        name: "azure",
        policy: presets::azure,
        carrier: Carrier::Pair,
        rows: &[
            E(Row::Missing, 201, Runs, &["!repeatability-result"]),
            E(
                Row::NoFirstSent,
                201,
                Runs,
                &["repeatability-result: accepted"],
            ),
            E(
                Row::OldFirstSent,
                412,
                Refuses,
                &["RepeatabilityWindowExpired"],
            ),
            E(Row::First, 201, Runs, &["repeatability-result: accepted"]),
            E(
                Row::Replay,
                201,
                Replays,
                &["repeatability-result: accepted"],
            ),
            E(Row::Rewritten, 201, Replays, &[]),
            E(
                Row::OtherBody,
                400,
                Refuses,
                &[
                    "RepeatabilityRequestMismatch",
                    "repeatability-result: rejected",
                ],
            ),
            E(
                Row::Elsewhere,
                400,
                Refuses,
                &["RepeatabilityRequestMismatch"],
            ),
            E(Row::OtherAccount, 201, Runs, &[]),
            E(
                Row::InFlight,
                409,
                Refuses,
                &["RepeatableRequestInProgress"],
            ),
            E(
                Row::Rejected,
                402,
                Replays,
                &["repeatability-result: accepted"],
            ),
            E(Row::Broken, 500, Runs, &["repeatability-result: accepted"]),
            E(
                Row::StoreDown,
                503,
                Refuses,
                &["repeatability-result: rejected"],
            ),
            E(
                Row::Unsupported,
                501,
                Refuses,
                &["RepeatabilityNotSupported"],
            ),
        ],
    };
    check(&subject).await;
}

#[tokio::test]
async fn stripe_answers_as_its_page_says() {
    let subject = Subject {
        name: "stripe",
        policy: presets::stripe,
        carrier: Carrier::Header("Idempotency-Key"),
        rows: &[
            E(Row::Missing, 201, Runs, &[]),
            E(Row::First, 201, Runs, &[]),
            E(Row::Replay, 201, Replays, &["idempotent-replayed: true"]),
            E(
                Row::OtherBody,
                400,
                Refuses,
                &[r#""type":"idempotency_error""#],
            ),
            E(Row::Elsewhere, 400, Refuses, &["idempotency_error"]),
            E(Row::OtherAccount, 201, Runs, &[]),
            E(
                Row::InFlight,
                409,
                Refuses,
                &[r#""code":"idempotency_key_in_use""#],
            ),
            E(Row::Rejected, 402, Replays, &["idempotent-replayed: true"]),
            E(Row::Limited, 429, Runs, &[]),
            E(Row::Broken, 500, Replays, &["idempotent-replayed: true"]),
            E(Row::Expired, 201, Runs, &[]),
            E(Row::StoreDown, 503, Refuses, &[r#""type":"api_error""#]),
            E(Row::Get, 200, Runs, &[]),
        ],
    };
    check(&subject).await;
}

#[tokio::test]
async fn stripe_v2_answers_as_its_page_says() {
    let subject = Subject {
        name: "stripe_v2",
        policy: presets::stripe_v2,
        carrier: Carrier::Header("Idempotency-Key"),
        rows: &[
            E(Row::Missing, 201, Runs, &[]),
            E(Row::First, 201, Runs, &[]),
            E(Row::Replay, 201, Replays, &["idempotent-replayed: true"]),
            E(Row::OtherBody, 400, Refuses, &["idempotency_error"]),
            E(Row::InFlight, 409, Refuses, &["idempotency_key_in_use"]),
            E(Row::Rejected, 402, Runs, &[]),
            E(Row::Broken, 500, Runs, &[]),
        ],
    };
    check(&subject).await;
}

#[tokio::test]
async fn square_answers_as_its_page_says() {
    let subject = Subject {
        name: "square",
        policy: presets::square,
        carrier: Carrier::Member("idempotency_key"),
        rows: &[
            E(Row::Missing, 400, Refuses, &["MISSING_REQUIRED_PARAMETER"]),
            E(Row::Malformed(""), 400, Refuses, &["BAD_REQUEST"]),
            E(Row::First, 201, Runs, &[]),
            E(Row::Replay, 201, Replays, &["!replayed"]),
            E(Row::Rewritten, 201, Replays, &[]),
            E(
                Row::OtherBody,
                400,
                Refuses,
                &[
                    r#""code":"IDEMPOTENCY_KEY_REUSED""#,
                    r#""category":"INVALID_REQUEST_ERROR""#,
                ],
            ),
            E(Row::Elsewhere, 201, Runs, &[]),
            E(Row::OtherAccount, 201, Runs, &[]),
            E(Row::InFlight, 409, Refuses, &["CONFLICT"]),
            E(Row::Rejected, 402, Runs, &[]),
            E(Row::Broken, 500, Runs, &[]),
            E(Row::Expired, 201, Runs, &[]),
            E(Row::StoreDown, 503, Refuses, &["SERVICE_UNAVAILABLE"]),
        ],
    };
    check(&subject).await;
}

#[tokio::test]
async fn paypal_answers_as_its_page_says() {
    let subject = Subject {
        name: "paypal",
        policy: presets::paypal,
        carrier: Carrier::Header("PayPal-Request-Id"),
        rows: &[
            E(Row::Missing, 201, Runs, &[]),
            E(Row::First, 201, Runs, &[]),
            E(Row::Replay, 201, Replays, &["!replayed"]),
            E(Row::OtherBody, 422, Refuses, &["DUPLICATE_REQUEST_ID"]),
            E(Row::Elsewhere, 201, Runs, &[]),
            E(
                Row::InFlight,
                409,
                Refuses,
                &["PREVIOUS_REQUEST_IN_PROGRESS"],
            ),
            E(Row::Rejected, 402, Runs, &[]),
            E(Row::Broken, 500, Runs, &[]),
            E(Row::StoreDown, 503, Refuses, &["SERVICE_UNAVAILABLE"]),
        ],
    };
    check(&subject).await;
}

#[tokio::test]
async fn adyen_answers_as_its_page_says() {
    let subject = Subject {
        name: "adyen",
        policy: presets::adyen,
        carrier: Carrier::Header("Idempotency-Key"),
        rows: &[
            E(Row::Missing, 201, Runs, &[]),
            E(Row::First, 201, Runs, &["idempotency-key: 017f22e2"]),
            E(Row::Replay, 201, Replays, &["idempotency-key: 017f22e2"]),
            E(Row::OtherBody, 422, Refuses, &[r#""errorCode":"704""#]),
            E(Row::InFlight, 409, Refuses, &[r#""errorCode":"704""#]),
            E(Row::Rejected, 402, Replays, &[]),
            E(Row::Broken, 500, Replays, &[]),
            E(Row::Transient, 500, Runs, &["transient-error: true"]),
            E(Row::StoreDown, 503, Refuses, &["transient-error: true"]),
        ],
    };
    check(&subject).await;
}

#[tokio::test]
async fn aws_answers_as_its_page_says() {
    let subject = Subject {
        name: "aws",
        policy: || presets::aws("/ClientToken"),
        carrier: Carrier::Member("ClientToken"),
        rows: &[
            E(Row::Missing, 201, Runs, &[]),
            E(Row::First, 201, Runs, &[]),
            E(Row::Replay, 201, Replays, &["!replayed"]),
            E(
                Row::OtherBody,
                400,
                Refuses,
                &["IdempotentParameterMismatch"],
            ),
            E(Row::OtherAccount, 201, Runs, &[]),
            E(
                Row::InFlight,
                409,
                Refuses,
                &["TransactionInProgressException"],
            ),
            E(Row::Rejected, 402, Runs, &[]),
            E(Row::Broken, 500, Runs, &[]),
            E(Row::Expired, 201, Runs, &[]),
        ],
    };
    check(&subject).await;
}

#[tokio::test]
async fn aip155_answers_as_its_page_says() {
    let subject = Subject {
        name: "aip155",
        policy: presets::aip155,
        carrier: Carrier::Member("request_id"),
        rows: &[
            E(Row::Missing, 201, Runs, &[]),
            E(
                Row::Malformed("not-a-uuid"),
                400,
                Refuses,
                &["INVALID_ARGUMENT"],
            ),
            E(Row::First, 201, Runs, &[]),
            E(Row::Replay, 201, Replays, &[]),
            E(Row::OtherBody, 400, Refuses, &["INVALID_ARGUMENT"]),
            E(Row::InFlight, 409, Refuses, &["ABORTED"]),
            E(Row::Rejected, 402, Runs, &[]),
            E(Row::StoreDown, 503, Refuses, &["UNAVAILABLE"]),
        ],
    };
    check(&subject).await;
}

#[tokio::test]
async fn mcp_answers_as_its_page_says() {
    let subject = Subject {
        name: "mcp",
        policy: || presets::mcp(["pay", "refund"]),
        carrier: Carrier::Rpc(Rpc::Mcp),
        rows: &[
            E(Row::Missing, 200, Runs, &[]),
            E(Row::First, 200, Runs, &[]),
            E(Row::Replay, 200, Replays, &[]),
            E(Row::NewId, 200, Replays, &[r#""id":8"#]),
            E(Row::Rewritten, 200, Replays, &[]),
            E(
                Row::OtherBody,
                200,
                Refuses,
                &[r#""type":"idempotency_key_conflict""#],
            ),
            E(Row::Elsewhere, 200, Refuses, &["idempotency_key_conflict"]),
            E(
                Row::InFlight,
                200,
                Refuses,
                &["idempotency_key_in_progress"],
            ),
            E(Row::Rejected, 200, Replays, &[r#""isError":true"#]),
            E(Row::Broken, 500, Runs, &[]),
            E(Row::Batch, 200, Refuses, &["idempotency_key_invalid"]),
        ],
    };
    check(&subject).await;
}

#[tokio::test]
async fn a2a_answers_as_its_page_says() {
    let subject = Subject {
        name: "a2a",
        policy: presets::a2a,
        carrier: Carrier::Rpc(Rpc::A2a),
        rows: &[
            E(Row::Missing, 200, Refuses, &["idempotency_key_required"]),
            E(Row::First, 200, Runs, &[]),
            E(Row::Replay, 200, Replays, &[]),
            E(Row::NewId, 200, Replays, &[r#""id":8"#]),
            E(Row::OtherBody, 200, Refuses, &["idempotency_key_conflict"]),
            E(
                Row::InFlight,
                200,
                Refuses,
                &["idempotency_key_in_progress"],
            ),
        ],
    };
    check(&subject).await;
}
