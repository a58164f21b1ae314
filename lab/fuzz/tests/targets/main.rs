//! Fuzz targets. As ordinary tests they replay their corpus, their past crashes and some random
//! inputs; `cargo xtask prove fuzz` lets coverage guide them.

/// Passes the committed inputs of a target to its property, and then those of the engine.
macro_rules! check {
    ($target:literal, $property:expr) => {
        check!($target, crate::RANDOM, $property)
    };
    ($target:literal, $random:expr, $property:expr) => {{
        let mut property = $property;
        idem_fuzz::corpus::replay($target, &mut property);
        bolero::check!().with_iterations($random).for_each(property);
    }};
}

mod documents;
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
