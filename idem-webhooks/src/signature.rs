//! [`Signature`]: where a delivery carries its signatures, and what they cover.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use idem_core::{Bytes, Error, Result};

use crate::Rejection;
use crate::content::Content;
use crate::secret::{KeyText, Secret};
use crate::twilio::PublicUrl;

/// How a signature is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Encoding {
    /// Hexadecimal; digits of either case are accepted.
    Hex,
    /// Base64 with the standard alphabet and padding.
    Base64,
}

impl Encoding {
    fn encode(self, bytes: &[u8]) -> String {
        match self {
            Self::Hex => base16ct::lower::encode_string(bytes),
            Self::Base64 => STANDARD.encode(bytes),
        }
    }

    fn decode(self, text: &str) -> Option<Vec<u8>> {
        match self {
            Self::Hex => base16ct::mixed::decode_vec(text).ok(),
            Self::Base64 => STANDARD.decode(text).ok(),
        }
    }
}

/// A part of the signed content.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Part {
    /// The body, byte for byte as it was sent.
    Body,
    /// The time of signing, as it was sent.
    Time,
    /// The value of this header, such as the event's id.
    Header(HeaderName),
    /// A fixed text, such as `.` or `v0:`.
    Text(Cow<'static, str>),
}

/// Where a delivery carries its signatures, how they are written, and what they cover.
///
/// The signature of a custom provider, `X-Signature: sha256=<hex>` over `<time>.<body>` with the
/// time in a header of its own:
///
/// ```
/// use idem_webhooks::{Encoding, Part, Signature, http::HeaderName};
///
/// let signature = Signature::hmac_sha256(HeaderName::from_static("x-signature"))
///     .with_prefix("sha256=")
///     .with_encoding(Encoding::Hex)
///     .with_time_header(HeaderName::from_static("x-timestamp"))
///     .with_signed([Part::Time, Part::Text(".".into()), Part::Body]);
/// ```
#[derive(Debug, Clone)]
pub struct Signature {
    header: HeaderName,
    prefix: Cow<'static, str>,
    separator: Option<char>,
    encoding: Encoding,
    time: Time,
    signed: Signed,
    key: KeyText,
}

/// Where a delivery states the time of signing, in seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Time {
    None,
    Header(HeaderName),
    /// An element of the signature's header, after this prefix.
    Element(Cow<'static, str>),
}

#[derive(Debug, Clone)]
enum Signed {
    Parts(Vec<Part>),
    Twilio(PublicUrl),
}

/// The prefix of the signatures of Standard Webhooks that an Ed25519 key makes.
const ASYMMETRIC: &str = "v1a,";

/// How many signatures of one delivery are tried. No provider rotates more secrets at once, and
/// each costs an attempt per secret.
const MAX_SIGNATURES: usize = 16;

impl Signature {
    /// Describes an HMAC-SHA-256 over the body, in hexadecimal and without a prefix, in this
    /// header. The bytes of the secret's text are its key.
    #[must_use]
    pub fn hmac_sha256(header: HeaderName) -> Self {
        Self {
            header,
            prefix: Cow::Borrowed(""),
            separator: None,
            encoding: Encoding::Hex,
            time: Time::None,
            signed: Signed::Parts(vec![Part::Body]),
            key: KeyText::HmacSha256,
        }
    }

    /// Describes the signatures of [Standard Webhooks](https://www.standardwebhooks.com): a list of
    /// `v1,` (HMAC-SHA-256) and `v1a,` (Ed25519) in `webhook-signature`, over
    /// `webhook-id.webhook-timestamp.body`.
    ///
    /// The secret is `whsec_` and the base64 of 24 to 64 bytes, or the public key `whpk_…`; one
    /// signature that fits one of the secrets is enough. An id with a `.` is refused, because the
    /// signed content could be read in two ways.
    #[must_use]
    pub fn standard_webhooks() -> Self {
        let dot = || Part::Text(Cow::Borrowed("."));
        let id = HeaderName::from_static("webhook-id");
        let signed = [Part::Header(id), dot(), Part::Time, dot(), Part::Body];
        let mut signature = Self::hmac_sha256(HeaderName::from_static("webhook-signature"))
            .with_prefix("v1,")
            .with_separator(' ')
            .with_encoding(Encoding::Base64)
            .with_time_header(HeaderName::from_static("webhook-timestamp"))
            .with_signed(signed);
        signature.key = KeyText::StandardWebhooks;
        signature
    }

    pub(crate) fn twilio(url: PublicUrl) -> Self {
        let header = HeaderName::from_static("x-twilio-signature");
        let mut signature = Self::hmac_sha256(header).with_encoding(Encoding::Base64);
        signature.signed = Signed::Twilio(url);
        signature.key = KeyText::HmacSha1;
        signature
    }

