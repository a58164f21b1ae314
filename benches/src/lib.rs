#![doc = include_str!("../README.md")]

mod arena;
mod backend;
pub mod backends;
mod contender;
mod generators;
pub mod ids;
mod measured;
mod operations;
mod paths;
mod plan;
mod race;
mod rival;
mod row;
mod standings;

pub use arena::Arena;
pub use backend::{Backend, Baseline, Load, Rows, Share, Statements};
pub use contender::{Contender, Length, Round};
pub use paths::{Meter, PATHS, Scene, measure, visit};
pub use plan::Plan;
pub use row::{Report, Row};
pub use standings::{Figures, Ratio};
