//! The protocols of agents and commerce, and the catalog of Iceberg.

use idem_http::{HttpPolicy, presets};

use super::conformance::check;
use super::row::Does::{Refuses, Replays, Runs};
use super::row::{Expected as E, Row};
use super::rpc::Rpc;
use super::subject::{Carrier, Subject};

#[tokio::test]
async fn ietf_answers_as_its_page_says() {
    let subject = Subject {
        name: "ietf",
        policy: HttpPolicy::ietf,
        carrier: Carrier::Header("Idempotency-Key"),
        rows: &[
            E(Row::Missing, 201, Runs, &["!replayed"]),
            E(
                Row::Malformed("\"unterminated"),
                400,
                Refuses,
                &["urn:idem:problem:key-malformed"],
            ),
            E(Row::First, 201, Runs, &["!replayed"]),
            E(
                Row::Replay,
                201,
                Replays,
                &["idempotent-replayed: true", "idempotency-first-answered"],
            ),
            E(Row::Rewritten, 201, Replays, &["idempotent-replayed: true"]),
            E(
                Row::WithNull,
                422,
                Refuses,
                &["urn:idem:problem:key-reused"],
            ),
            E(
                Row::OtherBody,
                422,
                Refuses,
                &["urn:idem:problem:key-reused"],
            ),
            E(
                Row::Elsewhere,
                422,
                Refuses,
                &["urn:idem:problem:key-reused"],
            ),
            E(Row::OtherAccount, 201, Runs, &[]),
            E(
                Row::InFlight,
                409,
                Refuses,
                &["retry-after: 1", "request-in-flight"],
            ),
            E(
                Row::InFlightOther,
                422,
                Refuses,
                &["urn:idem:problem:key-reused"],
            ),
            E(Row::Rejected, 402, Replays, &["idempotent-replayed: true"]),
            E(Row::Limited, 429, Runs, &[]),
            E(Row::Broken, 500, Runs, &[]),
            E(Row::Business, 200, Replays, &[]),
            E(Row::Expired, 201, Runs, &["!replayed"]),
            E(
                Row::StoreDown,
                503,
                Refuses,
                &["retry-after: 1", "store-unavailable"],
            ),
            E(Row::Get, 200, Runs, &["no payments"]),
        ],
    };
    check(&subject).await;
}

/// Source: `rfc.agentic_checkout.md`, 3.1, 6.1 to 6.8.
const ACP: &[E] = &[
    E(
        Row::Missing,
        400,
        Refuses,
        &[
            r#""code":"idempotency_key_required""#,
            r#""type":"invalid_request""#,
        ],
    ),
    E(
        Row::Malformed("größe"),
        400,
        Refuses,
        &[r#""code":"invalid""#, "!\"param\""],
    ),
    E(
        Row::First,
        201,
        Runs,
        &["idempotency-key: 017f22e2", "!idempotent-replayed"],
    ),
    E(
        Row::Replay,
        201,
        Replays,
        &[
            "idempotent-replayed: true",
            "idempotency-key: 017f22e2",
            "!first-answered",
        ],
    ),
    E(Row::Rewritten, 201, Replays, &["idempotent-replayed: true"]),
    E(Row::WithNull, 422, Refuses, &["idempotency_conflict"]),
    E(
        Row::OtherBody,
        422,
        Refuses,
        &[
            r#""code":"idempotency_conflict""#,
            "idempotency-key: 017f22e2",
        ],
    ),
    E(Row::Elsewhere, 201, Runs, &[]),
    E(Row::OtherAccount, 201, Runs, &[]),
    E(
        Row::InFlight,
        409,
        Refuses,
        &[
            r#""code":"idempotency_in_flight""#,
            "retry-after: 1",
            "!retryAfter",
        ],
    ),
    E(Row::InFlightOther, 422, Refuses, &["idempotency_conflict"]),
    E(Row::Rejected, 402, Replays, &["idempotent-replayed: true"]),
    E(Row::Limited, 429, Runs, &[]),
    E(Row::Broken, 500, Runs, &[]),
    E(Row::Business, 200, Replays, &[]),
    E(Row::Expired, 201, Runs, &[]),
    E(Row::StoreDown, 503, Refuses, &["service_unavailable"]),
    E(Row::Get, 200, Runs, &[]),
];

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
        rows: &[
            E(Row::Missing, 201, Runs, &[]),
            E(Row::First, 201, Runs, &["idempotency-key: 017f22e2"]),
            E(Row::Replay, 201, Replays, &["idempotent-replayed: true"]),
            E(Row::OtherBody, 409, Refuses, &["idempotency_conflict"]),
        ],
    };
    check(&subject).await;
}

