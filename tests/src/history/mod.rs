//! Histories: what callers saw, as lines of JSON that survive the callers.
//!
//! One file per caller. Each call writes a line before it is sent and one after its answer, with
//! one `write` each to a file opened for appending, so a killed caller leaves at most a torn last
//! line. An invocation without an answer is a call whose outcome is unknown.

mod calls;
mod epochs;
pub mod hashed;
mod line;
mod read;
mod recorded;
mod write;

pub use calls::{Calls, ReadError, Seen};
pub use line::{Fault, Head, Invocation, Line, Outcome, Return, VERSION};
pub use read::History;
pub use recorded::{Recorded, name};
pub use write::{Recorder, monotonic};
