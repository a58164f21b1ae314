//! The suite, and cases of this crate's own, against Redis, Valkey, and a Redis Cluster; and the
//! suite behind `Batched`.

mod cases;
mod support;

use std::process::ExitCode;

use idem_conformance::{Batched, Target};
use support::RedisHarness;

fn main() -> ExitCode {
    idem_conformance::main(vec![
        Target::new("redis", || async { RedisHarness::of("redis") }).with_cases(cases::ALL),
        Target::new("valkey", || async { RedisHarness::of("valkey") }).with_cases(cases::ALL),
        Target::new("redis-cluster", || async {
            RedisHarness::of("redis-cluster")
        })
        .with_cases(cases::ALL),
        Target::new("redis-one-lane", || async {
            RedisHarness::of("redis").map(Batched::new)
        }),
    ])
}
