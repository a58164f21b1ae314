//! The part that stores on sqlx share.

mod connections;
mod error;
mod guard;
mod opener;
mod row;

pub use connections::Connections;
pub use error::{Meaning, driver_meaning, with_meaning};
pub use guard::{CloseUnlessDone, ConnectionGuard};
pub use opener::{Opener, Ready};
pub use row::{SqlxRow, answer};