    /// Sets the text before each signature, such as `sha256=`. A signature without it does not
    /// count. Default: none.
    #[must_use]
    pub fn with_prefix(mut self, prefix: impl Into<Cow<'static, str>>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Allows several signatures in the header, between separators. Senders use that while a secret
    /// is replaced. Default: one signature.
    #[must_use]
    pub fn with_separator(mut self, separator: char) -> Self {
        self.separator = Some(separator);
        self
    }

    /// Sets how signatures are written. Default: hexadecimal.
    #[must_use]
    pub fn with_encoding(mut self, encoding: Encoding) -> Self {
        self.encoding = encoding;
        self
    }

    /// Reads the time of signing from this header: seconds since 1970, in digits. It must be a
    /// signed part. Default: no time.
    #[must_use]
    pub fn with_time_header(mut self, header: HeaderName) -> Self {
        self.time = Time::Header(header);
        self
    }

    /// Reads the time of signing from an element of the signature's header, after this prefix, as
    /// Stripe's `t=`.
    #[must_use]
    pub fn with_time_element(mut self, prefix: impl Into<Cow<'static, str>>) -> Self {
        self.time = Time::Element(prefix.into());
        self
    }

    /// Sets the signed content. Default: the body.
    #[must_use]
    pub fn with_signed(mut self, parts: impl IntoIterator<Item = Part>) -> Self {
        self.signed = Signed::Parts(parts.into_iter().collect());
        self
    }

    /// Checks that a signature can prove what it states.
    pub(crate) fn check(&self) -> Result<()> {
        let Signed::Parts(parts) = &self.signed else {
            return Ok(());
        };
        let has_time = self.time != Time::None;
        if !parts.contains(&Part::Body) {
            Err(Error::invalid_input(
                "the signature does not cover the body",
            ))
        } else if parts.contains(&Part::Time) != has_time {
            let message = "the time is signed without being sent, or sent without being signed";
            Err(Error::invalid_input(message))
        } else {
            Ok(())
        }
    }

    pub(crate) fn secret(&self, text: &[u8]) -> Result<Secret> {
        Secret::new(text, self.key)
    }

    /// Reads the signatures and the time that a delivery carries.
    pub(crate) fn presented<'a>(&self, headers: &'a HeaderMap) -> Result<Presented<'a>, Rejection> {
        let value = of_signature(headers, &self.header)?;
        let elements: Vec<&str> = match self.separator {
            Some(separator) => value.split(separator).map(str::trim).collect(),
            None => vec![value],
        };
        let time = match &self.time {
            Time::None => None,
            Time::Header(name) => Some(of_signature(headers, name)?),
            Time::Element(prefix) => {
                let mut times = elements.iter();
                let mut next = || times.find_map(|element| element.strip_prefix(prefix.as_ref()));
                match (next(), next()) {
                    (Some(time), None) => Some(time),
                    _ => return Err(Rejection::MalformedSignature),
                }
            }
        };
        let time = time.map(|text| Ok((text, seconds(text)?))).transpose()?;
        Ok(Presented { elements, time })
    }

    /// Decodes the signatures that this secret could have made.
    pub(crate) fn decode(&self, presented: &Presented<'_>, secret: &Secret) -> Vec<Vec<u8>> {
        let prefix = match secret {
            Secret::Ed25519(_) => ASYMMETRIC,
            Secret::HmacSha256(_) | Secret::HmacSha1(_) => &self.prefix,
        };
        let signatures = presented.elements.iter();
        signatures
            .filter_map(|element| self.encoding.decode(element.strip_prefix(prefix)?))
            .filter(|signature| signature.len() == secret.signature_bytes())
            .take(MAX_SIGNATURES)
            .collect()
    }

    /// Returns the signed content; several if the provider's writings of it differ, of which one
    /// has to fit.
    pub(crate) fn contents<'a>(
        &'a self,
        request: &'a Request<Bytes>,
        time: Option<&'a str>,
    ) -> Result<Vec<Content<'a>>, Rejection> {
        let parts = match &self.signed {
            Signed::Parts(parts) => parts,
            Signed::Twilio(url) => return url.contents(request),
        };
        let mut content = Content::default();
        for (index, part) in parts.iter().enumerate() {
            match part {
                Part::Body => content.push(request.body().as_ref()),
                Part::Time => content.push(time.unwrap_or_default().as_bytes()),
                Part::Text(text) => content.push(text.as_bytes()),
                Part::Header(name) => {
                    let value = of_signature(request.headers(), name)?;
                    // With the separator inside of the value, another division of the content into
                    // its parts would have the same signature.
                    if let Some(Part::Text(text)) = parts.get(index + 1)
                        && value.contains(text.as_ref())
                    {
                        return Err(Rejection::MalformedSignature);
                    }
                    content.push(value.as_bytes());
                }
            }
        }
        Ok(vec![content])
    }

    /// Adds the headers that a delivery with this signature has.
    pub(crate) fn write(&self, headers: &mut HeaderMap, signature: &[u8], time: u64) -> Result<()> {
        let mut text = format!("{}{}", self.prefix, self.encoding.encode(signature));
        match &self.time {
            Time::None => {}
            Time::Header(name) => {
                headers.insert(name, HeaderValue::from(time));
            }
            Time::Element(prefix) => {
                let separator = self.separator.map_or_else(String::new, String::from);
                text = format!("{prefix}{time}{separator}{text}");
            }
        }
        let value = HeaderValue::try_from(text)
            .map_err(|_| Error::invalid_input("the prefix of the signature fits no header"))?;
        headers.insert(&self.header, value);
        Ok(())
    }
}

/// The signatures of a delivery, of which one has to be valid, and the time of signing that it
/// states.
pub(crate) struct Presented<'a> {
    elements: Vec<&'a str>,
    pub(crate) time: Option<(&'a str, u64)>,
}

/// Returns the only value of that name, or `None` if there is none.
pub(crate) fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, ()> {
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

/// Parses seconds since 1970, in digits only and without leading zeros, so that one time has one
/// text.
fn seconds(text: &str) -> Result<u64, Rejection> {
    let number: u64 = text.parse().map_err(|_| Rejection::MalformedSignature)?;
    if number.to_string() == text {
        Ok(number)
    } else {
        Err(Rejection::MalformedSignature)
    }
}
