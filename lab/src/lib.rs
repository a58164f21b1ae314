//! Judges recorded histories of stores against the specification of one key. See the README beside.

pub mod campaign;
pub mod cell;
pub mod cells;
pub mod cluster;
pub mod commands;
pub mod fixtures;
pub mod flow;
pub mod fuzz;
pub mod model;
pub mod nemesis;
pub mod product;
pub mod regress;
pub mod replay;
pub mod report;
pub mod traffic;

pub use idem_conformance::{history, oracle as judge, search, shrink, spec};
