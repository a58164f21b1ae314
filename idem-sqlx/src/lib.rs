#![doc = include_str!("../README.md")]

mod connections;
mod guard;
mod opener;

pub use connections::Connections;
pub use guard::ConnectionGuard;
