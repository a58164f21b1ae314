//! The storm, and what the programs of `idem-examples` share with it.

pub mod effects;
pub mod report;
pub mod storm;
