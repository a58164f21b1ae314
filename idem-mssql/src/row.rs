//! Reads records from rows.

use idem_core::backend::StoredRecord;
use idem_core::{Bytes, ClaimOutcome, ClaimRequest, FencingToken, Record, Result};
use tiberius::{ColumnData, Row};

use crate::error::{decode, unexpected};

/// The columns of the answer to a claim or a read, in the order of the statements.
#[derive(Debug)]
pub(crate) struct Columns<'r>(pub(crate) &'r Row);

/// The index of the key's columns in answers of batches.
const KEY: usize = 13;

impl<'r> Columns<'r> {
    fn cell(&self, index: usize) -> Result<&'r ColumnData<'static>> {
        self.0.get_column_data(index).map_err(decode)
    }

    /// Reads a number of any width.
    pub(crate) fn optional_number(&self, index: usize) -> Result<Option<i64>> {
        Ok(match self.cell(index)? {
            ColumnData::U8(number) => number.map(i64::from),
            ColumnData::I16(number) => number.map(i64::from),
            ColumnData::I32(number) => number.map(i64::from),
            ColumnData::I64(number) => *number,
            ColumnData::Bit(flag) => flag.map(i64::from),
            _ => return Err(unexpected("a number", index)),
        })
    }

    pub(crate) fn number(&self, index: usize) -> Result<i64> {
        let number = self.optional_number(index)?;
        number.ok_or_else(|| unexpected("a number", index))
    }

    pub(crate) fn optional_bytes(&self, index: usize) -> Result<Option<&'r [u8]>> {
        match self.cell(index)? {
            ColumnData::Binary(bytes) => Ok(bytes.as_deref()),
            _ => Err(unexpected("bytes", index)),
        }
    }

    fn bytes(&self, index: usize) -> Result<&'r [u8]> {
        let bytes = self.optional_bytes(index)?;
        bytes.ok_or_else(|| unexpected("bytes", index))
    }

    pub(crate) fn optional_text(&self, index: usize) -> Result<Option<&'r str>> {
        match self.cell(index)? {
            ColumnData::String(text) => Ok(text.as_deref()),
            _ => Err(unexpected("text", index)),
        }
    }

    /// Returns whether the claim wrote this row.
    fn is_won(&self) -> Result<bool> {
        Ok(self.number(0)? == 1)
    }

    pub(crate) fn token(&self) -> Result<FencingToken> {
        self.number(2).map(FencingToken::from_i64)
    }

    /// Returns scope, operation and id from a batch's answer to a claim.
    pub(crate) fn key(&self) -> Result<(&'r [u8], &'r [u8], &'r [u8])> {
        self.key_at(KEY)
    }

    /// Returns the same, from this column on.
    pub(crate) fn key_at(&self, index: usize) -> Result<(&'r [u8], &'r [u8], &'r [u8])> {
        Ok((
            self.bytes(index)?,
            self.bytes(index + 1)?,
            self.bytes(index + 2)?,
        ))
    }

    /// Returns the answer to a claim.
    pub(crate) fn outcome(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        let stored = self.stored()?;
        if self.is_won()? {
            return Ok(ClaimOutcome::Acquired(stored.claim(request)));
        }
        stored.loses(request)
    }

    /// Returns the record.
    pub(crate) fn record(&self) -> Result<Record> {
        self.stored()?.record()
    }

    fn stored(&self) -> Result<StoredRecord<'r>> {
        Ok(StoredRecord {
            state: self.number(1)?,
            token: self.number(2)?,
            attempts: self.number(3)?,
            fingerprint: self.bytes(4)?,
            created_at: self.number(5)?,
            expires_at: self.number(6)?,
            lease_ends_at: self.number(7)?,
            fails_when_stale: self.optional_number(8)?.is_some(),
            sealed_at: self.optional_number(9)?,
            metadata: self.optional_text(10)?,
            result: self.optional_bytes(11)?.map(Bytes::copy_from_slice),
            now: self.number(12)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use idem_core::ErrorKind;
    use tiberius::ColumnType;

    fn row(cell: ColumnData<'static>) -> Row {
        let builder = Row::builder().column("", ColumnType::Null, cell);
        builder.build()
    }

    #[test]
    fn a_number_of_any_width_is_read() {
        for cell in [
            ColumnData::U8(Some(1)),
            ColumnData::I16(Some(1)),
            ColumnData::I32(Some(1)),
            ColumnData::I64(Some(1)),
            ColumnData::Bit(Some(true)),
        ] {
            assert_eq!(Columns(&row(cell)).number(0).unwrap(), 1);
        }
    }

    #[test]
    fn a_cell_of_another_type_is_corrupt() {
        let text = ColumnData::String(Some("1".into()));
        for cell in [text, ColumnData::I64(None), ColumnData::F64(Some(1.0))] {
            let error = Columns(&row(cell)).number(0).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
        }
        let row = row(ColumnData::I32(Some(1)));
        assert!(Columns(&row).optional_bytes(0).is_err());
        assert!(Columns(&row).optional_text(0).is_err());
        assert!(Columns(&row).number(1).is_err());
    }
}
