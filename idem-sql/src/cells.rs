//! [`Cells`]: a row of any driver, and the record in it.

use std::fmt::Debug;

use idem_core::backend::StoredRecord;
use idem_core::{Bytes, ClaimOutcome, ClaimRequest, Error, FencingToken, Record, Result};

/// A row of an answer. Its values are read by their position, as the type that the statement
/// returns.
pub trait Cells: Debug + Send + Sync {
    /// Returns how many values the row has.
    fn width(&self) -> usize;

    /// Reads a number of any width, a condition as 0 or 1.
    ///
    /// # Errors
    ///
    /// `Corrupt` for a value of another type and for a missing column.
    fn number(&self, index: usize) -> Result<Option<i64>>;

    /// Reads bytes.
    ///
    /// # Errors
    ///
    /// As for [`number`](Self::number).
    fn bytes(&self, index: usize) -> Result<Option<&[u8]>>;

    /// Reads a text.
    ///
    /// # Errors
    ///
    /// As for [`number`](Self::number).
    fn text(&self, index: usize) -> Result<Option<&str>> {
        let text = self.bytes(index)?.map(std::str::from_utf8).transpose();
        text.map_err(|error| unexpected(index).with_source(error))
    }
}

/// The row of a statement that returns none, where it has written one.
impl Cells for () {
    fn width(&self) -> usize {
        0
    }

    fn number(&self, index: usize) -> Result<Option<i64>> {
        Err(unexpected(index))
    }

    fn bytes(&self, index: usize) -> Result<Option<&[u8]>> {
        Err(unexpected(index))
    }
}

/// The values of a row, without the driver: bytes, and the number in them where there is one.
pub struct OwnedRow(pub Vec<Option<(Vec<u8>, Option<i64>)>>);

impl OwnedRow {
    fn value(&self, index: usize) -> Result<Option<&(Vec<u8>, Option<i64>)>> {
        let value = self.0.get(index).ok_or_else(|| unexpected(index));
        value.map(Option::as_ref)
    }
}

impl Cells for OwnedRow {
    fn width(&self) -> usize {
        self.0.len()
    }

    fn number(&self, index: usize) -> Result<Option<i64>> {
        let number = self.value(index)?.map(|(_, number)| *number);
        number
            .map(|number| number.ok_or_else(|| unexpected(index)))
            .transpose()
    }

    fn bytes(&self, index: usize) -> Result<Option<&[u8]>> {
        Ok(self.value(index)?.map(|(bytes, _)| &**bytes))
    }
}

/// Shows no value: it may be a secret.
impl std::fmt::Debug for OwnedRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OwnedRow").finish_non_exhaustive()
    }
}

/// A row of any driver.
pub type Row = Box<dyn Cells>;

/// The columns of the answer to a claim or a read, in this order: whether the claim wrote the row,
/// then state, token, attempts, fingerprint, creation, end of the retention, end of the lease,
/// whether it fails when stale (NULL and 0 mean that it does not), sealing, metadata, result, and
/// the server's clock.
#[derive(Debug, Clone, Copy)]
pub struct Columns<'r>(&'r dyn Cells);

/// The index of the clock.
const NOW: usize = 12;

impl<'r> Columns<'r> {
    /// The index of the first column after the record's: the key, in the answers of batches.
    pub const AFTER: usize = NOW + 1;

    /// Reads this row.
    #[must_use]
    pub fn of(row: &'r Row) -> Self {
        Self(&**row)
    }

    /// Reads a number that is never NULL.
    ///
    /// # Errors
    ///
    /// `Corrupt` for NULL, a value of another type, and a missing column.
    pub fn number(&self, index: usize) -> Result<i64> {
        self.0.number(index)?.ok_or_else(|| unexpected(index))
    }

    /// Reads a number, which may be NULL.
    ///
    /// # Errors
    ///
    /// As for [`Cells::number`].
    pub fn optional_number(&self, index: usize) -> Result<Option<i64>> {
        self.0.number(index)
    }

    /// Reads bytes that are never NULL.
    ///
    /// # Errors
    ///
    /// As for [`number`](Self::number).
    pub fn bytes(&self, index: usize) -> Result<&'r [u8]> {
        self.0.bytes(index)?.ok_or_else(|| unexpected(index))
    }

    /// Reads a text that is never NULL.
    ///
    /// # Errors
    ///
    /// As for [`number`](Self::number).
    pub fn text(&self, index: usize) -> Result<&'r str> {
        self.0.text(index)?.ok_or_else(|| unexpected(index))
    }

    /// Reads bytes, which may be NULL.
    ///
    /// # Errors
    ///
    /// As for [`Cells::bytes`].
    pub fn optional_bytes(&self, index: usize) -> Result<Option<&'r [u8]>> {
        self.0.bytes(index)
    }

    /// Reads a text, or bytes of UTF-8, which may be NULL. Other bytes read as an empty text, which
    /// is neither JSON nor a part of a key.
    ///
    /// # Errors
    ///
    /// As for [`Cells::text`].
    pub fn either(&self, index: usize) -> Result<Option<&'r str>> {
        if let Ok(text) = self.0.text(index) {
            return Ok(text);
        }
        let bytes = self.0.bytes(index)?;
        Ok(bytes.map(|bytes| std::str::from_utf8(bytes).unwrap_or_default()))
    }

    /// Returns the first column of a claim's answer: whether the claim wrote this row.
    ///
    /// # Errors
    ///
    /// As for [`number`](Self::number).
    pub fn is_won(&self) -> Result<bool> {
        Ok(self.number(0)? != 0)
    }

    /// Returns the token.
    ///
    /// # Errors
    ///
    /// As for [`number`](Self::number).
    pub fn token(&self) -> Result<FencingToken> {
        self.number(2).map(FencingToken::from_i64)
    }

    /// Returns the clock.
    ///
    /// # Errors
    ///
    /// As for [`number`](Self::number).
    pub fn now(&self) -> Result<i64> {
        self.number(NOW)
    }

    /// Returns the answer to a claim.
    ///
    /// # Errors
    ///
    /// `Corrupt` when a column cannot be decoded.
    pub fn outcome(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        let stored = self.stored(self.now()?)?;
        if self.is_won()? {
            return Ok(ClaimOutcome::Acquired(stored.claim(request)));
        }
        stored.loses(request)
    }

    /// Returns the record.
    ///
    /// # Errors
    ///
    /// `Corrupt` when a column cannot be decoded.
    pub fn record(&self) -> Result<Record> {
        self.stored(self.now()?)?.record()
    }

    /// Returns the columns of the record, as the server read them at `now`.
    ///
    /// # Errors
    ///
    /// `Corrupt` for values of other types.
    pub fn stored(&self, now: i64) -> Result<StoredRecord<'r>> {
        Ok(StoredRecord {
            state: self.number(1)?,
            token: self.number(2)?,
            attempts: self.number(3)?,
            fingerprint: self.bytes(4)?,
            created_at: self.number(5)?,
            expires_at: self.number(6)?,
            lease_ends_at: self.number(7)?,
            fails_when_stale: self.0.number(8)?.is_some_and(|fails| fails != 0),
            sealed_at: self.0.number(9)?,
            metadata: self.either(10)?,
            result: self.0.bytes(11)?.map(Bytes::copy_from_slice),
            now,
        })
    }
}

/// Returns the error of a column that has not the value that the statement returns.
#[must_use]
pub fn unexpected(index: usize) -> Error {
    Error::corrupt(format!("column {index} of the answer cannot be read"))
}
