//! Repeatable requests, drafts, and presets in the manner of vendors.

use idem_http::presets;

use super::conformance::check;
use super::rpc::Rpc;
use super::subject::{Carrier, Subject};

#[tokio::test]
async fn azure_answers_as_its_page_says() {
    let subject = Subject {
        name: "azure",
        policy: presets::azure,
        carrier: Carrier::Pair,
        rows: r#"
            Missing | 201 | Runs | !repeatability-result
            NoFirstSent | 201 | Runs | repeatability-result: accepted
            OldFirstSent | 412 | Refuses | RepeatabilityWindowExpired
            First | 201 | Runs | repeatability-result: accepted
            Replay | 201 | Replays | repeatability-result: accepted
            Rewritten | 201 | Replays
            OtherBody | 400 | Refuses | RepeatabilityRequestMismatch | repeatability-result: rejected
            Elsewhere | 400 | Refuses | RepeatabilityRequestMismatch
            OtherAccount | 201 | Runs
            InFlight | 409 | Refuses | RepeatableRequestInProgress
            Rejected | 402 | Replays | repeatability-result: accepted
            Broken | 500 | Runs | repeatability-result: accepted
            StoreDown | 503 | Refuses | repeatability-result: rejected
            Unsupported | 501 | Refuses | RepeatabilityNotSupported
            Get | 200 | Runs | !repeatability-result
        "#,
    };
    check(&subject).await;
}

#[tokio::test]
async fn stripe_answers_as_its_page_says() {
    let subject = Subject {
        name: "stripe",
        policy: presets::stripe,
        carrier: Carrier::Header("Idempotency-Key"),
        rows: r#"
            Missing | 201 | Runs
            First | 201 | Runs
            Replay | 201 | Replays | idempotent-replayed: true
            OtherBody | 400 | Refuses | "type":"idempotency_error"
            Elsewhere | 400 | Refuses | idempotency_error
            OtherAccount | 201 | Runs
            InFlight | 409 | Refuses | "code":"idempotency_key_in_use"
            Rejected | 402 | Replays | idempotent-replayed: true
            Limited | 429 | Runs
            Broken | 500 | Replays | idempotent-replayed: true
            Expired | 201 | Runs
            StoreDown | 503 | Refuses | "type":"api_error"
            Get | 200 | Runs
        "#,
    };
    check(&subject).await;
}

#[tokio::test]
async fn stripe_v2_answers_as_its_page_says() {
    let subject = Subject {
        name: "stripe_v2",
        policy: presets::stripe_v2,
        carrier: Carrier::Header("Idempotency-Key"),
        rows: r#"
            Missing | 201 | Runs
            First | 201 | Runs
            Replay | 201 | Replays | idempotent-replayed: true
            OtherBody | 400 | Refuses | idempotency_error
            InFlight | 409 | Refuses | idempotency_key_in_use
            Rejected | 402 | Runs
            Broken | 500 | Runs
        "#,
    };
    check(&subject).await;
}

#[tokio::test]
async fn square_answers_as_its_page_says() {
    let subject = Subject {
        name: "square",
        policy: presets::square,
        carrier: Carrier::Member("idempotency_key"),
        rows: r#"
            Missing | 400 | Refuses | MISSING_REQUIRED_PARAMETER
            Malformed:  | 400 | Refuses | BAD_REQUEST
            First | 201 | Runs
            Replay | 201 | Replays | !replayed
            Rewritten | 201 | Replays
            OtherBody | 400 | Refuses | "code":"IDEMPOTENCY_KEY_REUSED" | "category":"INVALID_REQUEST_ERROR"
            Elsewhere | 201 | Runs
            OtherAccount | 201 | Runs
            InFlight | 409 | Refuses | CONFLICT
            Rejected | 402 | Runs
            Broken | 500 | Runs
            Expired | 201 | Runs
            StoreDown | 503 | Refuses | SERVICE_UNAVAILABLE
        "#,
    };
    check(&subject).await;
}

