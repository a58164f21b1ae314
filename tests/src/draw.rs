//! [`drawn`]: which expensive cases of a row a run draws.

use crate::suite::hash;

/// The expensive cases of a row are in so many slices, of which a seed draws one.
const SLICES: u64 = 4;

/// Returns whether this seed draws an expensive case of this row.
///
/// The slice of a case depends on the names only, and the seed modulo the number of slices names
/// the slice. So each case is drawn by every fourth seed: four seeds in a row draw all cases, and
/// a random seed draws each with the same chance.
#[must_use]
pub fn drawn(seed: u64, row: &str, case: &str) -> bool {
    let hash = hash(&format!("{row}::{case}"));
    // The lowest bits of FNV-1a depend on the lowest bits of the bytes alone.
    (hash ^ (hash >> 32)) % SLICES == seed % SLICES
}
