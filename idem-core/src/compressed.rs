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

    /// Returns the compressed form, where it is smaller.
    pub(crate) fn packed(plain: Bytes) -> Bytes {
        let Ok(length) = u32::try_from(plain.len()) else {
            return plain;
        };
        if plain.len() <= THRESHOLD_BYTES {
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
        let decoder = zstd::stream::read::Decoder::new(&bytes[..])
            .map_err(|source| corrupt().with_source(source))?;
        let mut plain = Vec::new();
        decoder
            .take(u64::from(length) + 1)
            .read_to_end(&mut plain)
            .map_err(|source| corrupt().with_source(source))?;
        let is_whole = u32::try_from(plain.len()).is_ok_and(|read| read == length);
        // Nested compression would allow data that grows without end.
        if !is_whole || plain.first() == Some(&TAG) {
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

#[cfg(all(test, feature = "zstd"))]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::backend::{StoredResult, check};
    use crate::{ErrorKind, Limits, Response};

    fn stored(body: Vec<u8>) -> Bytes {
        let response = Response::new(200, body).with_header("content-type", "text/plain");
        check::response(&response, &Limits::DEFAULT).unwrap()
    }

    fn read(stored: &Bytes) -> Response {
        match StoredResult::decode(stored.clone()).unwrap() {
            StoredResult::Response(response) => response,
            StoredResult::Failure(failure) => panic!("{failure:?}"),
        }
    }

    #[test]
    fn what_is_large_is_stored_smaller_and_read_back() {
        let body = b"the same again and again ".repeat(4_000);
        let compressed = stored(body.clone());
        assert_eq!(compressed[0], TAG);
        assert!(compressed.len() < body.len() / 10);
        assert_eq!(read(&compressed).body(), &body);
        assert_eq!(compressed, stored(body), "the same twice is not the same");
    }

    #[test]
    fn what_is_small_or_gains_nothing_is_stored_as_it_is() {
        assert_eq!(stored(vec![7; 4_000])[0], 1);
        let mut noise = 1_u64;
        let noise = (0..20_000).map(|_| {
            noise = noise
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            noise.to_be_bytes()[0]
        });
        let noise: Vec<u8> = noise.collect();
        let plain = stored(noise.clone());
        assert_eq!(plain[0], 1);
        assert_eq!(read(&plain).body(), &noise);
    }

    #[test]
    fn a_compressed_result_that_was_changed_is_corrupt() {
        let compressed = stored(vec![7; 100_000]);
        let mut wrong_length = compressed.to_vec();
        wrong_length[4] ^= 1;
        let mut wrong_frame = compressed.to_vec();
        wrong_frame[5] ^= 0xff;
        let nested = packed(vec![TAG; 100_000].into());
        let short = compressed.slice(..compressed.len() - 1);
        let changed = [wrong_length.into(), wrong_frame.into(), nested, short];
        for bytes in changed {
            let error = StoredResult::decode(bytes).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
        }
        for length in 1..5 {
            assert!(StoredResult::decode(compressed.slice(..length)).is_err());
        }
    }

    #[test]
    fn the_limit_is_that_of_the_plain_form() {
        let limits = Limits::DEFAULT.with_max_result_bytes(10_000);
        let response = Response::new(200, vec![7; 10_000]);
        assert!(check::response(&response, &limits).is_err());
    }
}

#[cfg(all(test, not(feature = "zstd")))]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::ErrorKind;
    use crate::backend::StoredResult;

    #[test]
    fn a_compressed_result_names_the_feature_that_reads_it() {
        let error = StoredResult::decode(Bytes::from_static(&[TAG, 0, 0, 0, 1, 0])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        assert!(error.to_string().contains("zstd"), "{error}");
    }
}
