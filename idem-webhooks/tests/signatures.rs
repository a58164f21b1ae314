//! Signatures as the providers publish them, and invalid ones.

#[path = "support/clock.rs"]
mod support;

use std::time::Duration;

use idem_webhooks::http::{HeaderMap, HeaderName, HeaderValue};
use idem_webhooks::{Provider, Rejection, Verifier};
use proptest::prelude::*;
use support::FixedClock;

const ALL: [Provider; 4] = [
    Provider::Stripe,
    Provider::GitHub,
    Provider::Shopify,
    Provider::Slack,
];

const NOW: u64 = 1_700_000_000;

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let value = HeaderValue::from_str(value).unwrap();
        headers.append(HeaderName::from_static(name), value);
    }
    headers
}

fn verifier(provider: Provider, secret: &str) -> Verifier {
    let verifier = Verifier::new(provider, secret).unwrap();
    verifier.with_clock(FixedClock::at(NOW))
}

/// <https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries#testing-the-webhook-payload-validation>
#[test]
fn githubs_own_example_is_right() {
    let digest = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    let signed = headers(&[("x-hub-signature-256", &format!("sha256={digest}"))]);
    let verifier = verifier(Provider::GitHub, "It's a Secret to Everybody");
    assert_eq!(verifier.verify(&signed, b"Hello, World!"), Ok(()));
    assert_eq!(verifier.sign(b"Hello, World!"), signed);
}

/// <https://docs.slack.dev/authentication/verifying-requests-from-slack>
#[test]
fn slacks_own_example_is_right() {
    let body = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V\
        &channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=\
        &response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN\
        &trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
    let digest = "a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";
    let signed = headers(&[
        ("x-slack-signature", &format!("v0={digest}")),
        ("x-slack-request-timestamp", "1531420618"),
    ]);
    let verifier = Verifier::new(Provider::Slack, "8f742231b10e8888abcd99yyyzzz85a5").unwrap();
    let then = verifier.clone().with_clock(FixedClock::at(1_531_420_618));
    assert_eq!(then.verify(&signed, body.as_bytes()), Ok(()));
    assert_eq!(
        verifier.verify(&signed, body.as_bytes()),
        Err(Rejection::TooOld)
    );
}

