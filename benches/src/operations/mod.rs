//! What is measured: each once for the store and once by hand.

mod bare;
mod crowd;
mod engine;
mod store;

pub use bare::{BareInsert, BareLife, BareSelect, BareStart, Connections};
pub use crowd::{ClaimReplay, Crowd};
pub use engine::{Run, RunReplayed};
pub use store::{ClaimComplete, ClaimFresh, ColdStart, Replay};
