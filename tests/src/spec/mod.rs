//! The specification of one key: a pure function from a state and a call to every successor and its
//! answer.
//!
//! Search, models and tests share it. A *window* bounds the instant at which a call takes effect,
//! in microseconds of the store's clock. Nothing ticks by itself: a call whose window reaches the
//! end of a lease has both successors, and each narrows what is known of the time.

mod answer;
mod call;
mod state;
mod step;

pub use answer::{Answer, Pattern, unify};
pub use call::{Call, Op};
pub use state::{Body, Fly, KeyState, Sealed, Span, Tomb};
pub use step::step;

/// The seal of the failure that a store records for an abandoned claim.
pub const ABANDONED: u64 = u64::MAX;
