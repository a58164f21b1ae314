//! [`Checkpoint`] and [`CheckpointStore`]: how far the work under a claim got.

use std::fmt;

use async_trait::async_trait;
use bytes::{BufMut, Bytes, BytesMut};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Claim, Error, IdempotencyStore, Limits, Result, carried};

/// The first byte of a stored checkpoint, which no sealed result has.
const FORM: u8 = 0x10;

/// A recovery point: a name, and the data that the work needs to go on from there.
///
/// `Debug` shows the name and the size of the data.
#[derive(Clone, PartialEq, Eq)]
pub struct Checkpoint {
    name: String,
    data: Bytes,
}

impl Checkpoint {
    /// Most bytes that a name may have.
    pub const MAX_NAME_BYTES: usize = 128;

    /// Creates a checkpoint of this name (1 to 128 bytes, no control characters) with any data.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when the name is outside its limits.
    pub fn new(name: impl Into<String>, data: impl Into<Bytes>) -> Result<Self> {
        let name = name.into();
        let max = Self::MAX_NAME_BYTES;
        if name.is_empty() || name.len() > max || name.chars().any(char::is_control) {
            return Err(Error::invalid_input(format!(
                "a checkpoint's name has {} bytes or a control character; it needs 1 to {max} bytes without any",
                name.len()
            )));
        }
        Ok(Self {
            name,
            data: data.into(),
        })
    }

    /// Creates a checkpoint whose data is a value as JSON.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when the name is outside its limits, or the
    /// value has no JSON form or holds what JSON does not carry and `serde_json` writes as `null`:
    /// a number that is not finite, `Some(None)`, `Some(())`.
    pub fn json<T: Serialize + ?Sized>(name: impl Into<String>, value: &T) -> Result<Self> {
        Self::new(name, carried::to_json("the checkpoint's data", value)?)
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the data.
    #[must_use]
    pub fn data(&self) -> &Bytes {
        &self.data
    }

    /// Reads the value from JSON data.
    ///
    /// # Errors
    ///
    /// [`Corrupt`](crate::ErrorKind::Corrupt) when the data is not the JSON of a `T`: another
    /// version of the program wrote it.
    pub fn from_json<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(&self.data).map_err(|source| {
            Error::corrupt(format!(
                "the data of a checkpoint is not the JSON of a {}",
                std::any::type_name::<T>()
            ))
            .with_source(source)
        })
    }

    /// Returns the stored form: a byte that no sealed result begins with, the length of the name in
    /// one byte, name, data.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when it has more bytes than a result may
    /// have.
    pub fn encode(&self, limits: &Limits) -> Result<Bytes> {
        self.fits(limits)?;
        let mut bytes = BytesMut::with_capacity(self.size());
        bytes.put_u8(FORM);
        bytes.put_u8(u8::try_from(self.name.len()).unwrap_or(u8::MAX));
        bytes.put_slice(self.name.as_bytes());
        bytes.put_slice(&self.data);
        Ok(bytes.freeze())
    }

    /// Checks that a store with these limits accepts it, with the errors of [`encode`](Self::encode).
    pub(crate) fn fits(&self, limits: &Limits) -> Result<()> {
        let size = self.size();
        if size <= limits.max_result_bytes {
            return Ok(());
        }
        Err(Error::invalid_input(format!(
            "the checkpoint has {size} bytes, this store accepts at most {}",
            limits.max_result_bytes
        )))
    }

    /// Returns how many bytes the stored form has.
    pub(crate) fn size(&self) -> usize {
        2 + self.name.len() + self.data.len()
    }

    /// Reads the stored form.
    ///
    /// # Errors
    ///
    /// [`Corrupt`](crate::ErrorKind::Corrupt) when it is not a stored checkpoint.
    pub fn decode(stored: &Bytes) -> Result<Self> {
        let corrupt = || Error::corrupt("a stored checkpoint cannot be understood");
        let [FORM, length, rest @ ..] = &stored[..] else {
            return Err(corrupt());
        };
        let (name, data) = rest
            .split_at_checked(usize::from(*length))
            .ok_or_else(corrupt)?;
        let name = std::str::from_utf8(name).map_err(|_| corrupt())?;
        Self::new(name, stored.slice_ref(data)).map_err(|_| corrupt())
    }
}

