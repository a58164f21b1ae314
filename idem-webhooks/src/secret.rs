//! [`Secret`]: the signing secret that provider and receiver share.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use idem_core::{Error, Result};
use sha2::Sha256;

/// A signing secret, as HMAC-SHA-256 already keyed with it. `Debug` does not show it.
#[derive(Clone)]
pub(crate) struct Secret(Hmac<Sha256>);

impl Secret {
    pub(crate) fn new(bytes: &[u8]) -> Result<Self> {
        let refused = |why: &'static str| Error::invalid_input(why);
        if bytes.is_empty() {
            return Err(refused(
                "the signing secret is empty; with it, anybody could sign",
            ));
        }
        Hmac::new_from_slice(bytes)
            .map(Self)
            .map_err(|_| refused("the signing secret has a length that HMAC does not take"))
    }

    /// Returns whether one of the signatures is that of `prefix` and `body`. Each comparison takes
    /// the same time wherever the two differ, and all are made.
    pub(crate) fn signed(&self, prefix: &[u8], body: &[u8], signatures: &[[u8; 32]]) -> bool {
        let mac = self.over(prefix, body);
        signatures.iter().fold(false, |found, signature| {
            mac.clone().verify_slice(signature).is_ok() | found
        })
    }

    pub(crate) fn sign(&self, prefix: &[u8], body: &[u8]) -> [u8; 32] {
        self.over(prefix, body).finalize().into_bytes().into()
    }

    fn over(&self, prefix: &[u8], body: &[u8]) -> Hmac<Sha256> {
        self.0.clone().chain_update(prefix).chain_update(body)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}
