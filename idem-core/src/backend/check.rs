//! Checks that every store makes before it sends anything (law 11).
//!
//! They are public so that a store written elsewhere refuses the same input in the same words.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::admin::Rewrite;
use crate::backend::{StoredResult, stored_result};
use crate::limits::{MAX_BATCH, MAX_LEASE, MAX_RETENTION};
use crate::time::whole_millis_as_micros;
use crate::{
    ClaimRequest, Error, Failure, Limits, Metadata, Response, Result, compressed, watermark,
};

/// Returns the lease in microseconds, rounded up to whole milliseconds.
///
/// # Errors
///
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) when it is zero or above [`MAX_LEASE`].
pub fn lease(lease: Duration) -> Result<i64> {
    duration("lease", lease, MAX_LEASE)
}

/// Returns the retention in microseconds, rounded up to whole milliseconds.
///
/// # Errors
///
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) when it is zero or above [`MAX_RETENTION`].
pub fn retention(retention: Duration) -> Result<i64> {
    duration("retention", retention, MAX_RETENTION)
}

/// Checks how long a claim that is handed over may wait, which is a lease, too.
pub(crate) fn wait(wait: Duration) -> Result<i64> {
    duration("wait", wait, MAX_LEASE)
}

/// Returns the version of a watermark in the form that stores send.
///
/// # Errors
///
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) when it is above
/// [`MAX_VERSION`](crate::limits::MAX_VERSION).
pub fn version(version: u64) -> Result<i64> {
    watermark::checked(version)
}

/// The longest time that [`deadline`] waits: a year.
pub const MAX_LIMIT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Returns the instant after this time, for loops that end by a caller's limit. A limit above
/// [`MAX_LIMIT`] counts as that one: `Instant + Duration` panics where the clock cannot hold the
/// sum, as with [`Duration::MAX`], which callers set for "no limit".
#[must_use]
pub fn deadline(limit: Duration) -> Instant {
    deadline_from(Instant::now(), limit)
}

/// Returns [`deadline`], counted from another instant.
#[must_use]
pub fn deadline_from(start: Instant, limit: Duration) -> Instant {
    // No clock is a year before its end.
    start.checked_add(limit.min(MAX_LIMIT)).unwrap_or(start)
}

fn duration(what: &str, value: Duration, max: Duration) -> Result<i64> {
    if value.is_zero() {
        return Err(Error::invalid_input(format!(
            "the {what} is zero; it is at least one millisecond"
        )));
    }
    if value > max {
        return Err(Error::invalid_input(format!(
            "the {what} is {} s, at most {} s are allowed",
            value.as_secs(),
            max.as_secs()
        )));
    }
    Ok(whole_millis_as_micros(value))
}

/// Returns the stored form of the response. With the feature `zstd` it is compressed when it has
/// more than 4 KiB, at most 8 MiB, and compression makes it smaller. The limit is that of the plain
/// form.
///
/// # Errors
///
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) when it is over the limit.
pub fn response(response: &Response, limits: &Limits) -> Result<Bytes> {
    // Checks before encoding, so that an over-large body is not copied.
    response_fits(response, limits)?;
    let bytes = stored_result::encode_response(response)?;
    Ok(compressed::packed(bytes))
}

/// Checks that a store with these limits accepts the response, without encoding it.
///
/// # Errors
///
/// As for [`response`].
pub fn response_fits(response: &Response, limits: &Limits) -> Result<()> {
    let size = stored_result::response_size(response)?;
    result_size("response", size, limits)
}

/// Returns the stored form of the failure.
///
/// # Errors
///
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) when it is over the limit.
pub fn failure(failure: &Failure, limits: &Limits) -> Result<Bytes> {
    result_size("failure", failure.details().len(), limits)?;
    let bytes = stored_result::encode_failure(failure)?;
    result_size("failure", bytes.len(), limits)?;
    Ok(bytes)
}

fn result_size(what: &str, size: usize, limits: &Limits) -> Result<()> {
    if size <= limits.max_result_bytes {
        return Ok(());
    }
    Err(Error::invalid_input(format!(
        "the {what} has {size} bytes, this store accepts at most {}; store it elsewhere and keep a \
         reference, or raise `max_result_bytes`",
        limits.max_result_bytes
    )))
}

