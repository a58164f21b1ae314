#![doc = include_str!("../README.md")]

mod backend;
mod bare;
mod contender;
pub mod generators;

pub use backend::{Backend, backends};
pub use bare::Bare;
pub use contender::{Contender, Round};
