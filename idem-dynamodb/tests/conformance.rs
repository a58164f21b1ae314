//! The suite, and this crate's own cases, against DynamoDB or an imitation of it; and the suite
//! behind `Protected`.

mod cases;
mod support;

use std::process::ExitCode;

use idem_conformance::{Protected, Target};

fn main() -> ExitCode {
    idem_conformance::main(vec![
        Target::new("dynamodb", async || support::target()).with_cases(cases::ALL),
        Target::new("dynamodb-protected", async || {
            support::target().map(Protected::new)
        })
        .derived(),
    ])
}
