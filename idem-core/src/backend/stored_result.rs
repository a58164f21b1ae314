//! [`StoredResult`]: the stored form of a result, the same in every backend.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::{Error, Failure, Response, Result, compressed};

const RESPONSE_V1: u8 = 1;
const FAILURE_V1: u8 = 2;

/// The result that ends a claim: a response or a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredResult {
    /// The work completed.
    Response(Response),
    /// The work failed for good.
    Failure(Failure),
}

/// Encodes a response in its stored form.
///
/// Layout, integers big-endian: tag `1`; `u16` status; `u32` number of headers; for each, `u16`
/// length and name, `u32` length and value; the rest is the body.
///
/// # Errors
///
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) when a header's name is longer than 65,535
/// bytes or a value longer than 4 GiB.
pub fn encode_response(response: &Response) -> Result<Bytes> {
    let headers = response.headers();
    let mut bytes = BytesMut::with_capacity(response_size(response)?);
    bytes.put_u8(RESPONSE_V1);
    bytes.put_u16(response.status());
    bytes.put_u32(length(headers.len(), "the number of headers")?);
    for (name, value) in headers {
        put_short(&mut bytes, name.as_bytes(), "a header's name")?;
        put_long(&mut bytes, value, "a header's value")?;
    }
    bytes.put_slice(response.body());
    Ok(bytes.freeze())
}

/// Returns how many bytes [`encode_response`] makes, with its errors.
pub(crate) fn response_size(response: &Response) -> Result<usize> {
    let mut size = 7 + response.body().len();
    for (name, value) in response.headers() {
        short_length(name.len(), "a header's name")?;
        length(value.len(), "a header's value")?;
        size += 6 + name.len() + value.len();
    }
    Ok(size)
}

/// Encodes a failure in its stored form.
///
/// Layout, integers big-endian: tag `2`; `u16` length and code; `u32` length and message; the rest
/// is the caller's bytes.
///
/// # Errors
///
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) when the code is longer than 65,535 bytes or
/// the message longer than 4 GiB.
pub fn encode_failure(failure: &Failure) -> Result<Bytes> {
    let mut bytes = BytesMut::with_capacity(failure_size(failure));
    bytes.put_u8(FAILURE_V1);
    put_short(&mut bytes, failure.code().as_bytes(), "a failure's code")?;
    put_long(
        &mut bytes,
        failure.message().as_bytes(),
        "a failure's message",
    )?;
    bytes.put_slice(failure.details());
    Ok(bytes.freeze())
}

/// Returns how many bytes [`encode_failure`] makes.
pub(crate) fn failure_size(failure: &Failure) -> usize {
    7 + failure.code().len() + failure.message().len() + failure.details().len()
}

impl StoredResult {
    /// Returns whether this is a response as [`encode_response`] makes it. Caches store no other
    /// form: one that is compressed there was forged.
    #[must_use]
    pub fn is_plain_response(stored: &[u8]) -> bool {
        stored.first() == Some(&RESPONSE_V1)
    }

    /// Reads the stored form; body and values share its memory, unless it is compressed.
    ///
    /// # Errors
    ///
    /// [`Corrupt`](crate::ErrorKind::Corrupt) when it is cut short, of another version, or no
    /// stored result; [`Misconfigured`](crate::ErrorKind::Misconfigured) when it is compressed and
    /// the feature `zstd` is off.
    pub fn decode(mut bytes: Bytes) -> Result<Self> {
        match take_u8(&mut bytes)? {
            RESPONSE_V1 => decode_response(bytes).map(Self::Response),
            FAILURE_V1 => decode_failure(bytes).map(Self::Failure),
            // Only responses are compressed, and never twice.
            compressed::TAG => {
                let mut plain = compressed::unpacked(bytes)?;
                match take_u8(&mut plain)? {
                    RESPONSE_V1 => decode_response(plain).map(Self::Response),
                    _ => Err(Error::corrupt("a compressed result is not a response")),
                }
            }
            tag => Err(Error::corrupt(format!(
                "a stored result has the unknown tag {tag}; it was written by another version"
            ))),
        }
    }
}

/// Reads the code of a failure from its stored form, or from the beginning of that.
pub(crate) fn failure_code(mut bytes: Bytes) -> Result<String> {
    match take_u8(&mut bytes)? {
        FAILURE_V1 => {
            let length = take_u16(&mut bytes)?;
            take_text(&mut bytes, usize::from(length))
        }
        _ => Err(Error::corrupt("the stored result is not a failure")),
    }
}

