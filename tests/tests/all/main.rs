//! The suite's own tests that need no program of their own.

mod draw;
mod gaps;
mod oracle;
mod readme;
mod search;
mod suite;
mod support;
