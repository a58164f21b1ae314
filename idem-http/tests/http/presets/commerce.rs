//! The protocols of agents and commerce, and the catalog of Iceberg.

use idem_http::{HttpPolicy, presets};

use super::conformance::check;
use super::rpc::Rpc;
use super::subject::{Carrier, Subject};

#[tokio::test]
async fn ietf_answers_as_its_page_says() {
    let subject = Subject {
        name: "ietf",
        policy: HttpPolicy::ietf,
        carrier: Carrier::Header("Idempotency-Key"),
        rows: r#"
            Missing | 201 | Runs | !replayed
            Malformed: "unterminated | 400 | Refuses | urn:idem:problem:key-malformed
            First | 201 | Runs | !replayed
            Replay | 201 | Replays | idempotent-replayed: true | idempotency-first-answered
            Rewritten | 201 | Replays | idempotent-replayed: true
            WithNull | 422 | Refuses | urn:idem:problem:key-reused
            OtherBody | 422 | Refuses | urn:idem:problem:key-reused
            Elsewhere | 422 | Refuses | urn:idem:problem:key-reused
            OtherAccount | 201 | Runs
            InFlight | 409 | Refuses | retry-after: 1 | request-in-flight
            InFlightOther | 422 | Refuses | urn:idem:problem:key-reused
            Rejected | 402 | Replays | idempotent-replayed: true
            Limited | 429 | Runs
            Broken | 500 | Runs
            Business | 200 | Replays
            Expired | 201 | Runs | !replayed
            StoreDown | 503 | Refuses | retry-after: 1 | store-unavailable
            Get | 200 | Runs | no payments
        "#,
    };
    check(&subject).await;
}

/// Source: `rfc.agentic_checkout.md`, 3.1, 6.1 to 6.8.
const ACP: &str = r#"
            Missing | 400 | Refuses | "code":"idempotency_key_required" | "type":"invalid_request"
            Malformed: größe | 400 | Refuses | "code":"invalid" | !"param"
            First | 201 | Runs | idempotency-key: 017f22e2 | !idempotent-replayed
            Replay | 201 | Replays | idempotent-replayed: true | idempotency-key: 017f22e2 | !first-answered
            Rewritten | 201 | Replays | idempotent-replayed: true
            WithNull | 422 | Refuses | idempotency_conflict
            OtherBody | 422 | Refuses | "code":"idempotency_conflict" | idempotency-key: 017f22e2
            Elsewhere | 201 | Runs
            OtherAccount | 201 | Runs
            InFlight | 409 | Refuses | "code":"idempotency_in_flight" | retry-after: 1 | !retryAfter
            InFlightOther | 422 | Refuses | idempotency_conflict
            Rejected | 402 | Replays | idempotent-replayed: true
            Limited | 429 | Runs
            Broken | 500 | Runs
            Business | 200 | Replays
            Expired | 201 | Runs
            StoreDown | 503 | Refuses | service_unavailable
            Get | 200 | Runs
        "#;

#[tokio::test]
async fn acp_answers_as_its_page_says() {
    let subject = Subject {
        name: "acp",
        policy: presets::acp,
        carrier: Carrier::Header("Idempotency-Key"),
        rows: ACP,
    };
    check(&subject).await;
}

#[tokio::test]
async fn acp_delegate_authentication_answers_as_its_page_says() {
    let subject = Subject {
        name: "acp_delegate_authentication",
        policy: presets::acp_delegate_authentication,
        carrier: Carrier::Header("Idempotency-Key"),
        rows: r#"
            Missing | 201 | Runs
            First | 201 | Runs | idempotency-key: 017f22e2
            Replay | 201 | Replays | idempotent-replayed: true
            OtherBody | 409 | Refuses | idempotency_conflict
        "#,
    };
    check(&subject).await;
}

#[tokio::test]
async fn acp_over_mcp_answers_as_its_page_says() {
    let subject = Subject {
        name: "acp_mcp",
        policy: presets::acp_mcp,
        carrier: Carrier::Rpc(Rpc::Acp),
        rows: r#"
            Missing | 200 | Refuses | "code":-32000 | idempotency_key_required | "id":7
            First | 200 | Runs | "payment":1
            Replay | 200 | Replays | "payment":1 | !replayed
            NewId | 200 | Replays | "id":8 | "payment":1
            Rewritten | 200 | Replays
            OtherBody | 200 | Refuses | idempotency_conflict | "error"
            Elsewhere | 200 | Runs
            OtherAccount | 200 | Runs
            InFlight | 200 | Refuses | idempotency_in_flight
            Rejected | 200 | Replays
            Broken | 500 | Runs
            Batch | 200 | Refuses | "id":null | invalid
        "#,
    };
    check(&subject).await;
}

