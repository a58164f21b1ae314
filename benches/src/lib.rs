#![doc = include_str!("../README.md")]

mod arena;
mod backend;
pub mod backends;
mod contender;
pub mod ids;
mod measured;
mod operations;
mod paths;
mod pgbench;
mod rival;

pub use backend::{Backend, Baseline, Load, Pay, PayBox, Statements};
pub use contender::{Contender, Length, Plan, Round};
pub use idem_bench_rows::{Figures, Report, Row};
pub use paths::{Meter, PATHS, Scene, measure, visit};
