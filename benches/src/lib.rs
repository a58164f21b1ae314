#![doc = include_str!("../README.md")]

mod backend;
mod bare;

pub use backend::{Backend, backends};
pub use bare::Bare;
