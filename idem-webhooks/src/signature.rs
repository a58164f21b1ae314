//! [`Signature`]: where a delivery carries its signatures, and what they cover.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, PAD};
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use idem_core::{Bytes, Error, Result};
use jiff::Timestamp;

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
    /// Base64 with the standard alphabet. Padding is written, and optional where it is read.
    Base64,
}

/// Some providers show their secrets without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    PAD.with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

impl Encoding {
    fn encode(self, bytes: &[u8]) -> String {
        match self {
            Self::Hex => base16ct::lower::encode_string(bytes),
            Self::Base64 => BASE64.encode(bytes),
        }
    }

    pub(crate) fn decode(self, text: impl AsRef<[u8]>) -> Option<Vec<u8>> {
        match self {
            Self::Hex => base16ct::mixed::decode_vec(text.as_ref()).ok(),
            Self::Base64 => BASE64.decode(text).ok(),
        }
    }
}

/// How the time of signing is written. Each form shows where it begins and ends, so that no digit can
/// move to the part beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TimeFormat {
    /// Seconds since 1970, in ten digits: from 2001 to 2286.
    Seconds,
    /// Milliseconds since 1970, in thirteen digits.
    Milliseconds,
    /// RFC 3339 in UTC, such as `2019-11-16T10:11:12.634234626Z`.
    Rfc3339,
}

impl TimeFormat {
    /// Returns the seconds since 1970.
    fn seconds(self, text: &str) -> Option<u64> {
        let digits = |count| text.len() == count && !text.starts_with('0');
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        match self {
            Self::Seconds if is_number && digits(10) => text.parse().ok(),
            Self::Milliseconds if is_number && digits(13) => text[..10].parse().ok(),
            Self::Rfc3339 if is_rfc3339(text) => {
                u64::try_from(text.parse::<Timestamp>().ok()?.as_second()).ok()
            }
            _ => None,
        }
    }

    fn write(self, seconds: u64) -> String {
        match self {
            Self::Seconds => seconds.to_string(),
            Self::Milliseconds => format!("{seconds}000"),
            Self::Rfc3339 => {
                let time = i64::try_from(seconds).ok();
                let time = time.and_then(|seconds| Timestamp::from_second(seconds).ok());
                time.unwrap_or(Timestamp::MAX).to_string()
            }
        }
    }
}

/// The parser of times takes more forms than this one.
fn is_rfc3339(text: &str) -> bool {
    let Some((seconds, rest)) = text.split_at_checked(19) else {
        return false;
    };
    let form = b"0000-00-00T00:00:00";
    let fits = |(byte, form): (u8, &u8)| byte == *form || *form == b'0' && byte.is_ascii_digit();
    let fraction = rest.strip_suffix('Z');
    let is_fraction = |fraction: &str| match fraction.strip_prefix('.') {
        Some(digits) => !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()),
        None => fraction.is_empty(),
    };
    seconds.bytes().zip(form).all(fits) && fraction.is_some_and(is_fraction)
}

/// A part of the signed content.
///
/// One signature must not fit two deliveries: `ab` and `c` have the content of `a` and `bc`. So a
/// header needs a [`Text`](Self::Text) on the side of the body, which must not occur in its value,
/// or a fixed length.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Part {
    /// The body, byte for byte as it was sent.
    Body,
    /// The time of signing, as it was sent.
    Time,
    /// The value of this header, such as the event's id.
    Header(HeaderName),
    /// The value of this header, which has so many bytes: 36 for a UUID.
    HeaderOfLength(HeaderName, usize),
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
    time_format: TimeFormat,
    signed: Signed,
    key: KeyText,
    key_encoding: Option<Encoding>,
}

