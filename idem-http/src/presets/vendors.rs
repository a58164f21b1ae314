//! Rules in the manner of vendors.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode};

use super::words::{self, worded};
use super::{DAY, success};
use crate::{
    FingerprintRecipe, HttpPolicy, IDEMPOTENCY_KEY, KeyForm, KeyFormat, KeySource, Markers,
    ProblemType, Refusal, Requirement, Statuses,
};

/// The headers by which a platform names the account that a request is about.
const ACCOUNTS: [HeaderName; 2] = [
    HeaderName::from_static("stripe-account"),
    HeaderName::from_static("stripe-context"),
];

/// Tells clients of Stripe whether to retry, whatever the status says.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("stripe-should-retry");
const TRUE: HeaderValue = HeaderValue::from_static("true");
const FALSE: HeaderValue = HeaderValue::from_static("false");

/// Tells clients of Adyen that a retry runs again.
pub(super) const TRANSIENT: HeaderName = HeaderName::from_static("transient-error");

/// Behaves in the manner of Stripe's API v1 ([`stripe_v2`] is the other). **Draft**: its rules are read from its documentation,
/// which has no schema for them.
///
/// `POST` may carry a key, which is any text. `Stripe-Account` and `Stripe-Context` are part of it:
/// the same key for another account is another key. Scope: the account of the secret key. Once a
/// handler began, its answer is stored, `500` included. Not stored: `400` (validation failed,
/// nothing ran), `403` (a permission may be given), `409` (a lost race), [client errors that may
/// pass](crate::Statuses::without_transient), and answers with `Stripe-Should-Retry: true`; mark
/// other answers of requests that did not begin with [`NotStored`](crate::NotStored). The replay of
/// a 5xx has `Stripe-Should-Retry: false`, so that clients stop. A key that was used for another
/// request is `400` with the type `idempotency_error`. Answers are replayed for 24 hours, with
/// `Idempotent-Replayed: true`.
///
/// Source: [docs.stripe.com/api/idempotent_requests](https://docs.stripe.com/api/idempotent_requests).
///
#[doc = include_str!("stripe.md")]
#[must_use]
pub fn stripe() -> HttpPolicy {
    let stored = Statuses::all().without_transient();
    let stored = stored.without(400..=400).without(403..=403);
    let policy = HttpPolicy::ietf()
        .with_methods([Method::POST])
        .with_key_form(KeyForm::Opaque)
        .with_key_headers(ACCOUNTS)
        .with_status(ProblemType::KeyReused, StatusCode::BAD_REQUEST)
        .with_kept_statuses(stored.without(409..=409))
        .with_kept_if(|answer| answer.headers().get(SHOULD_RETRY) != Some(&TRUE))
        .with_replay_hook(|_, mut replay| async move {
            if replay.status().is_server_error() {
                replay.headers_mut().insert(SHOULD_RETRY, FALSE);
            }
            replay
        })
        .with_retention(DAY);
    worded(policy, &words::STRIPE, words::stripe)
}

/// Behaves in the manner of Stripe's API v2, whose paths begin with `/v2`. **Draft**, as [`stripe`].
///
/// `POST` and `DELETE` may carry a key; the SDKs always send one. Success is stored, for 30 days: a
/// request that failed runs again. Everything else is as in v1.
///
/// Source: [docs.stripe.com/api-v2-overview](https://docs.stripe.com/api-v2-overview), "Idempotency".
///
#[doc = include_str!("stripe_v2.md")]
#[must_use]
pub fn stripe_v2() -> HttpPolicy {
    stripe()
        .with_methods([Method::POST, Method::DELETE])
        .with_kept_statuses(success())
        .with_retention(30 * DAY)
}