fn decode_response(mut bytes: Bytes) -> Result<Response> {
    let status = take_u16(&mut bytes)?;
    let count = take_u32(&mut bytes)?;
    let mut headers = Vec::with_capacity(count.min(64) as usize);
    for _ in 0..count {
        let length = take_u16(&mut bytes)?;
        let name = take_text(&mut bytes, usize::from(length))?;
        let length = take_u32(&mut bytes)?;
        headers.push((name, take(&mut bytes, length as usize)?));
    }
    Ok(headers
        .into_iter()
        .fold(Response::new(status, bytes), |response, (name, value)| {
            response.with_header(name, value)
        }))
}

fn decode_failure(mut bytes: Bytes) -> Result<Failure> {
    let length = take_u16(&mut bytes)?;
    let code = take_text(&mut bytes, usize::from(length))?;
    let length = take_u32(&mut bytes)?;
    let message = take_text(&mut bytes, length as usize)?;
    Ok(Failure::new(code, message).with_details(bytes))
}

fn length(length: usize, what: &str) -> Result<u32> {
    u32::try_from(length).map_err(|_| Error::invalid_input(format!("{what} is above 4 GiB")))
}

fn short_length(length: usize, what: &str) -> Result<u16> {
    u16::try_from(length).map_err(|_| {
        Error::invalid_input(format!(
            "{what} has {length} bytes, at most 65535 are allowed"
        ))
    })
}

fn put_short(bytes: &mut BytesMut, value: &[u8], what: &str) -> Result<()> {
    bytes.put_u16(short_length(value.len(), what)?);
    bytes.put_slice(value);
    Ok(())
}

fn put_long(bytes: &mut BytesMut, value: &[u8], what: &str) -> Result<()> {
    bytes.put_u32(length(value.len(), what)?);
    bytes.put_slice(value);
    Ok(())
}

fn short() -> Error {
    Error::corrupt("a stored result is cut short")
}

fn take(bytes: &mut Bytes, length: usize) -> Result<Bytes> {
    (length <= bytes.len())
        .then(|| bytes.split_to(length))
        .ok_or_else(short)
}

fn take_text(bytes: &mut Bytes, length: usize) -> Result<String> {
    let text = take(bytes, length)?;
    String::from_utf8(text.into())
        .map_err(|_| Error::corrupt("a stored result has a name that is not UTF-8"))
}

fn take_u8(bytes: &mut Bytes) -> Result<u8> {
    bytes.try_get_u8().map_err(|_| short())
}

fn take_u16(bytes: &mut Bytes) -> Result<u16> {
    bytes.try_get_u16().map_err(|_| short())
}

fn take_u32(bytes: &mut Bytes) -> Result<u32> {
    bytes.try_get_u32().map_err(|_| short())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_response() -> impl Strategy<Value = Response> {
        let header = (".{0,12}", prop::collection::vec(any::<u8>(), 0..12));
        let headers = prop::collection::vec(header, 0..5);
        (
            any::<u16>(),
            headers,
            prop::collection::vec(any::<u8>(), 0..200),
        )
            .prop_map(|(status, headers, body)| {
                headers
                    .into_iter()
                    .fold(Response::new(status, body), |response, (name, value)| {
                        response.with_header(name, value)
                    })
            })
    }

    #[test]
    fn a_name_that_is_too_long_has_no_stored_form() {
        let response = Response::new(200, "").with_header("n".repeat(65_536), "");
        assert!(encode_response(&response).is_err() && response_size(&response).is_err());
    }

    proptest! {
        #[test]
        fn a_response_round_trips(response in any_response()) {
            let bytes = encode_response(&response).unwrap();
            prop_assert_eq!(bytes.len(), response_size(&response).unwrap());
            prop_assert_eq!(StoredResult::decode(bytes).unwrap(), StoredResult::Response(response));
        }

        #[test]
        fn a_failure_round_trips(code in ".{0,9}", message in ".{0,40}", details: Vec<u8>) {
            let failure = Failure::new(code, message).with_details(details);
            let bytes = encode_failure(&failure).unwrap();
            prop_assert_eq!(StoredResult::decode(bytes).unwrap(), StoredResult::Failure(failure));
        }

        #[test]
        fn any_bytes_give_an_answer(bytes: Vec<u8>) {
            let _ = StoredResult::decode(bytes.into());
        }
    }

    #[test]
    fn a_truncated_result_is_corrupt() {
        let response = Response::new(201, "body").with_header("a", "b");
        let bytes = encode_response(&response).unwrap();
        for length in 0..bytes.len() - 4 {
            let error = StoredResult::decode(bytes.slice(..length)).unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Corrupt, "{length}");
        }
    }
}
