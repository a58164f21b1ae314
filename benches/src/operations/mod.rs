//! What is measured: each once for the store and once by hand.

mod bare;
mod crowd;
mod store;

pub use bare::{BareInsert, BareLife, BareSelect, BareStart, Connections};
pub use crowd::{ClaimReplay, Crowd};
pub use store::{ClaimComplete, ClaimFresh, ColdStart, Replay};