#[tokio::test]
async fn acp_over_mcp_answers_as_its_page_says() {
    let subject = Subject {
        name: "acp_mcp",
        policy: presets::acp_mcp,
        carrier: Carrier::Rpc(Rpc::Acp),
        rows: &[
            E(
                Row::Missing,
                200,
                Refuses,
                &[r#""code":-32000"#, "idempotency_key_required", r#""id":7"#],
            ),
            E(Row::First, 200, Runs, &[r#""payment":1"#]),
            E(Row::Replay, 200, Replays, &[r#""payment":1"#, "!replayed"]),
            E(Row::NewId, 200, Replays, &[r#""id":8"#, r#""payment":1"#]),
            E(Row::Rewritten, 200, Replays, &[]),
            E(
                Row::OtherBody,
                200,
                Refuses,
                &["idempotency_conflict", r#""error""#],
            ),
            E(Row::Elsewhere, 200, Runs, &[]),
            E(Row::OtherAccount, 200, Runs, &[]),
            E(Row::InFlight, 200, Refuses, &["idempotency_in_flight"]),
            E(Row::Rejected, 200, Replays, &[]),
            E(Row::Broken, 500, Runs, &[]),
            E(Row::Batch, 200, Refuses, &[r#""id":null"#, "invalid"]),
        ],
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
        rows: &[
            E(
                Row::Missing,
                400,
                Refuses,
                &[r#""code":"idempotency_key_required""#, r#""content":"#],
            ),
            E(
                Row::Malformed("not-a-uuid"),
                400,
                Refuses,
                &["idempotency_key_invalid"],
            ),
            E(Row::First, 201, Runs, &[]),
            E(Row::Replay, 201, Replays, &["!replayed", "!first-answered"]),
            E(Row::Rewritten, 409, Refuses, &["idempotency_conflict"]),
            E(Row::WithNull, 409, Refuses, &["idempotency_conflict"]),
            E(Row::OtherBody, 409, Refuses, &["idempotency_conflict"]),
            E(Row::OtherAccount, 201, Runs, &[]),
            E(
                Row::InFlight,
                409,
                Refuses,
                &["idempotency_in_flight", "retry-after: 1"],
            ),
            E(Row::InFlightOther, 409, Refuses, &["idempotency_conflict"]),
            E(Row::Rejected, 402, Replays, &[]),
            E(Row::Limited, 429, Runs, &[]),
            E(Row::Broken, 500, Runs, &[]),
            E(Row::Business, 200, Replays, &[]),
            E(Row::Expired, 201, Runs, &[]),
            E(Row::StoreDown, 503, Refuses, &["service_unavailable"]),
            E(Row::Get, 200, Runs, &[]),
        ],
    };
    check(&subject).await;
}

#[tokio::test]
async fn ucp_over_mcp_answers_as_its_page_says() {
    let subject = Subject {
        name: "ucp_mcp",
        policy: presets::ucp_mcp,
        carrier: Carrier::Rpc(Rpc::Ucp),
        rows: &[
            E(
                Row::Missing,
                200,
                Refuses,
                &[r#""code":-32000"#, "idempotency_key_required"],
            ),
            E(
                Row::Malformed("not-a-uuid"),
                200,
                Refuses,
                &["idempotency_key_invalid"],
            ),
            E(Row::First, 200, Runs, &[]),
            E(Row::Replay, 200, Replays, &[]),
            E(Row::NewId, 200, Replays, &[r#""id":8"#]),
            E(Row::Rewritten, 200, Replays, &[]),
            E(Row::OtherContext, 200, Replays, &[]),
            E(
                Row::OtherBody,
                200,
                Refuses,
                &["idempotency_conflict", r#""code":-32000"#],
            ),
            E(Row::Elsewhere, 200, Runs, &[]),
            E(Row::InFlight, 200, Refuses, &[r#""retry_after":1"#]),
            E(
                Row::SignedWithOther,
                200,
                Refuses,
                &["idempotency_key_invalid"],
            ),
            E(Row::StoreDown, 200, Refuses, &[r#""retry_after":1"#]),
            E(Row::Batch, 200, Refuses, &["idempotency_key_invalid"]),
        ],
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
        rows: &[
            E(
                Row::Missing,
                200,
                Refuses,
                &[
                    "VALIDATION_ERROR",
                    r#""pointer":"/idempotency_key""#,
                    r#""isError":true"#,
                    r#""context":{"trace":"first"}"#,
                ],
            ),
            E(
                Row::Malformed("too-short"),
                200,
                Refuses,
                &["VALIDATION_ERROR"],
            ),
            E(
                Row::Malformed("with blanks within it"),
                200,
                Refuses,
                &["VALIDATION_ERROR"],
            ),
            E(
                Row::Malformed("0000000000000001"),
                200,
                Refuses,
                &["VALIDATION_ERROR"],
            ),
            E(Row::First, 200, Runs, &["!replayed"]),
            E(
                Row::Replay,
                200,
                Replays,
                &[
                    r#""replayed":true"#,
                    r#"\"replayed\":true"#,
                    r#""payment":1"#,
                ],
            ),
            E(
                Row::NewId,
                200,
                Replays,
                &[r#""id":8"#, r#""replayed":true"#],
            ),
            E(Row::Rewritten, 200, Replays, &[r#""replayed":true"#]),
            E(
                Row::OtherContext,
                200,
                Replays,
                &[r#""context":{"trace":"second"}"#, r#""replayed":true"#],
            ),
            E(Row::WithNull, 200, Refuses, &["IDEMPOTENCY_CONFLICT"]),
            E(
                Row::OtherBody,
                200,
                Refuses,
                &[
                    r#""code":"IDEMPOTENCY_CONFLICT""#,
                    "!recovery",
                    "!\"field\"",
                ],
            ),
            E(Row::Elsewhere, 200, Refuses, &["IDEMPOTENCY_CONFLICT"]),
            E(Row::OtherAccount, 200, Runs, &["!replayed"]),
            E(
                Row::InFlight,
                200,
                Refuses,
                &[
                    "IDEMPOTENCY_IN_FLIGHT",
                    r#""retry_after":1"#,
                    r#""recovery":"transient""#,
                ],
            ),
            E(Row::InFlightOther, 200, Refuses, &["IDEMPOTENCY_CONFLICT"]),
            E(Row::Rejected, 200, Runs, &[r#""isError":true"#]),
            E(Row::Limited, 429, Runs, &[]),
            E(Row::Broken, 500, Runs, &[]),
            E(Row::Business, 200, Runs, &["DECLINED"]),
            E(Row::Expired, 200, Refuses, &["IDEMPOTENCY_EXPIRED"]),
            E(
                Row::StoreDown,
                200,
                Refuses,
                &["SERVICE_UNAVAILABLE", r#""recovery":"transient""#],
            ),
            E(Row::Batch, 200, Refuses, &["VALIDATION_ERROR"]),
        ],
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
        rows: &[
            E(Row::Missing, 201, Runs, &[]),
            E(
                Row::Malformed("8e03978e-40d5-43e8-bc93-6894a57f9324"),
                400,
                Refuses,
                &[
                    r#""type":"BadRequestException""#,
                    r#""code":400"#,
                    "version 7",
                ],
            ),
            E(Row::First, 201, Runs, &[]),
            E(Row::Replay, 201, Replays, &["!replayed"]),
            E(Row::Rewritten, 201, Replays, &[]),
            E(
                Row::OtherBody,
                422,
                Refuses,
                &["IdempotencyKeyConflictException"],
            ),
            E(
                Row::Elsewhere,
                422,
                Refuses,
                &["IdempotencyKeyConflictException"],
            ),
            E(Row::OtherAccount, 201, Runs, &[]),
            E(
                Row::InFlight,
                503,
                Refuses,
                &["IdempotencyKeyInProgressException", "retry-after: 1"],
            ),
            E(Row::Rejected, 402, Replays, &[]),
            E(Row::Limited, 429, Runs, &[]),
            E(Row::Broken, 500, Runs, &[]),
            E(Row::Expired, 201, Runs, &[]),
            E(
                Row::StoreDown,
                503,
                Refuses,
                &["ServiceUnavailableException"],
            ),
            E(Row::Get, 200, Runs, &[]),
        ],
    };
    check(&subject).await;
}