/// Made with Python's `hmac`: these two providers publish no example.
#[test]
fn another_implementations_signatures_are_right() {
    let digest = "33ff6664879612e191c4e01184f3da32597a3c9b33ca2655fac317d01c5abc3f";
    let signed = headers(&[("stripe-signature", &format!("t={NOW},v1={digest},v0=old"))]);
    let stripe = verifier(Provider::Stripe, "whsec_test");
    assert_eq!(
        stripe.verify(&signed, br#"{"id":"evt_1","type":"ping"}"#),
        Ok(())
    );
    let digest = "qBvrsZF7RfB1iS6BX6IHqJTp5L911P7intnPeTPsH0I=";
    let signed = headers(&[("x-shopify-hmac-sha256", digest)]);
    let shopify = verifier(Provider::Shopify, "hush");
    assert_eq!(
        shopify.verify(&signed, br#"{"id":820982911946154508}"#),
        Ok(())
    );
}

#[test]
fn anybody_elses_signature_is_wrong() {
    for provider in ALL {
        let forged = verifier(provider, "guess").sign(b"{}");
        let verifier = verifier(provider, "secret");
        let answer = verifier.verify(&forged, b"{}");
        assert_eq!(answer, Err(Rejection::WrongSignature), "{provider}");
        let genuine = verifier.sign(b"{}");
        assert_eq!(verifier.verify(&genuine, b"{}"), Ok(()), "{provider}");
        let tampered = verifier.verify(&genuine, b"{ }");
        assert_eq!(tampered, Err(Rejection::WrongSignature), "{provider}");
    }
}

#[test]
fn while_a_secret_is_replaced_both_are_right() {
    for provider in ALL {
        let (old, new) = (verifier(provider, "old"), verifier(provider, "new"));
        let both = new.clone().with_secret("old").unwrap();
        for signed in [old.sign(b"{}"), new.sign(b"{}")] {
            assert_eq!(both.verify(&signed, b"{}"), Ok(()), "{provider}");
        }
        let signed = old.sign(b"{}");
        let refused = new.verify(&signed, b"{}");
        assert_eq!(refused, Err(Rejection::WrongSignature), "{provider}");
    }
}

#[test]
fn one_right_signature_of_several_is_enough_for_stripe() {
    let verifier = verifier(Provider::Stripe, "secret");
    let genuine = verifier.sign(b"{}");
    let genuine = genuine["stripe-signature"].to_str().unwrap();
    let wrong = "0".repeat(64);
    for value in [
        format!("{genuine},v1={wrong}"),
        genuine.replace(",v1=", &format!(", v1={wrong}, v1=")),
    ] {
        let signed = headers(&[("stripe-signature", &value)]);
        assert_eq!(verifier.verify(&signed, b"{}"), Ok(()), "{value}");
    }
}

#[test]
fn a_time_may_be_off_by_the_tolerance_on_either_side() {
    for provider in [Provider::Stripe, Provider::Slack] {
        let signed = verifier(provider, "secret").sign(b"{}");
        for (now, expected) in [
            (NOW + 300, Ok(())),
            (NOW + 301, Err(Rejection::TooOld)),
            (NOW - 300, Ok(())),
            (NOW - 301, Err(Rejection::TooNew)),
        ] {
            let verifier = verifier(provider, "secret").with_clock(FixedClock::at(now));
            assert_eq!(verifier.verify(&signed, b"{}"), expected, "{provider}");
        }
        let strict = verifier(provider, "secret").with_tolerance(Duration::from_secs(2));
        let late = strict.with_clock(FixedClock::at(NOW + 3));
        assert_eq!(late.verify(&signed, b"{}"), Err(Rejection::TooOld));
    }
}

#[test]
fn a_time_that_was_changed_breaks_the_signature() {
    let stripe = verifier(Provider::Stripe, "secret").with_clock(FixedClock::at(NOW - 900));
    let caught = stripe.sign(b"{}");
    let text = caught["stripe-signature"].to_str().unwrap();
    let renewed = text.replace(&(NOW - 900).to_string(), &NOW.to_string());
    let verifier_now = verifier(Provider::Stripe, "secret");
    let answer = verifier_now.verify(&headers(&[("stripe-signature", &renewed)]), b"{}");
    assert_eq!(answer, Err(Rejection::WrongSignature));

    let slack = verifier(Provider::Slack, "secret").with_clock(FixedClock::at(NOW - 900));
    let mut caught = slack.sign(b"{}");
    caught.insert("x-slack-request-timestamp", NOW.into());
    let answer = verifier(Provider::Slack, "secret").verify(&caught, b"{}");
    assert_eq!(answer, Err(Rejection::WrongSignature));
}

#[test]
fn a_missing_header_is_an_error() {
    for provider in ALL {
        let verifier = verifier(provider, "secret");
        for name in verifier.sign(b"{}").keys() {
            let mut signed = verifier.sign(b"{}");
            signed.remove(name);
            let answer = verifier.verify(&signed, b"{}");
            assert_eq!(answer, Err(Rejection::Unsigned), "{provider}: {name}");
        }
    }
}

#[test]
fn a_repeated_header_is_refused() {
    for provider in ALL {
        let verifier = verifier(provider, "secret");
        for (name, value) in &verifier.sign(b"{}") {
            let mut signed = verifier.sign(b"{}");
            signed.append(name, value.clone());
            let answer = verifier.verify(&signed, b"{}");
            let expected = Err(Rejection::MalformedSignature);
            assert_eq!(answer, expected, "{provider}: {name}");
        }
    }
}

#[test]
fn a_malformed_signature_is_refused() {
    let digest = "0".repeat(64);
    let short = &digest[1..];
    let now = NOW.to_string();
    let stripe = |value: &str| headers(&[("stripe-signature", value)]);
    let github = |value: &str| headers(&[("x-hub-signature-256", value)]);
    let shopify = |value: &str| headers(&[("x-shopify-hmac-sha256", value)]);
    let slack = |value: &str, time: &str| {
        headers(&[
            ("x-slack-signature", value),
            ("x-slack-request-timestamp", time),
        ])
    };
    for (provider, signed) in [
        (Provider::Stripe, stripe("")),
        (Provider::Stripe, stripe(&format!("t={now}"))),
        (Provider::Stripe, stripe(&format!("v1={digest}"))),
        (Provider::Stripe, stripe(&format!("t={now},v1={short}"))),
        (
            Provider::Stripe,
            stripe(&format!("t={now},t={now},v1={digest}")),
        ),
        (Provider::Stripe, stripe(&format!("t=-1,v1={digest}"))),
        (Provider::Stripe, stripe(&format!("t=+{now},v1={digest}"))),
        (
            Provider::Stripe,
            stripe(&format!("t=99999999999999999999,v1={digest}")),
        ),
        (Provider::Stripe, stripe(&format!("t={now};v1={digest}"))),
        (Provider::GitHub, github(&digest)),
        (Provider::GitHub, github(&format!("sha1={digest}"))),
        (Provider::GitHub, github(&format!("sha256={short}"))),
        (Provider::GitHub, github(&format!("sha256={short}g"))),
        (Provider::Shopify, shopify("")),
        (Provider::Shopify, shopify("AAAA")),
        (Provider::Shopify, shopify(&digest)),
        (Provider::Slack, slack(&digest, &now)),
        (Provider::Slack, slack(&format!("v1={digest}"), &now)),
        (Provider::Slack, slack(&format!("v0={digest}"), "soon")),
        (
            Provider::Slack,
            slack(&format!("v0={digest}"), &format!("0{now}")),
        ),
    ] {
        let answer = verifier(provider, "secret").verify(&signed, b"{}");
        let expected = Err(Rejection::MalformedSignature);
        assert_eq!(answer, expected, "{provider}: {signed:?}");
    }
}

#[test]
fn a_header_that_is_no_text_is_refused() {
    let mut signed = HeaderMap::new();
    let value = HeaderValue::from_bytes(b"sha256=\xff").unwrap();
    signed.insert("x-hub-signature-256", value);
    let answer = verifier(Provider::GitHub, "secret").verify(&signed, b"{}");
    assert_eq!(answer, Err(Rejection::MalformedSignature));
}

#[test]
fn an_empty_secret_is_refused_and_none_is_shown() {
    let refused = Verifier::new(Provider::GitHub, "").unwrap_err().to_string();
    assert!(refused.contains("empty"), "{refused}");
    assert!(verifier(Provider::GitHub, "a").with_secret("").is_err());
    let shown = format!("{:?}", verifier(Provider::GitHub, "hunter2"));
    assert!(
        shown.contains("Secret(..)") && !shown.contains("hunter2"),
        "{shown}"
    );
}

fn flipped(bytes: &[u8], bit: prop::sample::Index) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let bit = bit.index(bytes.len() * 8);
    bytes[bit / 8] ^= 1 << (bit % 8);
    bytes
}

proptest! {
    #[test]
    fn a_flipped_bit_of_the_body_fails(
        provider in prop::sample::select(&ALL[..]),
        body in prop::collection::vec(any::<u8>(), 1..300),
        bit: prop::sample::Index,
    ) {
        let verifier = verifier(provider, "secret");
        let signed = verifier.sign(&body);
        prop_assert_eq!(verifier.verify(&signed, &body), Ok(()));
        let answer = verifier.verify(&signed, &flipped(&body, bit));
        prop_assert_eq!(answer, Err(Rejection::WrongSignature));
    }

    /// Except the case of a hexadecimal digit, which is the same digit.
    #[test]
    fn a_flipped_bit_of_a_header_fails(
        provider in prop::sample::select(&ALL[..]),
        header: prop::sample::Index,
        bit: prop::sample::Index,
    ) {
        let verifier = verifier(provider, "secret");
        let mut signed = verifier.sign(b"{}");
        let name = signed.keys().nth(header.index(signed.keys_len())).unwrap().clone();
        let before = signed[&name].clone();
        let after = flipped(before.as_bytes(), bit);
        prop_assume!(!after.eq_ignore_ascii_case(before.as_bytes()));
        let value = HeaderValue::from_bytes(&after);
        prop_assume!(value.is_ok());
        signed.insert(name, value.unwrap());
        let answer = verifier.verify(&signed, b"{}");
        prop_assert!(answer.is_err());
    }

    #[test]
    fn no_bytes_make_it_panic(
        provider in prop::sample::select(&ALL[..]),
        value in prop::collection::vec(32_u8..127, 0..200),
    ) {
        let verifier = verifier(provider, "secret");
        let mut signed = verifier.sign(b"{}");
        let names: Vec<_> = signed.keys().cloned().collect();
        for name in names {
            signed.insert(name, HeaderValue::from_bytes(&value).unwrap());
        }
        let answer = verifier.verify(&signed, b"{}");
        prop_assert!(answer.is_err());
    }
}
