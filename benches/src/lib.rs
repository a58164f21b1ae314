#![doc = include_str!("../README.md")]

pub mod backends;
mod bare;
mod contender;
mod counted;
mod extras;
mod filler;
pub mod generators;
mod ids;
mod measured;
mod operation;
pub mod operations;
mod paths;
mod plan;
mod race;
mod reasons;
mod rivals;
mod row;
mod standings;
mod subject;
mod targets;

pub use bare::{Bare, Share, Statements, Way};
pub use contender::{Contender, Round};
pub use counted::Counted;
pub use extras::Extras;
pub use filler::{Filler, Rows};
pub use ids::Ids;
pub use measured::Measured;
pub use operation::Operation;
pub use paths::{Contenders, Group, PATHS, groups, measure};
pub use plan::Plan;
pub use race::race;
pub use reasons::Reasons;
pub use row::{Bound, Report, Row};
pub use standings::{Figures, Ratio, Standings, median};
pub use subject::{Arena, Subject};