/// Source: `signatures.md`, "Replay Protection"; `idempotency_test.py` of the conformance suite:
/// equal status and body for create, update, complete and cancel, 409 for another body.
#[tokio::test]
async fn ucp_answers_as_its_page_says() {
    let subject = Subject {
        name: "ucp",
        policy: presets::ucp,
        carrier: Carrier::Header("Idempotency-Key"),
        rows: r#"
            Missing | 400 | Refuses | "code":"idempotency_key_required" | "content":
            Malformed: not-a-uuid | 400 | Refuses | idempotency_key_invalid
            First | 201 | Runs
            Replay | 201 | Replays | !replayed | !first-answered
            Rewritten | 409 | Refuses | idempotency_conflict
            WithNull | 409 | Refuses | idempotency_conflict
            Elsewhere | 409 | Refuses
            OtherBody | 409 | Refuses | idempotency_conflict
            OtherAccount | 201 | Runs
            InFlight | 409 | Refuses | idempotency_in_flight | retry-after: 1
            InFlightOther | 409 | Refuses | idempotency_conflict
            Rejected | 402 | Replays
            Limited | 429 | Runs
            Broken | 500 | Runs
            Business | 200 | Replays
            Expired | 201 | Runs
            StoreDown | 503 | Refuses | service_unavailable
            Get | 200 | Runs
        "#,
    };
    check(&subject).await;
}

#[tokio::test]
async fn ucp_over_mcp_answers_as_its_page_says() {
    let subject = Subject {
        name: "ucp_mcp",
        policy: presets::ucp_mcp,
        carrier: Carrier::Rpc(Rpc::Ucp),
        rows: r#"
            Missing | 200 | Refuses | "code":-32000 | idempotency_key_required
            Malformed: not-a-uuid | 200 | Refuses | idempotency_key_invalid
            First | 200 | Runs
            Replay | 200 | Replays
            NewId | 200 | Replays | "id":8
            Rewritten | 200 | Replays
            OtherContext | 200 | Replays
            OtherBody | 200 | Refuses | idempotency_conflict | "code":-32000
            Elsewhere | 200 | Runs
            InFlight | 200 | Refuses | "retry_after":1
            SignedWithOther | 200 | Refuses | idempotency_key_invalid
            StoreDown | 200 | Refuses | "retry_after":1
            Batch | 200 | Refuses | idempotency_key_invalid
        "#,
    };
    check(&subject).await;
}

/// Source: `security.mdx`, "Idempotency", rules 1 to 10, and the storyboard `idempotency.yaml`.
#[tokio::test]
async fn adcp_answers_as_its_page_says() {
    let subject = Subject {
        name: "adcp",
        policy: || presets::adcp(["create_media_buy", "update_media_buy"], ["get_products"]),
        carrier: Carrier::Rpc(Rpc::Adcp),
        rows: r#"
            Missing | 200 | Refuses | VALIDATION_ERROR | "pointer":"/idempotency_key" | "isError":true | "context":{"trace":"first"}
            Malformed: too-short | 200 | Refuses | VALIDATION_ERROR
            Malformed: with blanks within it | 200 | Refuses | VALIDATION_ERROR
            Malformed: 0000000000000001 | 200 | Refuses | VALIDATION_ERROR
            First | 200 | Runs | !replayed
            Replay | 200 | Replays | "replayed":true | \"replayed\":true | "payment":1
            NewId | 200 | Replays | "id":8 | "replayed":true
            Rewritten | 200 | Replays | "replayed":true
            OtherContext | 200 | Replays | "context":{"trace":"second"} | "replayed":true
            WithNull | 200 | Refuses | IDEMPOTENCY_CONFLICT
            OtherBody | 200 | Refuses | "code":"IDEMPOTENCY_CONFLICT" | !recovery | !"field"
            Elsewhere | 200 | Refuses | IDEMPOTENCY_CONFLICT
            OtherAccount | 200 | Runs | !replayed
            InFlight | 200 | Refuses | IDEMPOTENCY_IN_FLIGHT | "retry_after":1 | "recovery":"transient"
            InFlightOther | 200 | Refuses | IDEMPOTENCY_CONFLICT
            Rejected | 200 | Runs | "isError":true
            Limited | 429 | Runs
            Broken | 500 | Runs
            Business | 200 | Runs | DECLINED
            Expired | 200 | Refuses | IDEMPOTENCY_EXPIRED
            StoreDown | 200 | Refuses | SERVICE_UNAVAILABLE | "recovery":"transient"
            Batch | 200 | Refuses | VALIDATION_ERROR
        "#,
    };
    check(&subject).await;
}

/// Source: `rest-catalog-open-api.yaml`, `parameters/idempotency-key`.
#[tokio::test]
async fn iceberg_answers_as_its_page_says() {
    let subject = Subject {
        name: "iceberg",
        policy: presets::iceberg,
        carrier: Carrier::Header("Idempotency-Key"),
        rows: r#"
            Missing | 201 | Runs
            Malformed: 8e03978e-40d5-43e8-bc93-6894a57f9324 | 400 | Refuses | "type":"BadRequestException" | "code":400 | version 7
            First | 201 | Runs
            Replay | 201 | Replays | !replayed
            Rewritten | 201 | Replays
            OtherBody | 422 | Refuses | IdempotencyKeyConflictException
            Elsewhere | 422 | Refuses | IdempotencyKeyConflictException
            OtherAccount | 201 | Runs
            InFlight | 503 | Refuses | IdempotencyKeyInProgressException | retry-after: 1
            Rejected | 402 | Replays
            Limited | 429 | Runs
            Broken | 500 | Runs
            Expired | 201 | Runs
            StoreDown | 503 | Refuses | ServiceUnavailableException
            Get | 200 | Runs
        "#,
    };
    check(&subject).await;
}
