//! [`Seals`]: encrypts what goes to the store, and decrypts what comes back.

use std::sync::Arc;

use aes_gcm_siv::{AeadInOut, Nonce, Tag};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::{BufMut, Bytes, BytesMut};
use sha2::{Digest, Sha256};

use super::envelope::{self, ENTRY, MAGIC, MESSAGE, STATUS};
use super::{DataKey, KeyRing, Peppers, PlainRecords};
use crate::backend::{StoredResult, check, encode_failure};
use crate::{
    Checkpoint, ClaimRequest, Effect, Error, ErrorKind, Failure, FencingToken, Fingerprint, Key,
    Limits, Metadata, RecordInfo, Response, Result,
};

const NONCE_BYTES: usize = 12;
const TAG_BYTES: usize = 16;

/// Most bytes that an envelope adds.
const ENVELOPE_BYTES: usize = MAGIC.len() + 1 + DataKey::MAX_ID_BYTES + NONCE_BYTES + TAG_BYTES;

/// Most bytes that encryption adds to a stored result: the envelope, and the form around it.
const RESULT_BYTES: usize = ENVELOPE_BYTES + MESSAGE.len() + 7;

/// Most bytes that encryption adds to the metadata before base64: the envelope, and the claim's
/// fingerprint.
const METADATA_BYTES: usize = ENVELOPE_BYTES + 1 + Fingerprint::BYTES;

/// Bytes of the JSON around the base64: `{"name":"…"}`.
const ENTRY_BYTES: usize = ENTRY.len() + 7;

/// What a ciphertext is, so that it passes for nothing else.
#[derive(Clone, Copy)]
enum Kind {
    Response = 1,
    Failure = 2,
    Checkpoint = 3,
    Metadata = 4,
}

/// Where a ciphertext belongs. It can be decrypted nowhere else.
struct Place<'a> {
    kind: Kind,
    key: &'a Key,
    /// The token of the acquisition; zero for what outlives one.
    token: i64,
    /// What stays in clear beside it: a failure's code, a checkpoint's name.
    name: &'a str,
}

impl Place<'_> {
    /// Returns the data that the tag also covers. No two places have the same.
    fn associated_data(&self) -> Vec<u8> {
        let parts = [
            self.key.scope(),
            self.key.operation(),
            self.key.id(),
            self.name,
        ];
        let mut data = Vec::with_capacity(64 + parts.iter().map(|part| part.len()).sum::<usize>());
        data.extend_from_slice(b"idem/protected/1");
        data.push(self.kind as u8);
        data.extend_from_slice(&self.token.to_be_bytes());
        for part in parts {
            data.extend_from_slice(&(part.len() as u64).to_be_bytes());
            data.extend_from_slice(part.as_bytes());
        }
        data
    }
}

/// The secrets of a [`Protected`](super::Protected) store.
#[derive(Debug, Clone, Default)]
pub(super) struct Seals {
    pub(super) ring: Option<Arc<KeyRing>>,
    pub(super) peppers: Option<Peppers>,
    pub(super) plain: PlainRecords,
}

impl Seals {
    /// Returns whether there are keys to encrypt with.
    pub(super) fn encrypts(&self) -> bool {
        self.ring.is_some()
    }

    /// Returns the limits of what a caller gives, so that its stored form is within the store's.
    pub(super) fn limits(&self, limits: Limits) -> Limits {
        if self.ring.is_none() {
            return limits;
        }
        let encoded = limits.max_metadata_bytes.saturating_sub(ENTRY_BYTES);
        limits
            .with_max_result_bytes(limits.max_result_bytes.saturating_sub(RESULT_BYTES))
            .with_max_metadata_bytes((encoded / 4 * 3).saturating_sub(METADATA_BYTES))
    }

    /// Returns the claim as the store gets it.
    pub(super) fn request(&self, request: &ClaimRequest) -> Result<ClaimRequest> {
        let (key, given) = (request.key(), request.fingerprint());
        let mut sealed = request.clone();
        if let Some(peppers) = &self.peppers {
            sealed = sealed.with_fingerprint(peppers.current(key, given));
        }
        if self.ring.is_some() {
            sealed = sealed.with_metadata(self.metadata(key, request.metadata(), Some(given))?);
        }
        Ok(sealed)
    }

    /// Returns the metadata as the store gets them, with the claim's own fingerprint: the one that
    /// the record shows may be hashed with a pepper, or changed by somebody else.
    pub(super) fn metadata(
        &self,
        key: &Key,
        metadata: &Metadata,
        fingerprint: Option<&Fingerprint>,
    ) -> Result<Metadata> {
        match (&self.ring, plain_metadata(metadata, fingerprint)?) {
            (Some(ring), Some(plain)) => encrypt_metadata(&ring.current_key(), key, &plain),
            _ => Ok(metadata.clone()),
        }
    }

