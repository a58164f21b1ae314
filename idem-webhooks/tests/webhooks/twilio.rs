//! Twilio's signatures and answers.

use crate::support::request::signed;
use idem_core::{Bytes, MemoryStore, Work};
use idem_webhooks::http::Request;
use idem_webhooks::{Event, Provider, Received, Receiver, Rejection, Verifier};

/// The examples of `tests/unit/test_request_validator.py` of
/// <https://github.com/twilio/twilio-python>, MIT, Copyright (C) 2023 Twilio, Inc.
const URL: &str = "https://mycompany.com/myapp.php";
const QUERY: &str = "foo=1&bar=2";
const FORM: &str = "CallSid=CA1234567890ABCDE&Digits=1234&From=%2B14158675309&To=%2B18005551212&Caller=%2B14158675309";
const BODY: &str = r#"{"property": "value", "boolean": true}"#;
const DIGEST: &str = "0a1ff7634d9ab3b95db5c9a2dfe9416e41502b283a80c7cf19632632f96e6620";

fn verifier(url: &str) -> Verifier {
    Verifier::new(Provider::twilio(url).unwrap(), "12345").unwrap()
}

/// A request as the server behind a proxy sees it: with another host, path and scheme.
fn request(query: &str, kind: &str, body: &str, signature: &str) -> Request<Bytes> {
    Request::post(format!("/inside?{query}"))
        .header("content-type", kind)
        .header("x-twilio-signature", signature)
        .body(Bytes::copy_from_slice(body.as_bytes()))
        .unwrap()
}

fn form(query: &str, body: &str, signature: &str) -> Request<Bytes> {
    let kind = "application/x-www-form-urlencoded; charset=UTF-8";
    request(query, kind, body, signature)
}

#[test]
fn twilios_own_examples_are_right() {
    let http = URL.replace("https", "http");
    let with_port = |url: &str| url.replace(".com", ".com:1234");
    for (url, signature) in [
        (URL.to_owned(), "RSOYDt4T1cUTdK1PDd93/VVr8B8="),
        (with_port(URL), "RSOYDt4T1cUTdK1PDd93/VVr8B8="),
        (with_port(&http), "Zmvh+3yNM1Phv2jhDCwEM3q5ebU="),
        (URL.to_owned(), "kvajT1Ptam85bY51eRf/AJRuM3w="),
        (http, "0ZXoZLH/DfblKGATFgpif+LLRf4="),
    ] {
        let answer = verifier(&url).verify(&form(QUERY, FORM, signature));
        assert_eq!(answer, Ok(()), "{url}");
    }
    let query = format!("{QUERY}&bodySHA256={DIGEST}");
    let json = request(
        &query,
        "application/json",
        BODY,
        "a9nBmqA0ju/hNViExpshrM61xv4=",
    );
    assert_eq!(verifier(URL).verify(&json), Ok(()));
}

/// Made with `RequestValidator` of twilio-python 9.13.0.
#[test]
fn a_shared_key_signs_by_sha_256() {
    let verifier = Verifier::new(Provider::twilio_shared_key(URL).unwrap(), "12345").unwrap();
    let signature = "033hgUJA9M/hXIZsYjwkerEP/DBm35nEri5FhCYjA5s=";
    assert_eq!(verifier.verify(&form(QUERY, FORM, signature)), Ok(()));
    let by_token = verifier.verify(&form(QUERY, FORM, "RSOYDt4T1cUTdK1PDd93/VVr8B8="));
    assert_eq!(by_token, Err(Rejection::MalformedSignature));
}

/// Made, and accepted, by twilio-node 6.2.0. The first query is that of the signature.
#[test]
fn a_query_may_be_signed_in_another_writing() {
    for (_, sent, signature) in [
        (
            "name=O%27Reilly",
            "name=O'Reilly",
            "SDcUHUKOT5vcbQD6t411sR7M1Mk=",
        ),
        (
            "name=O'Reilly&x=a%20b&y=",
            "name=O%27Reilly&x=a+b&y",
            "KgYMDlh9OoN+FMjQoLHUcUBXSQk=",
        ),
        (
            "name=O'Reilly",
            "name=O'Reilly",
            "A2b1tNg14XaORvG02rWqbq+TndA=",
        ),
    ] {
        let answer = verifier(URL).verify(&form(sent, "", signature));
        assert_eq!(answer, Ok(()), "{sent}");
        let other = verifier(URL).verify(&form(&sent.replace('O', "P"), "", signature));
        assert_eq!(other, Err(Rejection::WrongSignature), "{sent}");
    }
}

