//! The part that stores on sqlx share.

mod connections;
mod error;
mod guard;
mod opener;
mod row;

pub use connections::Connections;
pub use error::driver_meaning;
pub use guard::{CloseUnlessDone, ConnectionGuard};
pub use opener::{Opener, Ready};
pub use row::{HeldRow, SqlxRow, answer};
