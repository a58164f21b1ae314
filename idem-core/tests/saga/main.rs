//! Sagas: every step once, whatever is killed when.

mod ends;
mod killed;
mod support;
