//! Products under faults: how a cell starts the store that it disturbs.

mod hybrid;
mod running;
mod sqlite;

pub use hybrid::Hybrid;
pub(crate) use running::{Running, Setup, port_of};
pub use sqlite::SqliteNormal;
