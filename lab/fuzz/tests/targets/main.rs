//! Fuzz targets. As ordinary tests they replay their corpus, their past crashes and some random
//! inputs; `cargo xtask prove fuzz` lets coverage guide them.

mod histories;
mod hybrid;
mod keys;
mod operations;
mod policies;
mod stored;
mod urls;
mod webhooks;

/// The random inputs of each target in an ordinary run.
const RANDOM: usize = 1_000;