/// Behaves in the manner of Square. **Draft**: the status of a reused key is second-hand.
///
/// The body has the key as `/idempotency_key`, at most 128 characters; several of Square's
/// endpoints take 45. It is required, and belongs to the path and query: endpoints without keys,
/// such as `orders.search`, go without the layer. The body is compared by its value, whole. Success is
/// stored, and a replay has no marker. A key that was used for another request is `400` with the
/// code `IDEMPOTENCY_KEY_REUSED`.
///
/// Source: [`api.json`](https://github.com/square/connect-api-specification/blob/master/api.json)
/// of 2025-08-19.
///
#[doc = include_str!("square.md")]
#[must_use]
pub fn square() -> HttpPolicy {
    let policy = HttpPolicy::ietf()
        .with_requirement(Requirement::Required)
        .with_key_source(KeySource::member("/idempotency_key"))
        .with_key_format(KeyFormat::any().with_length(1..=128))
        .with_key_space(super::by_target)
        .with_fingerprint(FingerprintRecipe::body())
        .with_status(ProblemType::KeyReused, StatusCode::BAD_REQUEST)
        .with_kept_statuses(success())
        .with_markers(Markers::none());
    worded(policy, &words::SQUARE, words::square)
}

/// Behaves in the manner of PayPal. **Draft**: the errors differ between its APIs.
///
/// `POST` may carry `PayPal-Request-Id`, 1 to 108 characters, which belongs to the path and query.
/// Scope: the client id or merchant, never the access token, which is refreshed between two tries.
/// `PayPal-Auth-Assertion`, the merchant for whom a partner acts, is compared. Success is
/// stored for 45 days, as for Orders (Payments: 6 hours). PayPal's replays show the current state
/// of the resource: add a hook that reads it,
/// [`with_replay_hook`](HttpPolicy::with_replay_hook); without one, a replay is the first answer.
/// Set [`Requirement::Required`](crate::Requirement::Required) where a route demands a key:
/// `PAYPAL_REQUEST_ID_REQUIRED`.
///
/// Source: [paypal-rest-api-specifications](https://github.com/paypal/paypal-rest-api-specifications)
/// of 2024-02-03.
///
#[doc = include_str!("paypal.md")]
#[must_use]
pub fn paypal() -> HttpPolicy {
    let key = HeaderName::from_static("paypal-request-id");
    let policy = HttpPolicy::ietf()
        .with_methods([Method::POST])
        .with_key_source(KeySource::header(key))
        .with_key_form(KeyForm::Opaque)
        .with_key_format(KeyFormat::any().with_length(1..=108))
        .with_key_space(super::by_target)
        .with_fingerprint(FingerprintRecipe::request().with_text(|parts| {
            let merchant = parts.headers.get("paypal-auth-assertion");
            let merchant = merchant.map(|merchant| merchant.as_bytes().escape_ascii().to_string());
            merchant.unwrap_or_default()
        }))
        .with_kept_statuses(success())
        .with_markers(Markers::none())
        .with_retention(45 * DAY);
    worded(policy, &words::PAYPAL, words::paypal)
}

/// Behaves in the manner of Adyen. **Draft**: some of its rules are second-hand.
///
/// `POST` may carry a key of at most 64 characters. Take the company account as the scope, which the
/// header `X-API-Key` tells. All answers are stored, errors too, unless the handler sets the header
/// `transient-error: true`, or answers with `403` (a permission may be given) or a [client error
/// that may pass](crate::Statuses::without_transient). Every answer repeats the key. A request in
/// flight gets `409` with the code `704`. Answers are replayed for 7 days.
///
/// Source: [docs.adyen.com/development-resources/api-idempotency](https://docs.adyen.com/development-resources/api-idempotency).
///
#[doc = include_str!("adyen.md")]
#[must_use]
pub fn adyen() -> HttpPolicy {
    let policy = HttpPolicy::ietf()
        .with_methods([Method::POST])
        .with_key_form(KeyForm::Opaque)
        .with_key_format(KeyFormat::any().with_length(1..=64))
        .with_kept_statuses(Statuses::all().without_transient().without(403..=403))
        .with_kept_if(|answer| answer.headers().get(TRANSIENT) != Some(&TRUE))
        .with_markers(Markers::none().with_key(IDEMPOTENCY_KEY))
        .with_retention(7 * DAY);
    worded(policy, &words::ADYEN, words::adyen)
}

