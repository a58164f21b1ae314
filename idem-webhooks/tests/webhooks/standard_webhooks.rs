//! Standard Webhooks.

use crate::support::clock::FixedClock;
use crate::support::request::{request, signed};
use idem_core::{MemoryStore, Work};
use idem_webhooks::{Event, Provider, Received, Receiver, Rejection, Verifier};

fn verifier(secret: &str, now: u64) -> Verifier {
    let verifier = Verifier::new(Provider::standard_webhooks(), secret).unwrap();
    verifier.with_clock(FixedClock::at(now))
}

/// The examples of the reference libraries, each with secret, id, time, body and signature:
/// `libraries/javascript/src/webhook.test.ts` and `libraries/rust/src/lib.rs` of
/// <https://github.com/standard-webhooks/standard-webhooks>, MIT, Copyright (c) 2023 Svix.
const EXAMPLES: [(&str, &str, u64, &str, &str); 2] = [
    (
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        1_614_265_330,
        r#"{"test": 2432232314}"#,
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    ),
    (
        "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
        "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
        1_649_367_553,
        r#"{"email":"test@example.com","username":"test_user"}"#,
        "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=",
    ),
];

fn verified(verifier: &Verifier, signature: &str) -> Result<(), Rejection> {
    let (_, id, time, body, _) = EXAMPLES[0];
    let headers = [
        ("webhook-id", id),
        ("webhook-timestamp", &time.to_string()),
        ("webhook-signature", signature),
    ];
    verifier.verify(&request(&headers, body.as_bytes()))
}

#[test]
fn the_examples_of_the_reference_libraries_are_right() {
    for (secret, id, time, body, signature) in EXAMPLES {
        let bare = secret.strip_prefix("whsec_").unwrap();
        for secret in [secret, bare] {
            let verifier = verifier(secret, time);
            let own = signed(&verifier, &[("webhook-id", id)], body.as_bytes());
            assert_eq!(own.headers()["webhook-signature"], signature);
            assert_eq!(own.headers()["webhook-timestamp"], time.to_string());
            assert_eq!(verifier.verify(&own), Ok(()));
        }
    }
}

#[test]
fn svix_has_headers_of_its_own() {
    let (secret, id, time, body, signature) = EXAMPLES[0];
    let verifier = Verifier::new(Provider::svix(), secret).unwrap();
    let verifier = verifier.with_clock(FixedClock::at(time));
    let headers = [
        ("svix-id", id),
        ("svix-timestamp", &time.to_string()),
        ("svix-signature", signature),
    ];
    assert_eq!(verifier.verify(&request(&headers, body.as_bytes())), Ok(()));
}

/// Supabase shows `v1,whsec_…`, and some services leave the padding out.
#[test]
fn a_secret_has_several_forms() {
    let now = EXAMPLES[0].2;
    let padded = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNA==";
    let own = signed(&verifier(padded, now), &[("webhook-id", "1")], b"{}");
    let bare = padded.trim_end_matches('=');
    for secret in [
        format!("whsec_{bare}"),
        format!("v1,whsec_{padded}"),
        format!("v1,whsec_{bare}"),
        bare.to_owned(),
    ] {
        assert_eq!(verifier(&secret, now).verify(&own), Ok(()), "{secret}");
    }
}

/// With the first secret key of RFC 8032, 7.1; signed by Python's `cryptography`, since the
/// reference libraries have no example for `v1a`.
#[test]
fn a_signature_by_a_key_pair_is_right() {
    let time = EXAMPLES[0].2;
    let public = "whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
    let signature = "v1a,fldxM4gAKugP6nnt1hdz3sgGfZ6d99nzrMFnZOELIxbzEHoVmAb2ADpkJK7zgPePmPsle0zV9jSeGlHFG2NVAw==";
    let asymmetric = verifier(public, time);
    assert_eq!(verified(&asymmetric, signature), Ok(()));
    let both = format!("v1,c2hvcnQ= {} {signature}", EXAMPLES[0].4);
    assert_eq!(verified(&asymmetric, &both), Ok(()));
    assert_eq!(verified(&verifier(EXAMPLES[0].0, time), &both), Ok(()));
    for (wrong, expected) in [
        (
            signature.replace("v1a,fl", "v1a,fm"),
            Rejection::WrongSignature,
        ),
        (
            signature.replace("v1a,", "v1,"),
            Rejection::MalformedSignature,
        ),
        (
            EXAMPLES[0].4.replace("v1,", "v1a,"),
            Rejection::MalformedSignature,
        ),
        (EXAMPLES[0].4.to_owned(), Rejection::MalformedSignature),
    ] {
        assert_eq!(verified(&asymmetric, &wrong), Err(expected), "{wrong}");
    }
    let changed = verifier(public, time).verify(&request(
        &[
            ("webhook-id", EXAMPLES[0].1),
            ("webhook-timestamp", &time.to_string()),
            ("webhook-signature", signature),
        ],
        b"{}",
    ));
    assert_eq!(changed, Err(Rejection::WrongSignature));
    let mut unsigned = request(&[("webhook-id", "1")], b"{}");
    assert!(
        asymmetric.sign(&mut unsigned).is_err(),
        "it has no secret key"
    );
}

