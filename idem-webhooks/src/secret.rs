//! [`Secret`]: one key with which a signature can be checked.

use std::fmt;

use ed25519_dalek::VerifyingKey;
use hmac::{Hmac, KeyInit, Mac};
use idem_core::{Error, Result};
use sha1::Sha1;
use sha2::Sha256;

use crate::Encoding;
use crate::content::Content;

/// A key for one algorithm. `Debug` does not show it.
#[derive(Clone)]
pub(crate) enum Secret {
    HmacSha256(Hmac<Sha256>),
    HmacSha1(Hmac<Sha1>),
    /// The public key of an Ed25519 pair: it checks signatures, and makes none.
    Ed25519(Box<VerifyingKey>),
}

/// How the text of a secret becomes a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyText {
    /// The bytes of the text are the key, for HMAC-SHA-256.
    HmacSha256,
    /// The bytes of the text are the key, for HMAC-SHA-1.
    HmacSha1,
    /// The bytes of the text are a public key of Ed25519.
    Ed25519,
    /// `whsec_` and the base64 of the key, or `whpk_` and the base64 of a public key.
    StandardWebhooks,
}

impl Secret {
    pub(crate) fn new(text: &[u8], kind: KeyText) -> Result<Self> {
        match kind {
            KeyText::HmacSha256 => hmac_sha256(text),
            KeyText::HmacSha1 => not_empty(text).and_then(|text| {
                let mac = Hmac::new_from_slice(text).map_err(|_| wrong_length())?;
                Ok(Self::HmacSha1(mac))
            }),
            KeyText::Ed25519 => ed25519(text),
            KeyText::StandardWebhooks => standard_webhooks(text),
        }
    }

    /// Returns the length of a signature.
    pub(crate) fn signature_bytes(&self) -> usize {
        match self {
            Self::HmacSha256(_) => 32,
            Self::HmacSha1(_) => 20,
            Self::Ed25519(_) => 64,
        }
    }

    /// Returns whether one of the signatures is that of the content. The comparison takes the same
    /// time wherever the two differ. An HMAC reads the content once, however many there are.
    pub(crate) fn signed(&self, content: &Content<'_>, signatures: &[Vec<u8>]) -> bool {
        match self {
            Self::HmacSha256(mac) => is_one(&over(mac, content), signatures),
            Self::HmacSha1(mac) => is_one(&over(mac, content), signatures),
            Self::Ed25519(key) => {
                let content = content.concat();
                let mut signatures = signatures.iter();
                signatures.any(|signature| {
                    let signature = signature.as_slice().try_into();
                    signature.is_ok_and(|signature| key.verify_strict(&content, &signature).is_ok())
                })
            }
        }
    }

    /// Signs the content; `None` for a public key.
    pub(crate) fn sign(&self, content: &Content<'_>) -> Option<Vec<u8>> {
        match self {
            Self::HmacSha256(mac) => Some(over(mac, content).finalize().into_bytes().to_vec()),
            Self::HmacSha1(mac) => Some(over(mac, content).finalize().into_bytes().to_vec()),
            Self::Ed25519(_) => None,
        }
    }
}

fn is_one<M: Mac + Clone>(mac: &M, signatures: &[Vec<u8>]) -> bool {
    let is_signed = |signature: &Vec<u8>| mac.clone().verify_slice(signature).is_ok();
    // None is skipped, so that the time does not tell which one was right.
    signatures
        .iter()
        .fold(false, |found, signature| found | is_signed(signature))
}

fn over<M: Mac + Clone>(mac: &M, content: &Content<'_>) -> M {
    let mut mac = mac.clone();
    content.pieces().for_each(|piece| mac.update(piece));
    mac
}

fn hmac_sha256(bytes: &[u8]) -> Result<Secret> {
    let mac = Hmac::new_from_slice(not_empty(bytes)?).map_err(|_| wrong_length())?;
    Ok(Secret::HmacSha256(mac))
}

/// The lengths of a secret in bytes, by the specification of Standard Webhooks.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

fn standard_webhooks(text: &[u8]) -> Result<Secret> {
    let decode = |text: &[u8]| {
        let decoded = Encoding::Base64.decode(text);
        decoded.ok_or_else(|| Error::invalid_input("the signing secret is not base64"))
    };
    if let Some(key) = text.strip_prefix(b"whpk_") {
        return ed25519(&decode(key)?);
    }
    if text.starts_with(b"whsk_") {
        let message = "this is the sender's secret key (whsk_); a receiver needs the whpk_ key";
        return Err(Error::invalid_input(message));
    }
    let text = text.strip_prefix(b"v1,").unwrap_or(text);
    let secret = decode(text.strip_prefix(b"whsec_").unwrap_or(text))?;
    if !SECRET_BYTES.contains(&secret.len()) {
        let message = "a secret of Standard Webhooks has 24 to 64 bytes";
        return Err(Error::invalid_input(message));
    }
    hmac_sha256(&secret)
}

fn ed25519(bytes: &[u8]) -> Result<Secret> {
    let key = bytes.try_into().ok();
    let key = key.and_then(|key| VerifyingKey::from_bytes(key).ok());
    let wrong = || Error::invalid_input("the public key is not one of Ed25519");
    Ok(Secret::Ed25519(Box::new(key.ok_or_else(wrong)?)))
}

fn not_empty(bytes: &[u8]) -> Result<&[u8]> {
    if bytes.is_empty() {
        let message = "the signing secret is empty; with it, anybody could sign";
        return Err(Error::invalid_input(message));
    }
    Ok(bytes)
}

fn wrong_length() -> Error {
    Error::invalid_input("the signing secret has a length that HMAC does not take")
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}
