//! Signatures of webhooks: an altered delivery never verifies.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request};
use idem_fuzz::Input;
use idem_webhooks::{Clock, Provider, Verifier};

#[derive(Debug, Clone, Copy)]
struct At(u64);

impl Clock for At {
    fn unix_seconds(&self) -> u64 {
        self.0
    }
}

const NOW: u64 = 1_700_000_000;

/// The providers that sign, and the headers that carry what is signed.
fn signing() -> [(Provider, &'static str, &'static [&'static str]); 5] {
    let standard = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    [
        (Provider::stripe(), "whsec_test", &["stripe-signature"]),
        (Provider::github(), "secret", &["x-hub-signature-256"]),
        (Provider::shopify(), "secret", &["x-shopify-hmac-sha256"]),
        (
            Provider::slack(),
            "secret",
            &["x-slack-signature", "x-slack-request-timestamp"],
        ),
        (
            Provider::standard_webhooks(),
            standard,
            &["webhook-signature", "webhook-timestamp", "webhook-id"],
        ),
    ]
}

fn unpadded(value: &[u8]) -> &[u8] {
    let value = value.trim_ascii_end();
    value.strip_suffix(b"=").unwrap_or(value)
}

/// A delivery that is signed verifies; with one byte of its body or headers altered it does not.
#[test]
fn altered() {
    check!("webhooks::altered", |bytes: &[u8]| {
        let mut input = Input(bytes);
        let [.., _] = signing();
        let (provider, secret, headers) = signing()[input.below(5)].clone();
        let verifier = Verifier::new(provider, secret).unwrap().with_clock(At(NOW));
        let (at_header, place) = (input.below(4), input.number());
        let flip = input.byte();
        let mut request = Request::new(Bytes::copy_from_slice(input.rest()));
        let id = HeaderValue::from_static("msg_1");
        request.headers_mut().insert("webhook-id", id);
        verifier.sign(&mut request).unwrap();
        verifier.verify(&request).unwrap();
        let place = |length: usize| usize::try_from(place.unsigned_abs()).unwrap_or(0) % length;
        match headers.get(at_header) {
            Some(name) => {
                let name = HeaderName::from_static(name);
                let mut value = request.headers()[&name].as_bytes().to_vec();
                let before = value.clone();
                let at = place(value.len());
                value[at] ^= flip;
                let Ok(altered) = HeaderValue::from_bytes(&value) else {
                    return;
                };
                request.headers_mut().insert(name, altered);
                // Hexadecimal digits of either case are the same bytes, and so is base64 without its
                // padding, before a space.
                let is_same = unpadded(&value).eq_ignore_ascii_case(unpadded(&before));
                assert!(is_same || verifier.verify(&request).is_err());
            }
            None if !request.body().is_empty() && flip != 0 => {
                let mut body = request.body().to_vec();
                let at = place(body.len());
                body[at] ^= flip;
                *request.body_mut() = body.into();
                assert!(verifier.verify(&request).is_err());
            }
            None => {}
        }
    });
}

/// Headers that nobody signed never verify, and are not read without end.
#[test]
fn forged() {
    check!("webhooks::forged", |bytes: &[u8]| {
        let mut input = Input(bytes);
        let (provider, secret, headers) = signing()[input.below(5)].clone();
        let verifier = Verifier::new(provider, secret).unwrap().with_clock(At(NOW));
        let mut request = Request::new(Bytes::from_static(b"{}"));
        while !input.is_empty() {
            let name = HeaderName::from_static(headers[input.below(3) % headers.len()]);
            let value = input.text();
            if let Ok(value) = HeaderValue::from_str(&value) {
                request.headers_mut().append(name, value);
            }
        }
        assert!(verifier.verify(&request).is_err());
    });
}