    /// Returns the claim under the fingerprint of a record that it has met, if that is the claim's
    /// own under any pepper.
    pub(super) fn request_as(
        &self,
        request: &ClaimRequest,
        stored: &Fingerprint,
    ) -> Result<Option<ClaimRequest>> {
        let peppers = self.peppers.as_ref();
        if !peppers.is_some_and(|own| own.is_same(request.key(), request.fingerprint(), stored)) {
            return Ok(None);
        }
        Ok(Some(self.request(request)?.with_fingerprint(*stored)))
    }

    /// Returns the response as the store gets it.
    pub(super) fn response(
        &self,
        key: &Key,
        token: FencingToken,
        response: &Response,
        limits: &Limits,
    ) -> Result<Response> {
        let Some(ring) = &self.ring else {
            return Ok(response.clone());
        };
        let place = Place {
            kind: Kind::Response,
            key,
            token: token.as_i64(),
            name: "",
        };
        let plain = check::response(response, limits)?;
        Ok(Response::new(
            STATUS,
            encrypt_result(&ring.current_key(), &place, &plain)?,
        ))
    }

    /// Returns the failure as the store gets it; the code stays as it is.
    pub(super) fn failure(
        &self,
        key: &Key,
        token: FencingToken,
        failure: &Failure,
        limits: &Limits,
    ) -> Result<Failure> {
        let Some(ring) = &self.ring else {
            return Ok(failure.clone());
        };
        check::failure(failure, limits)?;
        let place = failure_place(key, token, failure);
        // The code is in the associated data.
        let rest = Failure::new("", failure.message()).with_details(failure.details().clone());
        let details = encrypt_result(&ring.current_key(), &place, &encode_failure(&rest)?)?;
        Ok(Failure::new(failure.code(), MESSAGE).with_details(details))
    }

    /// Returns the checkpoint as the store gets it; the name stays as it is.
    pub(super) fn checkpoint(
        &self,
        key: &Key,
        checkpoint: &Checkpoint,
        limits: &Limits,
    ) -> Result<Checkpoint> {
        let Some(ring) = &self.ring else {
            return Ok(checkpoint.clone());
        };
        checkpoint.fits(limits)?;
        let place = checkpoint_place(key, checkpoint);
        let data = encrypt(&ring.current_key(), &place, checkpoint.data())?;
        Checkpoint::new(checkpoint.name(), data)
    }

    /// Reads a stored response.
    pub(super) fn open_response(
        &self,
        key: &Key,
        token: FencingToken,
        stored: Response,
    ) -> Result<Response> {
        let Some(envelope) = envelope::in_response(&stored) else {
            self.plain("result")?;
            return Ok(stored);
        };
        let place = Place {
            kind: Kind::Response,
            key,
            token: token.as_i64(),
            name: "",
        };
        match StoredResult::decode(self.decrypt(&place, envelope)?)? {
            StoredResult::Response(response) => Ok(response),
            StoredResult::Failure(_) => Err(damaged()),
        }
    }

    /// Reads a stored failure.
    pub(super) fn open_failure(
        &self,
        key: &Key,
        token: FencingToken,
        stored: Failure,
    ) -> Result<Failure> {
        let Some(envelope) = envelope::in_failure(&stored) else {
            if !is_abandoned(&stored) {
                self.plain("failure")?;
            }
            return Ok(stored);
        };
        let place = failure_place(key, token, &stored);
        match StoredResult::decode(self.decrypt(&place, envelope)?)? {
            StoredResult::Failure(rest) => {
                let failure = Failure::new(stored.code(), rest.message());
                Ok(failure.with_details(rest.details().clone()))
            }
            StoredResult::Response(_) => Err(damaged()),
        }
    }

    /// Reads a stored checkpoint.
    pub(super) fn open_checkpoint(&self, key: &Key, stored: Checkpoint) -> Result<Checkpoint> {
        let Some(envelope) = envelope::in_checkpoint(&stored) else {
            self.plain("checkpoint")?;
            return Ok(stored);
        };
        let data = self.decrypt(&checkpoint_place(key, &stored), envelope)?;
        Checkpoint::new(stored.name(), data)
    }

