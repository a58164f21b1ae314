#![doc = include_str!("../README.md")]

mod connections;
mod lent;
mod opener;

pub use connections::Connections;
pub use lent::Lent;