impl fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checkpoint")
            .field("name", &self.name)
            .field("data_bytes", &self.data.len())
            .finish()
    }
}

/// A store that keeps one checkpoint, the last, beside each claim.
///
/// The checkpoint belongs to the record while that is in flight. A takeover leaves it there, for
/// the attempt that goes on with the work; so does a repeated claim of the same attempt. A
/// completion, a failure (also one that `fail_abandoned` records), a release and the end of the
/// retention remove it. A retry of a recorded failure begins without a checkpoint.
#[async_trait]
pub trait CheckpointStore: IdempotencyStore {
    /// Stores how far the work got, and replaces the checkpoint before.
    ///
    /// *Atomicity*: the store checks ownership and stores the checkpoint in one step.
    ///
    /// *Behaviour*: as for [`renew`](IdempotencyStore::renew), a holder whose lease has ended may
    /// still do this until another attempt has acquired the key. Lease and retention stay as they
    /// are. Repeating it succeeds.
    ///
    /// # Errors
    ///
    /// `ClaimLost` when the claim is no longer held or is sealed; nothing is changed.
    /// `InvalidInput` when the checkpoint is larger than a result may be. Others as usual.
    ///
    /// # Cancellation
    ///
    /// The checkpoint may be stored or not; if not, the one before is still there, whole.
    async fn checkpoint(&self, claim: &Claim, checkpoint: &Checkpoint) -> Result<()>;

    /// Returns the last checkpoint that was stored under this key since it was fresh, by this
    /// holder or an earlier one.
    ///
    /// *Atomicity*: one consistent read, which includes the check of ownership.
    ///
    /// # Errors
    ///
    /// `ClaimLost` when the claim is no longer held or is sealed; others as usual.
    ///
    /// # Cancellation
    ///
    /// Without effect.
    async fn last_checkpoint(&self, claim: &Claim) -> Result<Option<Checkpoint>>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{StoredResult, encode_response};
    use crate::{ErrorKind, Response};

    #[test]
    fn the_stored_form_reads_back() {
        for data in [&b""[..], b"\x00\xff", &[7; 1000]] {
            let point = Checkpoint::new("charged é", Bytes::copy_from_slice(data)).unwrap();
            let stored = point.encode(&Limits::DEFAULT).unwrap();
            assert_eq!(Checkpoint::decode(&stored).unwrap(), point);
            assert!(
                StoredResult::decode(stored).is_err(),
                "it passes for a result"
            );
        }
        let sealed = encode_response(&Response::new(200, "made")).unwrap();
        assert!(
            Checkpoint::decode(&sealed).is_err(),
            "a result passes for it"
        );
        for stored in [
            &b""[..],
            b"\x10",
            b"\x10\x02a",
            b"\x10\x01\xff",
            b"\x10\x00x",
        ] {
            let error = Checkpoint::decode(&Bytes::copy_from_slice(stored)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{stored:?}");
        }
    }

    #[test]
    fn names_and_sizes_have_limits() {
        let long = "n".repeat(129);
        for name in ["", "a\n", long.as_str()] {
            let error = Checkpoint::new(name, "").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
        }
        let point = Checkpoint::new(&long[..128], vec![0; 100]).unwrap();
        let limits = Limits::DEFAULT.with_max_result_bytes(229);
        assert!(point.encode(&limits).is_err());
        assert!(point.encode(&limits.with_max_result_bytes(230)).is_ok());
    }

    #[test]
    fn values_travel_as_json() {
        let point = Checkpoint::json("reserved", &("seat", 7)).unwrap();
        assert_eq!(
            point.from_json::<(String, u8)>().unwrap(),
            ("seat".to_owned(), 7)
        );
        assert!(point.from_json::<u8>().is_err());
        assert!(!format!("{point:?}").contains("seat"));
    }

    #[test]
    fn values_that_json_does_not_carry_are_refused() {
        for error in [
            Checkpoint::json("measured", &[1.0, f64::NAN]).unwrap_err(),
            Checkpoint::json("measured", &Some(None::<u8>)).unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(
                error.to_string().contains("checkpoint's data has"),
                "{error}"
            );
        }
    }
}
