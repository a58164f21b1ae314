//! [`Ids`]: keys as clients make them.

use std::sync::atomic::{AtomicU64, Ordering};

use idem_core::{ClaimRequest, Fingerprint, Key, Response};

/// Of which tenant all keys are.
pub(crate) const SCOPE: &str = "bench";
/// For which intent.
pub(crate) const OPERATION: &str = "payments.create";

/// Where the next series begins.
static SERIES: AtomicU64 = AtomicU64::new(0);

/// How many ids a series has at most.
const SERIES_BITS: u32 = 32;

/// A series of ids, none of which any other series of this process has: 32 hexadecimal digits in no order, as clients make
/// them, so that no index is filled at its end only.
#[derive(Debug, Clone)]
pub(crate) struct Ids {
    next: u64,
}

impl Ids {
    /// A new series.
    pub(crate) fn series() -> Self {
        Self {
            next: SERIES.fetch_add(1, Ordering::Relaxed) << SERIES_BITS,
        }
    }

    /// The next id.
    pub(crate) fn next_id(&mut self) -> String {
        self.next += 1;
        id(self.next)
    }
}

/// One step of the generator SplitMix64, which maps no two numbers to the same.
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

fn id(number: u64) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let first = mixed(number);
    let bits = u128::from(first) << 64 | u128::from(mixed(first));
    (0..32)
        .rev()
        .map(|digit| char::from(DIGITS[(bits >> (4 * digit)) as usize & 15]))
        .collect()
}

/// A claim of the key with this id.
///
/// # Panics
///
/// If the id is no id.
pub(crate) fn request(id: &str) -> ClaimRequest {
    ClaimRequest::new(key(id), fingerprint())
}

/// The key with this id.
///
/// # Panics
///
/// If the id is no id.
pub(crate) fn key(id: &str) -> Key {
    Key::new(SCOPE, OPERATION, id).expect("a valid id")
}

/// Of the request that all claims are for.
pub(crate) fn fingerprint() -> Fingerprint {
    Fingerprint::raw("request")
}

/// The same key as text in one column, as long as ours in three.
pub(crate) fn text(id: &str) -> String {
    [SCOPE, OPERATION, id].concat()
}

/// What a payment's service might answer: about a hundred bytes.
pub(crate) fn response() -> Response {
    let body = r#"{"id":"ch_8f14e45fceea167a5a36dedd4bea2543","status":"succeeded","amount":1200,"currency":"EUR"}"#;
    Response::new(200, body)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_series_have_an_id_in_common() {
        let mut series = [Ids::series(), Ids::series()];
        let ids = series.iter_mut().flat_map(|ids| {
            let mut ids = ids.clone();
            (0..1000).map(move |_| ids.next_id())
        });
        let ids: HashSet<_> = ids.collect();
        assert_eq!(ids.len(), 2000);
        assert!(ids.iter().all(|id| id.len() == 32));
    }
}
