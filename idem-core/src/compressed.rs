//! The compressed stored form of large results.

/// The first byte of a compressed result. The length of the plain form follows in four bytes,
/// big-endian, then the plain form as one zstd frame.
pub(crate) const TAG: u8 = 3;

#[cfg(feature = "zstd")]
mod zstd_form {
    use std::io::Read;

    use bytes::{Buf, BufMut, Bytes, BytesMut};

    use super::TAG;
    use crate::{Error, Result};

    /// Results up to this size are stored as they are: there is little to gain.
    const THRESHOLD_BYTES: usize = 4 << 10;

    /// The fastest of zstd's positive levels: the work waits for it.
    const LEVEL: i32 = 1;

    const HEAD_BYTES: usize = 5;

    /// Larger results are stored as they are. Who writes a few bytes into a table can make a reader
    /// allocate this much, and no more.
    pub(crate) const MAX_BYTES: usize = crate::Limits::DEFAULT.max_result_bytes;

    /// The logarithm of the window that a frame may ask for: eight MiB.
    const WINDOW_LOG: u32 = 23;

    /// Returns the compressed form, where it is smaller.
    pub(crate) fn packed(plain: Bytes) -> Bytes {
        let Ok(length) = u32::try_from(plain.len()) else {
            return plain;
        };
        if !(THRESHOLD_BYTES + 1..=MAX_BYTES).contains(&plain.len()) {
            return plain;
        }
        match zstd::bulk::compress(&plain, LEVEL) {
            Ok(frame) if HEAD_BYTES + frame.len() < plain.len() => {
                let mut bytes = BytesMut::with_capacity(HEAD_BYTES + frame.len());
                bytes.put_u8(TAG);
                bytes.put_u32(length);
                bytes.put_slice(&frame);
                bytes.freeze()
            }
            _ => plain,
        }
    }

    /// Decompresses the bytes that follow the tag. Memory grows with the actual data, not with the
    /// length that the header claims.
    pub(crate) fn unpacked(mut bytes: Bytes) -> Result<Bytes> {
        let corrupt = || Error::corrupt("a compressed result cannot be understood");
        let length = bytes.try_get_u32().map_err(|_| corrupt())?;
        if length as usize > MAX_BYTES {
            return Err(corrupt());
        }
        let mut decoder = zstd::stream::read::Decoder::new(&bytes[..])
            .map_err(|source| corrupt().with_source(source))?;
        decoder
            .window_log_max(WINDOW_LOG)
            .map_err(|source| corrupt().with_source(source))?;
        let mut plain = Vec::new();
        decoder
            .take(u64::from(length) + 1)
            .read_to_end(&mut plain)
            .map_err(|source| corrupt().with_source(source))?;
        let is_whole = u32::try_from(plain.len()).is_ok_and(|read| read == length);
        if !is_whole {
            return Err(corrupt());
        }
        Ok(plain.into())
    }
}

#[cfg(feature = "zstd")]
pub(crate) use zstd_form::{packed, unpacked};

#[cfg(not(feature = "zstd"))]
mod no_form {
    use bytes::Bytes;

    use crate::{Effect, Error, ErrorKind, Result};

    /// Without the feature nothing is compressed.
    pub(crate) fn packed(plain: Bytes) -> Bytes {
        plain
    }

    /// Without the feature nothing compressed can be read.
    pub(crate) fn unpacked(_bytes: Bytes) -> Result<Bytes> {
        Err(Error::new(
            ErrorKind::Misconfigured,
            Effect::None,
            "a stored result is compressed with zstd; build with the feature `zstd` of idem-core",
        ))
    }
}

#[cfg(not(feature = "zstd"))]
pub(crate) use no_form::{packed, unpacked};
