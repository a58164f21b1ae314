//! The suite, and this crate's own cases, against MongoDB or a compatible server; and the
//! suite behind `Protected`.

mod cases;
mod support;

use std::process::ExitCode;

use idem_conformance::{Protected, Target};

fn main() -> ExitCode {
    if let Some(migrated) = cases::migrate_as_child() {
        return match migrated {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}: {:?}", error.source());
                ExitCode::FAILURE
            }
        };
    }
    idem_conformance::main(vec![
        Target::new("mongo", async || support::target()).with_cases(cases::ALL),
        Target::new("mongo-protected", async || {
            support::target().map(Protected::new)
        })
        .derived(),
    ])
}
