//! Runs the suite, and this crate's own cases, against DuckDB; the suite behind `Batched` and
//! `Protected` too.
//!
//! Without the feature `_linked` nothing here names the crate, so nothing links DuckDB, and the
//! target is not run.

#[cfg(feature = "_linked")]
mod cases;
#[cfg(feature = "_linked")]
mod support;

use std::process::ExitCode;

#[cfg(not(feature = "_linked"))]
use idem_conformance::Missing;
use idem_conformance::Target;
#[cfg(not(feature = "_linked"))]
use idem_conformance::mutants::MutantHarness;

fn main() -> ExitCode {
    #[cfg(feature = "_linked")]
    if let Some(code) = cases::as_child() {
        return code;
    }
    idem_conformance::main(targets())
}

#[cfg(feature = "_linked")]
fn targets() -> Vec<Target> {
    use idem_conformance::{Batched, Protected};
    use support::{DuckDb, target};

    vec![
        Target::new("duckdb", async || Ok(target("duckdb", DuckDb))).with_cases(cases::ALL),
        Target::new("duckdb-one-lane", async || {
            Ok(Batched::new(target("duckdb", DuckDb)))
        })
        .derived(),
        Target::new("duckdb-protected", async || {
            Ok(Protected::new(target("duckdb", DuckDb)))
        })
        .derived(),
    ]
}

#[cfg(not(feature = "_linked"))]
fn targets() -> Vec<Target> {
    vec![Target::new("duckdb", async || {
        Err::<MutantHarness, _>(missing())
    })]
}

/// Returns why there is no library: what `cargo xtask test` has found, or what to do.
#[cfg(not(feature = "_linked"))]
fn missing() -> Missing {
    let advice = "built without the feature `_linked`; `cargo xtask test --backend duckdb` fetches DuckDB's library";
    let reason = std::env::var("IDEM_DUCKDB_MISSING").unwrap_or_else(|_| advice.to_owned());
    Missing::new(reason)
}
