//! How each provider signs, and where its deliveries carry the event's id.

mod github;
mod identity;
mod presented;
mod shopify;
mod slack;
mod stripe;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::{Provider, Rejection};

pub(crate) use identity::Identity;
pub(crate) use presented::Presented;
pub(crate) use slack::challenge;

/// Returns the signatures that the delivery carries.
pub(crate) fn presented(provider: Provider, headers: &HeaderMap) -> Result<Presented, Rejection> {
    match provider {
        Provider::Stripe => stripe::presented(headers),
        Provider::GitHub => github::presented(headers),
        Provider::Shopify => shopify::presented(headers),
        Provider::Slack => slack::presented(headers),
    }
}

/// Returns the signed text before the body.
pub(crate) fn prefix(provider: Provider, time: u64) -> String {
    match provider {
        Provider::Stripe => stripe::prefix(time),
        Provider::Slack => slack::prefix(time),
        Provider::GitHub | Provider::Shopify => String::new(),
    }
}

/// Returns the headers of a delivery with this signature.
pub(crate) fn headers(
    provider: Provider,
    signature: &[u8; 32],
    time: u64,
) -> Vec<(HeaderName, String)> {
    match provider {
        Provider::Stripe => stripe::headers(signature, time),
        Provider::GitHub => github::headers(signature),
        Provider::Shopify => shopify::headers(signature),
        Provider::Slack => slack::headers(signature, time),
    }
}

/// Identifies the event of a delivery whose signature was valid.
pub(crate) fn identity(
    provider: Provider,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Identity, Rejection> {
    let identity = match provider {
        Provider::Stripe => stripe::identity(body),
        Provider::GitHub => github::identity(headers, body),
        Provider::Shopify => shopify::identity(headers, body),
        Provider::Slack => slack::identity(body),
    }?;
    // A blank id is one that the sender forgot to fill in: all such events would be one.
    match identity.id.trim() {
        "" => Err(Rejection::NoId),
        _ => Ok(identity),
    }
}

/// Returns the only value of that name, or `None` if there is none.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next().map(HeaderValue::to_str), values.next()) {
        (None, _) => Ok(None),
        (Some(Ok(value)), None) => Ok(Some(value)),
        _ => Err(()),
    }
}

/// Returns a header of the signature.
fn of_signature<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<&'a str, Rejection> {
    only(headers, name)
        .map_err(|()| Rejection::MalformedSignature)?
        .ok_or(Rejection::Unsigned)
}

/// Returns a header that names the event.
fn of_event<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<&'a str, Rejection> {
    match only(headers, name) {
        Ok(Some(value)) if !value.trim().is_empty() => Ok(value),
        _ => Err(Rejection::NoId),
    }
}

/// Parses seconds since 1970, in digits only and without leading zeros: the signed text is made
/// from the number again.
fn seconds(text: &str) -> Result<u64, Rejection> {
    let number: u64 = text.parse().map_err(|_| Rejection::MalformedSignature)?;
    if number.to_string() == text {
        Ok(number)
    } else {
        Err(Rejection::MalformedSignature)
    }
}
