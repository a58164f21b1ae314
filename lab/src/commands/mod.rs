//! The parts of `prove` that have a module of their own.

pub mod cell;
pub mod ci;
pub mod judge;
pub mod model;
pub mod replay;