/// Where a delivery states the time of signing.
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
            time_format: TimeFormat::Seconds,
            signed: Signed::Parts(vec![Part::Body]),
            key: KeyText::HmacSha256,
            key_encoding: None,
        }
    }

    /// Describes an HMAC-SHA-1, otherwise as [`hmac_sha256`](Self::hmac_sha256).
    #[must_use]
    pub fn hmac_sha1(header: HeaderName) -> Self {
        let mut signature = Self::hmac_sha256(header);
        signature.key = KeyText::HmacSha1;
        signature
    }

    /// Describes an Ed25519 signature, otherwise as [`hmac_sha256`](Self::hmac_sha256). The secret
    /// is the public key, in hexadecimal.
    #[must_use]
    pub fn ed25519(header: HeaderName) -> Self {
        let mut signature = Self::hmac_sha256(header).with_key_encoding(Encoding::Hex);
        signature.key = KeyText::Ed25519;
        signature
    }

    /// Describes the signatures of [Standard Webhooks](https://www.standardwebhooks.com): a list of
    /// `v1,` (HMAC-SHA-256) and `v1a,` (Ed25519) in `webhook-signature`, over
    /// `webhook-id.webhook-timestamp.body`.
    ///
    /// The secret is `whsec_` and the base64 of 24 to 64 bytes, `v1,` may be in front of it, or the
    /// public key `whpk_…`; one signature that fits one of the secrets is enough. An id with a `.`
    /// is refused, because the signed content could be read in two ways.
    #[must_use]
    pub fn standard_webhooks() -> Self {
        let names = ["webhook-id", "webhook-timestamp", "webhook-signature"];
        Self::in_headers(names.map(HeaderName::from_static))
    }

    /// Describes the signatures of [Svix](https://docs.svix.com/receiving/verifying-payloads/how-manual),
    /// whose headers begin with `svix-`; otherwise as
    /// [`standard_webhooks`](Self::standard_webhooks).
    #[must_use]
    pub fn svix() -> Self {
        let names = ["svix-id", "svix-timestamp", "svix-signature"];
        Self::in_headers(names.map(HeaderName::from_static))
    }

    fn in_headers([id, time, header]: [HeaderName; 3]) -> Self {
        let dot = || Part::Text(Cow::Borrowed("."));
        let mut signature = Self::hmac_sha256(header)
            .with_prefix("v1,")
            .with_separator(' ')
            .with_encoding(Encoding::Base64)
            .with_time_header(time)
            .with_signed([Part::Header(id), dot(), Part::Time, dot(), Part::Body]);
        signature.key = KeyText::StandardWebhooks;
        signature
    }

    pub(crate) fn twilio(url: PublicUrl, key: KeyText) -> Self {
        let header = HeaderName::from_static("x-twilio-signature");
        let mut signature = Self::hmac_sha256(header).with_encoding(Encoding::Base64);
        signature.signed = Signed::Twilio(url);
        signature.key = key;
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

    /// Reads the text of a secret in this encoding. Default: the bytes of the text are the key.
    #[must_use]
    pub fn with_key_encoding(mut self, encoding: Encoding) -> Self {
        self.key_encoding = Some(encoding);
        self
    }

    /// Sets how the time of signing is written. Default: [`TimeFormat::Seconds`].
    #[must_use]
    pub fn with_time_format(mut self, format: TimeFormat) -> Self {
        self.time_format = format;
        self
    }

    /// Reads the time of signing from this header. It must be a signed part. Default: no time.
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
        let refused = |message| Err(Error::invalid_input(message));
        let Some(body) = parts.iter().position(|part| *part == Part::Body) else {
            return refused("the signature does not cover the body");
        };
        if parts[body + 1..].contains(&Part::Body) {
            return refused("the signature covers the body twice");
        }
        if parts.contains(&Part::Time) != (self.time != Time::None) {
            return refused("the time is signed without being sent, or sent without being signed");
        }
        let mut numbered = parts.iter().enumerate();
        if numbered
            .any(|(at, part)| matches!(part, Part::Header(_)) && separator(parts, at).is_none())
        {
            let message = "a signed header has neither a text between it and the next part nor a \
                           fixed length: one signature would fit two deliveries";
            return refused(message);
        }
        Ok(())
    }

    pub(crate) fn secret(&self, text: &[u8]) -> Result<Secret> {
        let Some(encoding) = self.key_encoding else {
            return Secret::new(text, self.key);
        };
        let key = encoding.decode(text);
        let key =
            key.ok_or_else(|| Error::invalid_input("the signing secret is not encoded so"))?;
        Secret::new(&key, self.key)
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
        let seconds = |text| {
            self.time_format
                .seconds(text)
                .map(|seconds| (text, seconds))
        };
        let time = time.map(|text| seconds(text).ok_or(Rejection::MalformedSignature));
        let time = time.transpose()?;
        Ok(Presented { elements, time })
    }

    /// Decodes the signatures that this secret could have made.
    pub(crate) fn decode(&self, presented: &Presented<'_>, secret: &Secret) -> Vec<Vec<u8>> {
        let prefix = match secret {
            Secret::Ed25519(_) if self.key == KeyText::StandardWebhooks => ASYMMETRIC,
            _ => &self.prefix,
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
                Part::Header(name) | Part::HeaderOfLength(name, _) => {
                    let value = of_signature(request.headers(), name)?;
                    let is_clear = match part {
                        Part::HeaderOfLength(_, length) => value.len() == *length,
                        _ => separator(parts, index).is_some_and(|text| shows_end(text, value)),
                    };
                    if !is_clear {
                        return Err(Rejection::MalformedSignature);
                    }
                    content.push(value.as_bytes());
                }
            }
        }
        Ok(vec![content])
    }

    /// Writes a time of signing.
    pub(crate) fn time(&self, seconds: u64) -> String {
        self.time_format.write(seconds)
    }

    /// Adds the headers that a delivery with this signature has.
    pub(crate) fn write(
        &self,
        headers: &mut HeaderMap,
        signature: &[u8],
        time: &str,
    ) -> Result<()> {
        let no_header = |_| Error::invalid_input("the prefix of the signature fits no header");
        let mut text = format!("{}{}", self.prefix, self.encoding.encode(signature));
        match &self.time {
            Time::None => {}
            Time::Header(name) => {
                headers.insert(name, HeaderValue::from_str(time).map_err(no_header)?);
            }
            Time::Element(prefix) => {
                let separator = self.separator.map_or_else(String::new, String::from);
                text = format!("{prefix}{time}{separator}{text}");
            }
        }
        let value = HeaderValue::from_str(&text).map_err(no_header)?;
        headers.insert(&self.header, value);
        Ok(())
    }
}

/// Returns the text between a part and the one beside it on the side of the body, and whether it
/// follows the part.
fn separator(parts: &[Part], at: usize) -> Option<(&str, bool)> {
    let follows = parts[at..].contains(&Part::Body);
    let beside = if follows { at + 1 } else { at.checked_sub(1)? };
    match parts.get(beside)? {
        Part::Text(text) if !text.is_empty() => Some((text, follows)),
        _ => None,
    }
}

/// Returns whether the text shows where this value ends: if it occurred earlier, another division of
/// the content into its parts would have the same signature.
fn shows_end((text, follows): (&str, bool), value: &str) -> bool {
    match follows {
        true => format!("{value}{text}").find(text) == Some(value.len()),
        false => format!("{text}{value}").rfind(text) == Some(0),
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