/// Behaves in the manner of AWS services with a client token. **Draft**: details differ between
/// services.
///
/// `member` is the pointer of the token in a JSON body: `/ClientToken`, `/clientToken`,
/// `/ClientRequestToken`. A parameter of the query of that name will do, also with a small first
/// letter or as `client-token`; so will a field of a form, as EC2's clients send it, and one of the
/// headers `X-Amz-Client-Token`, `X-Amzn-Client-Token`, `X-Client-Token` and `Client-Token`. It is
/// optional, at most 128 characters (many services take 64), and upper and lower case differ.
/// `X-Amz-Target`, the operation, is part of the key. All other parameters are compared; another
/// request with the token is `IdempotentParameterMismatch`, `400`; one in flight is
/// `TransactionInProgressException`, `409`, after which SDKs try again. [`aws_errors`] has the names
/// of other services. The error of a request in a form is XML, as EC2's. Success is stored for 24
/// hours.
///
/// Source: [Ensuring idempotency in Amazon EC2 API requests](https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html),
/// and the members with `idempotencyToken` in the service models of
/// [botocore](https://github.com/boto/botocore/tree/develop/botocore/data) 1.41.
///
#[doc = include_str!("aws.md")]
#[must_use]
pub fn aws(member: &str) -> HttpPolicy {
    let name = member.trim_start_matches('/');
    let mut camel = name.to_owned();
    if let Some(first) = camel.get_mut(..1) {
        first.make_ascii_lowercase();
    }
    let queries = [name, &camel, "client-token"].map(KeySource::query);
    let headers = [
        "x-amz-client-token",
        "x-amzn-client-token",
        "x-client-token",
        "client-token",
    ];
    let headers = headers.map(|name| KeySource::header(HeaderName::from_static(name)));
    let others = queries.into_iter().chain(headers);
    let source = KeySource::member(member).or(KeySource::form(name));
    HttpPolicy::ietf()
        .with_key_source(others.fold(source, KeySource::or))
        .with_key_form(KeyForm::Opaque)
        .with_key_format(KeyFormat::any().with_length(1..=128))
        .with_key_headers([HeaderName::from_static("x-amz-target")])
        .with_status(ProblemType::KeyReused, StatusCode::BAD_REQUEST)
        .with_kept_statuses(success())
        .with_markers(Markers::none())
        .with_retention(DAY)
        // Of the names with which SDKs retry, whatever the status (botocore's
        // `retries/standard.py`), the second is the one of a conflict.
        .with_refusals(aws_errors(
            "IdempotentParameterMismatch",
            "TransactionInProgressException",
        ))
}

/// Words the refusals of [`aws`] with a service's names for a token that was used for another
/// request, and for a request that is in flight. Many services have `ConflictException` and
/// `IdempotentParameterMismatchException`; SDKs do not retry after the first.
///
/// ```
/// use http::StatusCode;
/// use idem_http::{ProblemType, presets};
///
/// let names = presets::aws_errors("ConflictException", "TransactionInProgressException");
/// let policy = presets::aws("/clientToken")
///     .with_refusals(names)
///     .with_status(ProblemType::KeyReused, StatusCode::CONFLICT);
/// # let _ = policy;
/// ```
pub fn aws_errors(
    mismatch: &'static str,
    in_flight: &'static str,
) -> impl Fn(&Refusal<'_>) -> Response<Bytes> + Send + Sync + 'static {
    move |refusal| {
        let name = match refusal.kind() {
            ProblemType::KeyReused => mismatch,
            ProblemType::RequestInFlight => in_flight,
            kind => words::AWS.of(kind)[0],
        };
        words::aws(refusal, name)
    }
}