/// `(0, 1)` is a point of order 1: a lax check accepts `R = (0, 1), s = 0` of it for every message.
#[test]
fn a_key_of_small_order_proves_nothing() {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let (mut point, mut signature) = ([0; 32], [0; 64]);
    (point[0], signature[0]) = (1, 1);
    let public = format!("whpk_{}", STANDARD.encode(point));
    let forged = format!("v1a,{}", STANDARD.encode(signature));
    let verifier = verifier(&public, EXAMPLES[0].2);
    assert_eq!(verified(&verifier, &forged), Err(Rejection::WrongSignature));
}

#[test]
fn one_right_signature_of_several_is_enough() {
    let (secret, _, time, _, right) = EXAMPLES[0];
    let wrong = "v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc=";
    let verifier = verifier(secret, time);
    for list in [
        format!("{wrong} v2,other {right} {wrong}"),
        format!("{right} v1,dawfeoifkpqwoekfpqoekf"),
    ] {
        assert_eq!(verified(&verifier, &list), Ok(()), "{list}");
    }
    let answer = verified(&verifier, &format!("{wrong} {wrong}"));
    assert_eq!(answer, Err(Rejection::WrongSignature));
    for partial in ["v1,", &right[..8], "", "v2,g0hM9SsE", " ", ","] {
        let answer = verified(&verifier, partial);
        assert_eq!(answer, Err(Rejection::MalformedSignature), "{partial}");
    }
    let many = [wrong; 16].join(" ");
    let answer = verified(&verifier, &format!("{many} {right}"));
    assert_eq!(
        answer,
        Err(Rejection::WrongSignature),
        "only so many are tried"
    );
}

#[test]
fn secrets_in_another_form_are_refused() {
    let short = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaQ=";
    let long = format!("whsec_{}", "AAAA".repeat(22));
    for secret in [
        "",
        "whsec_",
        "whsec_not base64",
        short,
        &long,
        "whpk_AAAA",
        "whpk_",
        "whsk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    ] {
        let refused = Verifier::new(Provider::standard_webhooks(), secret);
        assert!(refused.is_err(), "{secret}");
    }
}

/// `a.1.2.b` is the content of id `a`, time 1 and body `2.b`, but also of id `a.1`, time 2, body
/// `b`.
#[test]
fn an_id_with_a_dot_is_refused() {
    let verifier = verifier(EXAMPLES[0].0, 1_700_000_000);
    let genuine = signed(&verifier, &[("webhook-id", "a")], b"1700000001.5");
    assert_eq!(verifier.verify(&genuine), Ok(()));
    let signature = genuine.headers()["webhook-signature"].to_str().unwrap();
    let forged = [
        ("webhook-id", "a.1700000000"),
        ("webhook-timestamp", "1700000001"),
        ("webhook-signature", signature),
    ];
    let answer = verifier.verify(&request(&forged, b"5"));
    assert_eq!(answer, Err(Rejection::MalformedSignature));
}

#[tokio::test]
async fn a_retry_with_a_new_time_and_signature_is_the_same_event() {
    let store = MemoryStore::new();
    let handler = async |_: Event, _: Work| Ok::<_, String>(());
    for (attempt, time) in [1_700_000_000, 1_700_000_300, 1_700_200_000]
        .into_iter()
        .enumerate()
    {
        let verifier = verifier(EXAMPLES[0].0, time);
        let delivery = signed(&verifier, &[("webhook-id", "msg_1")], b"{}");
        let receiver = Receiver::new(store.clone(), verifier, "acme").unwrap();
        let answer = receiver.receive(&delivery, handler).await;
        match answer.received {
            Received::Handled => assert_eq!(attempt, 0),
            Received::Duplicate { .. } => assert_ne!(attempt, 0),
            other => panic!("{other:?}"),
        }
        let blank = signed(&verifier_at(time), &[("webhook-id", " ")], b"{}");
        let answer = receiver.receive(&blank, handler).await;
        assert_eq!(answer.status(), 400, "{:?}", answer.received);
    }
}

fn verifier_at(time: u64) -> Verifier {
    verifier(EXAMPLES[0].0, time)
}
