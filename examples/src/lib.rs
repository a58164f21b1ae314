#![doc = include_str!("../README.md")]

pub mod chat;
pub mod effects;
pub mod jobs;
pub mod payments;
pub mod queue;
pub mod single_table;
pub mod storm;
pub mod webhook;

/// The example of the project's README, so that it compiles and runs with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct ProjectReadme;
