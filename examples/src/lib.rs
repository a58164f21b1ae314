#![doc = include_str!("../README.md")]

pub mod crew;
pub mod effects;
pub mod http;
pub mod report;
pub mod storm;

/// The example of the project's README, so that it compiles and runs with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct ProjectReadme;
