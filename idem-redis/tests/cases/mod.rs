//! Cases that only Redis has.

use idem_conformance::Case;

/// All of them.
pub(crate) const ALL: &[Case] = &[];