/// Returns the JSON form of the metadata; `None` when there is none.
///
/// # Errors
///
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) when it is over the limit.
pub fn metadata(metadata: &Metadata, limits: &Limits) -> Result<Option<String>> {
    if metadata.is_empty() {
        return Ok(None);
    }
    let text = serde_json::to_string(metadata).map_err(|source| {
        Error::invalid_input("the metadata cannot be written as JSON").with_source(source)
    })?;
    if text.len() > limits.max_metadata_bytes {
        return Err(Error::invalid_input(format!(
            "the metadata has {} bytes as JSON, this store accepts at most {}",
            text.len(),
            limits.max_metadata_bytes
        )));
    }
    Ok(Some(text))
}

/// A claim in the form that stores send: durations in microseconds, metadata as JSON.
///
/// `Debug` shows the length of the metadata, not the metadata.
#[derive(Clone, PartialEq, Eq)]
pub struct CheckedClaim {
    /// The lease in microseconds.
    pub lease: i64,
    /// The retention of an abandoned record in microseconds.
    pub retention: i64,
    /// The metadata as JSON; `None` when there is none.
    pub metadata: Option<String>,
}

impl fmt::Debug for CheckedClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckedClaim")
            .field("lease", &self.lease)
            .field("retention", &self.retention)
            .field("metadata_bytes", &self.metadata.as_ref().map(String::len))
            .finish()
    }
}

/// Checks a whole claim; the key was checked when it was made.
///
/// # Errors
///
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) as for [`lease`], [`retention`] and
/// [`metadata`].
pub fn claim(request: &ClaimRequest, limits: &Limits) -> Result<CheckedClaim> {
    Ok(CheckedClaim {
        lease: lease(request.lease())?,
        retention: retention(request.retention())?,
        metadata: metadata(request.metadata(), limits)?,
    })
}

/// The new forms of a sealed record as stores send them.
///
/// `Debug` shows lengths.
#[derive(Clone, PartialEq, Eq)]
pub struct CheckedRewrite {
    /// The stored form of the result.
    pub result: Bytes,
    /// The metadata as JSON; `None` when there is none.
    pub metadata: Option<String>,
}

impl fmt::Debug for CheckedRewrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckedRewrite")
            .field("result_bytes", &self.result.len())
            .field("metadata_bytes", &self.metadata.as_ref().map(String::len))
            .finish()
    }
}

/// Checks and encodes the new forms of a sealed record.
///
/// # Errors
///
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) as for [`response()`], [`failure()`] and
/// [`metadata()`].
pub fn rewrite(rewrite: &Rewrite, limits: &Limits) -> Result<CheckedRewrite> {
    Ok(CheckedRewrite {
        result: match rewrite.result() {
            StoredResult::Response(given) => response(given, limits)?,
            StoredResult::Failure(given) => failure(given, limits)?,
        },
        metadata: metadata(rewrite.metadata(), limits)?,
    })
}

/// Checks the number of items of a batch; every item of a batch that is too long gets this error.
///
/// # Errors
///
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) when it is above [`MAX_BATCH`].
pub fn batch_items(items: usize) -> Result<()> {
    if items <= MAX_BATCH as usize {
        return Ok(());
    }
    Err(Error::invalid_input(format!(
        "the batch has {items} items, at most {MAX_BATCH} are allowed; split it"
    )))
}

