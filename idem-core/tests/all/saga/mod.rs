//! Sagas: every step once, whenever a process is killed.

mod ends;
mod killed;
mod support;
