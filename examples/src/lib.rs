#![doc = include_str!("../README.md")]

pub mod crew;
#[cfg(feature = "http")]
pub mod http;

/// The example of the project's README, so that it compiles and runs with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct ProjectReadme;