#[test]
fn names_and_values_are_sorted_and_counted_once() {
    let body = "Sid=CA123&SidAccount=AC123&Digits=5678&Digits=1234&Digits=1234";
    let answer = verifier(URL).verify(&form(QUERY, body, "IK+Dwps556ElfBT0I3Rgjkr1wJU="));
    assert_eq!(answer, Ok(()));
}

#[test]
fn what_was_changed_is_refused() {
    let right = "RSOYDt4T1cUTdK1PDd93/VVr8B8=";
    let wrong = Err(Rejection::WrongSignature);
    let other = FORM.replace("1234&", "1235&");
    for changed in [
        form(QUERY, &other, right),
        form("foo=1&bar=3", FORM, right),
        form(QUERY, "", right),
        form(QUERY, FORM, "kvajT1Ptam85bY51eRf/AJRuM30="),
    ] {
        assert_eq!(verifier(URL).verify(&changed), wrong);
    }
    let elsewhere = verifier("https://mycompany.com/other.php");
    assert_eq!(elsewhere.verify(&form(QUERY, FORM, right)), wrong);
    let other = Verifier::new(Provider::twilio(URL).unwrap(), "54321").unwrap();
    assert_eq!(other.verify(&form(QUERY, FORM, right)), wrong);
}

#[test]
fn a_body_that_no_digest_covers_is_refused() {
    let right = "a9nBmqA0ju/hNViExpshrM61xv4=";
    let covered = format!("{QUERY}&bodySHA256={DIGEST}");
    for (query, body, expected) in [
        (covered.clone(), "{}", Rejection::WrongSignature),
        (QUERY.to_owned(), BODY, Rejection::Unsigned),
        (
            format!("{covered}&bodySHA256={DIGEST}"),
            BODY,
            Rejection::MalformedSignature,
        ),
        (
            covered.replace("0a1", "x"),
            BODY,
            Rejection::MalformedSignature,
        ),
    ] {
        let json = request(&query, "application/json", body, right);
        assert_eq!(verifier(URL).verify(&json), Err(expected), "{query}");
    }
}

#[test]
fn a_covered_body_cannot_be_left_out_or_sent_as_a_form() {
    let right = "a9nBmqA0ju/hNViExpshrM61xv4=";
    let query = format!("{QUERY}&bodySHA256={DIGEST}");
    for body in ["", "=", "&&"] {
        for replayed in [
            form(&query, body, right),
            request(&query, "application/json", body, right),
        ] {
            let answer = verifier(URL).verify(&replayed);
            assert_eq!(answer, Err(Rejection::WrongSignature), "{replayed:?}");
        }
    }
    // Nothing in the signed text shows where the query ends and the form begins.
    let signed = format!("?{query}");
    for moved in [0, 1, 7, signed.len() - DIGEST.len() - 1, signed.len() - 10] {
        let (left, field) = signed.split_at(moved);
        let field: String = form_urlencoded::byte_serialize(field.as_bytes()).collect();
        let mut replayed = form("", &field, right);
        *replayed.uri_mut() = format!("/inside{left}").parse().unwrap();
        let answer = verifier(URL).verify(&replayed);
        assert!(answer.is_err(), "{replayed:?}");
    }
}

#[test]
fn the_url_is_given_without_query_and_fragment() {
    for url in [
        "",
        "/hook",
        "https://a.example/?a=b",
        "https://a.example/#rc=2",
    ] {
        assert!(Provider::twilio(url).is_err(), "{url}");
    }
}

#[tokio::test]
async fn a_repetition_has_the_same_token_and_an_empty_answer() {
    let receiver = Receiver::new(MemoryStore::new(), verifier(URL), "acme").unwrap();
    let handler = async |_: Event, _: Work| Ok::<_, String>(());
    let kind = ("content-type", "application/x-www-form-urlencoded");
    let deliver = |token| {
        let token = ("i-twilio-idempotency-token", token);
        signed(&verifier(URL), &[kind, token], FORM.as_bytes())
    };
    for attempt in 0..2 {
        let answer = receiver.receive(&deliver("one"), handler).await;
        let is_first = matches!(answer.received, Received::Handled);
        assert_eq!(is_first, attempt == 0, "{:?}", answer.received);
        let response = answer.response();
        assert_eq!(response.status(), 204);
        assert!(
            response.body().is_empty(),
            "Twilio would send it as a message"
        );
        assert!(response.headers().is_empty());
    }
    let other = receiver.receive(&deliver("two"), handler).await;
    assert!(matches!(other.received, Received::Handled), "{other:?}");
    let without = signed(&verifier(URL), &[kind], FORM.as_bytes());
    let refused = receiver.receive(&without, handler).await;
    assert_eq!(refused.status(), 400);
}