    /// Reads the stored metadata, and the fingerprint that the claim had before a pepper.
    pub(super) fn open_metadata(
        &self,
        key: &Key,
        stored: &Metadata,
    ) -> Result<(Metadata, Option<Fingerprint>)> {
        let Some(text) = envelope::in_metadata(stored) else {
            if !stored.is_empty() {
                self.plain("metadata")?;
            }
            return Ok((stored.clone(), None));
        };
        let envelope = STANDARD_NO_PAD.decode(text).map_err(|_| damaged())?;
        let plain = self.decrypt(&metadata_place(key), &envelope.into())?;
        let (&has_fingerprint, mut json) = plain.split_first().ok_or_else(damaged)?;
        let mut fingerprint = None;
        if has_fingerprint == 1 {
            let (bytes, rest) = json
                .split_at_checked(Fingerprint::BYTES)
                .ok_or_else(damaged)?;
            fingerprint = Some(Fingerprint::from_bytes(bytes)?);
            json = rest;
        }
        let metadata = serde_json::from_slice(json).map_err(|_| damaged())?;
        Ok((metadata, fingerprint))
    }

    /// Reads the common fields of a record. `given` is the fingerprint of a claim that gets the
    /// record as the one of its own request: the record must have been claimed with it.
    pub(super) fn open_info(
        &self,
        key: &Key,
        given: Option<&Fingerprint>,
        info: &mut RecordInfo,
    ) -> Result<()> {
        let (metadata, claimed) = self.open_metadata(key, &info.metadata)?;
        info.metadata = metadata;
        // Otherwise whoever may write the table could make a record that of every request.
        if info.fingerprint.is_unknown() {
            match claimed {
                Some(claimed) if claimed.is_unknown() => return Ok(()),
                Some(_) => return Err(damaged()),
                None => return self.plain("fingerprint"),
            }
        }
        match (given, claimed) {
            (Some(given), Some(claimed)) if claimed != *given => return Err(damaged()),
            (Some(_), None) => self.unbound()?,
            _ => {}
        }
        if let Some(peppers) = &self.peppers {
            let stored = info.fingerprint;
            let mut known = [given.copied(), claimed].into_iter().flatten();
            let own = known.find(|own| peppers.is_same(key, own, &stored));
            info.fingerprint = own.unwrap_or(stored);
        }
        Ok(())
    }

    /// Decides about a record whose metadata do not have the fingerprint of its claim. Without keys
    /// nobody can forge one that is hashed with a pepper.
    pub(super) fn unbound(&self) -> Result<()> {
        match self.peppers {
            None => self.plain("fingerprint"),
            Some(_) => Ok(()),
        }
    }

    /// Decides about a value that is not encrypted.
    fn plain(&self, what: &str) -> Result<()> {
        if self.ring.is_none() || self.plain == PlainRecords::Accept {
            return Ok(());
        }
        Err(misconfigured(format!(
            "a record's {what} is not encrypted: it was written before encryption was switched on, \
             or by another program; accept such records with `PlainRecords::Accept`, and \
             encrypt them with `idem rewrap --plain`"
        )))
    }

    fn decrypt(&self, place: &Place<'_>, envelope: &Bytes) -> Result<Bytes> {
        let (id, rest) = split(envelope).ok_or_else(damaged)?;
        let key = self.ring.as_ref().and_then(|ring| ring.key(id));
        let key = key.ok_or_else(|| {
            misconfigured(format!(
                "a record is encrypted under the key `{id}`, which this process does not have; add \
                 that key to the key ring"
            ))
        })?;
        let (nonce, sealed) = rest
            .split_first_chunk::<NONCE_BYTES>()
            .ok_or_else(damaged)?;
        let (sealed, tag) = sealed.split_last_chunk::<TAG_BYTES>().ok_or_else(damaged)?;
        let mut plain = sealed.to_vec();
        let opened = key.cipher().decrypt_inout_detached(
            &Nonce::from(*nonce),
            &place.associated_data(),
            plain.as_mut_slice().into(),
            &Tag::from(*tag),
        );
        opened.map_err(|_| damaged())?;
        Ok(plain.into())
    }
}

/// Returns the id of the key of an envelope, without decrypting it.
pub(super) fn key_id(envelope: &[u8]) -> Option<&str> {
    split(envelope).map(|(id, _)| id)
}

/// Returns whether this is the failure that stores write themselves, which nobody encrypts.
pub(super) fn is_abandoned(stored: &Failure) -> bool {
    stored.code() == Failure::ABANDONED && stored.details().is_empty()
}

fn split(envelope: &[u8]) -> Option<(&str, &[u8])> {
    let rest = envelope.strip_prefix(&MAGIC)?;
    let (&length, rest) = rest.split_first()?;
    let (id, rest) = rest.split_at_checked(usize::from(length))?;
    Some((str::from_utf8(id).ok()?, rest))
}

