//! [`drawn`]: which expensive cases of a row a run draws.

use crate::suite::hash;

/// Returns whether this seed draws an expensive case of this row.
///
/// A case is drawn by the even seeds or by the odd ones, as the names say. So two seeds in a row draw
/// all cases, and ten random ones do in all but one of 500 times.
#[must_use]
pub fn drawn(seed: u64, row: &str, case: &str) -> bool {
    let hash = hash(&format!("{row}::{case}"));
    // The lowest bits of FNV-1a depend on the lowest bits of the bytes alone.
    (hash ^ (hash >> 32)) % 2 == seed % 2
}
