//! The suite, and cases of this crate's own, against Redis, Valkey, and a Redis Cluster; and the
//! suite behind `Batched` and `Protected`.

mod cases;
mod support;

use std::process::ExitCode;

use idem_conformance::{Batched, Protected, Target};
use support::target;

fn main() -> ExitCode {
    let plain = |name| {
        let target = Target::new(name, move || async move { target(name) });
        target.with_cases(cases::ALL)
    };
    idem_conformance::main(vec![
        plain("redis"),
        plain("valkey"),
        plain("redis-cluster"),
        Target::new("redis-one-lane", async || target("redis").map(Batched::new)).derived(),
        Target::new("redis-protected", async || {
            target("redis").map(Protected::new)
        })
        .derived(),
    ])
}