fn failure_place<'a>(key: &'a Key, token: FencingToken, failure: &'a Failure) -> Place<'a> {
    Place {
        kind: Kind::Failure,
        key,
        token: token.as_i64(),
        name: failure.code(),
    }
}

/// A takeover reads the checkpoint under another token, so none is bound.
fn checkpoint_place<'a>(key: &'a Key, checkpoint: &'a Checkpoint) -> Place<'a> {
    Place {
        kind: Kind::Checkpoint,
        key,
        token: 0,
        name: checkpoint.name(),
    }
}

/// A claim writes its metadata before it has a token, so none is bound.
fn metadata_place(key: &Key) -> Place<'_> {
    Place {
        kind: Kind::Metadata,
        key,
        token: 0,
        name: "",
    }
}

/// Returns the metadata, and the fingerprint, as they are encrypted; `None` when there are neither.
fn plain_metadata(
    metadata: &Metadata,
    fingerprint: Option<&Fingerprint>,
) -> Result<Option<Vec<u8>>> {
    if metadata.is_empty() && fingerprint.is_none() {
        return Ok(None);
    }
    let mut plain = vec![u8::from(fingerprint.is_some())];
    plain.extend(
        fingerprint
            .iter()
            .flat_map(|fingerprint| fingerprint.to_bytes()),
    );
    serde_json::to_writer(&mut plain, metadata).map_err(|source| {
        Error::invalid_input("the metadata cannot be written as JSON").with_source(source)
    })?;
    Ok(Some(plain))
}

fn encrypt_metadata(data_key: &DataKey, key: &Key, plain: &[u8]) -> Result<Metadata> {
    let envelope = encrypt(data_key, &metadata_place(key), plain)?;
    Ok(Metadata::new().with(ENTRY, STANDARD_NO_PAD.encode(envelope)))
}

/// Encrypts a result. The nonce is a digest of its place: stores compare the bytes of a repeated
/// completion with those before, so the same result has the same bytes.
///
/// AES-GCM-SIV allows that. Two values under one nonce and key show only whether they are equal,
/// and a place has one result; a loser's other result is never stored.
fn encrypt_result(data_key: &DataKey, place: &Place<'_>, plain: &[u8]) -> Result<Bytes> {
    let data = place.associated_data();
    let digest = Sha256::digest(&data);
    let mut nonce = [0; NONCE_BYTES];
    nonce.copy_from_slice(&digest[..NONCE_BYTES]);
    encrypt_with(data_key, &data, nonce, plain)
}

/// Encrypts a value that the store does not compare, under a random nonce.
fn encrypt(data_key: &DataKey, place: &Place<'_>, plain: &[u8]) -> Result<Bytes> {
    encrypt_with(data_key, &place.associated_data(), random_nonce(), plain)
}

fn encrypt_with(
    data_key: &DataKey,
    associated_data: &[u8],
    nonce: [u8; NONCE_BYTES],
    plain: &[u8],
) -> Result<Bytes> {
    let id = data_key.id().as_bytes();
    let mut bytes = BytesMut::with_capacity(ENVELOPE_BYTES + plain.len());
    bytes.put_slice(&MAGIC);
    bytes.put_u8(u8::try_from(id.len()).unwrap_or(u8::MAX));
    bytes.put_slice(id);
    bytes.put_slice(&nonce);
    let head = bytes.len();
    bytes.put_slice(plain);
    let tag = data_key.cipher().encrypt_inout_detached(
        &Nonce::from(nonce),
        associated_data,
        (&mut bytes[head..]).into(),
    );
    // It refuses 64 GiB or more.
    let tag = tag.map_err(|_| Error::invalid_input("the value is too long to be encrypted"))?;
    bytes.put_slice(&tag);
    Ok(bytes.freeze())
}

/// Returns a nonce for a value that the store does not compare.
fn random_nonce() -> [u8; NONCE_BYTES] {
    let mut nonce = [0; NONCE_BYTES];
    nonce.copy_from_slice(&crate::AttemptId::random().as_bytes()[..NONCE_BYTES]);
    nonce
}

/// The error of bytes that no key of the ring has encrypted for this place.
fn damaged() -> Error {
    Error::corrupt(
        "an encrypted value cannot be decrypted: it was damaged, moved here from another record, \
         or encrypted under another key with the same id",
    )
}

fn misconfigured(message: String) -> Error {
    Error::new(ErrorKind::Misconfigured, Effect::None, message)
}
