//! Nemeses: what is done to stores and machines, and the proof that it took place.
//!
//! Everything that a cell starts lives in a sandbox: its own network, mounts
//! and processes, which the kernel removes together, whatever ends the cell.

pub(crate) mod calls;
pub(crate) mod clock;
pub(crate) mod disk;
pub mod doctor;
pub(crate) mod memory;
pub(crate) mod network;
pub(crate) mod sandbox;
pub(crate) mod shell;
pub(crate) mod sockets;
pub(crate) mod start;