/// Checks the limit of `delete_expired` or `fail_abandoned`.
///
/// # Errors
///
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) when it is zero or above [`MAX_BATCH`].
pub fn batch(limit: u32) -> Result<u32> {
    if (1..=MAX_BATCH).contains(&limit) {
        return Ok(limit);
    }
    Err(Error::invalid_input(format!(
        "the batch limit is {limit}; it is 1 to {MAX_BATCH}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_outside_the_limits_are_named() {
        assert!(
            lease(Duration::ZERO)
                .unwrap_err()
                .to_string()
                .contains("lease is zero")
        );
        let error = retention(MAX_RETENTION + Duration::from_secs(1)).unwrap_err();
        assert!(error.to_string().contains("at most 315360000 s"), "{error}");
        assert_eq!(lease(MAX_LEASE).unwrap(), 30 * 86_400 * 1_000_000);
        assert_eq!(lease(Duration::from_nanos(1)).unwrap(), 1000);
    }

    #[test]
    fn no_limit_is_too_long_for_the_clock() {
        let start = Instant::now();
        let after = |limit| deadline_from(start, limit) - start;
        assert_eq!(after(Duration::from_millis(5)), Duration::from_millis(5));
        assert_eq!(after(Duration::MAX), MAX_LIMIT);
        assert!(deadline(Duration::MAX) >= start + MAX_LIMIT);
    }

    #[test]
    fn results_and_metadata_have_limits() {
        let limits = Limits::DEFAULT
            .with_max_result_bytes(100)
            .with_max_metadata_bytes(20);
        assert!(response(&Response::new(200, vec![0; 93]), &limits).is_ok());
        assert!(response(&Response::new(200, vec![0; 94]), &limits).is_err());
        assert!(failure(&Failure::new("c", "m".repeat(100)), &limits).is_err());
        let entry = Metadata::new().with("a", "b");
        assert_eq!(metadata(&entry, &limits).unwrap().unwrap(), r#"{"a":"b"}"#);
        assert!(metadata(&entry.with("name", "value"), &limits).is_err());
        assert_eq!(metadata(&Metadata::new(), &limits).unwrap(), None);
        assert!(batch(0).is_err() && batch(MAX_BATCH + 1).is_err());
    }

    #[test]
    fn debug_of_a_checked_claim_shows_no_metadata() {
        let metadata = Metadata::new().with("trace", "SECRET-4242");
        let key = crate::Key::new("t", "o", "i").unwrap();
        let request = ClaimRequest::new(key, crate::Fingerprint::raw("")).with_metadata(metadata);
        let checked = claim(&request, &Limits::DEFAULT).unwrap();
        let shown = format!("{checked:?} {request:?}");
        assert!(!shown.contains("SECRET"), "the metadata is shown");
    }
}

#[cfg(all(test, feature = "zstd"))]
mod compression {
    use bytes::Bytes;

    use crate::backend::{StoredResult, check};
    use crate::compressed::{TAG, packed};
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
    fn a_large_result_is_stored_smaller_and_read_back() {
        let body = b"the same again and again ".repeat(4_000);
        let compressed = stored(body.clone());
        assert_eq!(compressed[0], TAG);
        assert!(compressed.len() < body.len() / 10);
        assert_eq!(read(&compressed).body(), &body);
        assert_eq!(compressed, stored(body), "the same twice is not the same");
    }

    #[test]
    fn a_small_or_incompressible_result_is_stored_as_it_is() {
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
    fn a_few_bytes_never_grow_over_the_limit_of_a_store() {
        let limits = Limits::DEFAULT.with_max_result_bytes(usize::MAX);
        let most = Limits::DEFAULT.max_result_bytes;
        let large = check::response(&Response::new(200, vec![7; most]), &limits).unwrap();
        assert_eq!(large[0], 1, "over the limit it is stored as it is");
        let plain = vec![1; 64 << 20];
        let length = u32::try_from(plain.len()).unwrap();
        let frame = zstd::bulk::compress(&plain, 1).unwrap();
        let bomb = [&[TAG][..], &length.to_be_bytes(), &frame].concat();
        let failure = zstd::bulk::compress(&[2; 100], 1).unwrap();
        let failure = [&[TAG, 0, 0, 0, 100][..], &failure].concat();
        for forged in [bomb, failure] {
            let error = StoredResult::decode(forged.into()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
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
mod compression {
    use bytes::Bytes;

    use crate::ErrorKind;
    use crate::backend::StoredResult;
    use crate::compressed::TAG;

    #[test]
    fn a_compressed_result_names_the_feature_that_reads_it() {
        let error = StoredResult::decode(Bytes::from_static(&[TAG, 0, 0, 0, 1, 0])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        assert!(error.to_string().contains("zstd"), "{error}");
    }
}
