//! Random numbers, signatures, and comparisons in constant time.

use hmac::{Hmac, KeyInit, Mac};
use idem_core::{Effect, Error, ErrorKind, Result};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// A key of this process. What it has signed is worth nothing after a restart.
pub(crate) struct Secret([u8; 32]);

impl Secret {
    pub(crate) fn random() -> Result<Self> {
        random().map(Self)
    }

    /// Signs the text for a purpose: 128 bits in hexadecimal, which nobody can guess.
    pub(crate) fn sign(&self, purpose: &str, text: &[u8]) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0)
            .unwrap_or_else(|_| unreachable!("HMAC takes keys of any length"));
        mac.update(purpose.as_bytes());
        mac.update(&[0]);
        mac.update(text);
        hexadecimal(&mac.finalize().into_bytes()[..16])
    }
}

pub(crate) fn random() -> Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| {
        let message = "the system has no random numbers";
        Error::new(ErrorKind::Unavailable, Effect::None, message).with_source(error)
    })?;
    Ok(bytes)
}

pub(crate) fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text).into()
}

/// Compares in a time that depends on neither text. The digests have one length, so not even the
/// length of the right text shows.
pub(crate) fn same(one: &str, other: &str) -> bool {
    digest(one).ct_eq(&digest(other)).into()
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_belong_to_a_process_a_purpose_and_a_text() {
        let secret = Secret::random().unwrap();
        let signature = secret.sign("a", b"text");
        assert_eq!(signature.len(), 32);
        assert_eq!(signature, secret.sign("a", b"text"));
        assert_ne!(signature, secret.sign("b", b"text"));
        assert_ne!(signature, secret.sign("a", b"texts"));
        assert_ne!(signature, Secret::random().unwrap().sign("a", b"text"));
    }

    #[test]
    fn only_the_same_text_is_the_same() {
        assert!(same("token", "token"));
        assert!(!same("token", "tokens"));
        assert!(!same("token", ""));
    }
}