#[tokio::test]
async fn paypal_answers_as_its_page_says() {
    let subject = Subject {
        name: "paypal",
        policy: presets::paypal,
        carrier: Carrier::Header("PayPal-Request-Id"),
        rows: r#"
            Missing | 201 | Runs
            First | 201 | Runs
            Replay | 201 | Replays | !replayed
            OtherBody | 422 | Refuses | DUPLICATE_REQUEST_ID
            Elsewhere | 201 | Runs
            InFlight | 409 | Refuses | PREVIOUS_REQUEST_IN_PROGRESS
            Rejected | 402 | Runs
            Broken | 500 | Runs
            StoreDown | 503 | Refuses | SERVICE_UNAVAILABLE
        "#,
    };
    check(&subject).await;
}

#[tokio::test]
async fn adyen_answers_as_its_page_says() {
    let subject = Subject {
        name: "adyen",
        policy: presets::adyen,
        carrier: Carrier::Header("Idempotency-Key"),
        rows: r#"
            Missing | 201 | Runs
            First | 201 | Runs | idempotency-key: 017f22e2
            Replay | 201 | Replays | idempotency-key: 017f22e2
            OtherBody | 422 | Refuses | "errorCode":"704"
            InFlight | 409 | Refuses | "errorCode":"704"
            Rejected | 402 | Replays
            Broken | 500 | Replays
            Transient | 500 | Runs | transient-error: true
            StoreDown | 503 | Refuses | transient-error: true
        "#,
    };
    check(&subject).await;
}

#[tokio::test]
async fn aws_answers_as_its_page_says() {
    let subject = Subject {
        name: "aws",
        policy: || presets::aws("/ClientToken"),
        carrier: Carrier::Member("ClientToken"),
        rows: r#"
            Missing | 201 | Runs
            First | 201 | Runs
            Replay | 201 | Replays | !replayed
            OtherBody | 400 | Refuses | IdempotentParameterMismatch
            OtherAccount | 201 | Runs
            InFlight | 409 | Refuses | TransactionInProgressException
            Rejected | 402 | Runs
            Broken | 500 | Runs
            Expired | 201 | Runs
        "#,
    };
    check(&subject).await;
}

#[tokio::test]
async fn aip155_answers_as_its_page_says() {
    let subject = Subject {
        name: "aip155",
        policy: presets::aip155,
        carrier: Carrier::Member("request_id"),
        rows: r#"
            Missing | 201 | Runs
            Malformed: not-a-uuid | 400 | Refuses | INVALID_ARGUMENT
            First | 201 | Runs
            Replay | 201 | Replays
            OtherBody | 400 | Refuses | INVALID_ARGUMENT
            InFlight | 409 | Refuses | ABORTED
            Rejected | 402 | Runs
            StoreDown | 503 | Refuses | UNAVAILABLE
        "#,
    };
    check(&subject).await;
}

#[tokio::test]
async fn mcp_answers_as_its_page_says() {
    let subject = Subject {
        name: "mcp",
        policy: || presets::mcp(["pay", "refund"]),
        carrier: Carrier::Rpc(Rpc::Mcp),
        rows: r#"
            Missing | 200 | Runs
            First | 200 | Runs
            Replay | 200 | Replays
            NewId | 200 | Replays | "id":8
            Rewritten | 200 | Replays
            OtherBody | 200 | Refuses | "type":"idempotency_key_conflict"
            Elsewhere | 200 | Refuses | idempotency_key_conflict
            InFlight | 200 | Refuses | idempotency_key_in_progress
            Rejected | 200 | Replays | "isError":true
            Broken | 500 | Runs
            Batch | 200 | Refuses | idempotency_key_invalid
        "#,
    };
    check(&subject).await;
}

#[tokio::test]
async fn a2a_answers_as_its_page_says() {
    let subject = Subject {
        name: "a2a",
        policy: presets::a2a,
        carrier: Carrier::Rpc(Rpc::A2a),
        rows: r#"
            Missing | 200 | Refuses | idempotency_key_required
            First | 200 | Runs
            Replay | 200 | Replays
            NewId | 200 | Replays | "id":8
            OtherBody | 200 | Refuses | idempotency_key_conflict
            InFlight | 200 | Refuses | idempotency_key_in_progress
        "#,
    };
    check(&subject).await;
}
