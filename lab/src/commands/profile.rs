//! `prove ci` and `prove nightly`.

use std::process::ExitCode;

use idem_core::BoxError;
use tokio::runtime::Runtime;

use super::model::{Model, explore};
use crate::campaign::{self, CampaignArguments, Profile};
use crate::regress::{self, RegressArguments};
use crate::report::{self, ReportArguments};
use crate::{fuzz, trace};

/// The patches of a night: each makes its crate and all that depend on it anew.
const PATCHES: usize = 5;

/// The stores whose logs are validated each night.
const TRACED: &[&str] = &["sqlite", "postgres", "redis", "valkey", "mariadb", "mysql"];

/// Runs what every change has to pass: the small models, a few cells, and the comparison of the
/// report. Returns the worst exit status.
///
/// # Errors
///
/// Those of the files and of `git`.
pub fn ci(runtime: &Runtime) -> Result<ExitCode, BoxError> {
    Ok(worst(&[
        ("models", explore(&Model::all(true))?),
        ("cells", cells(runtime, Profile::Ci)?),
        (
            "comparison of the report",
            report::run(&ReportArguments { check: true })?,
        ),
    ]))
}

/// Runs all models, drawn cells of each product, drawn patches, traces and fuzzing. Returns the worst
/// exit status.
///
/// # Errors
///
/// Those of the files, of `git`, and of servers that do not start.
pub fn nightly(runtime: &Runtime) -> Result<ExitCode, BoxError> {
    let mut steps = vec![
        ("models", explore(&Model::all(false))?),
        ("cells", cells(runtime, Profile::Nightly)?),
        ("patches", regress::run(&RegressArguments::sample(PATCHES))?),
    ];
    let whether = |succeeds| match succeeds {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    };
    for store in TRACED {
        steps.push(("traces", whether(trace::run(&trace::Orders::of(store))?)));
    }
    let fuzzed = fuzz::run(&fuzz::Orders::default())?;
    steps.push(("fuzzing", whether(fuzzed)));
    Ok(worst(&steps))
}

fn cells(runtime: &Runtime, profile: Profile) -> Result<ExitCode, BoxError> {
    runtime.block_on(campaign::run(&CampaignArguments::of(profile)))
}

/// Prints the steps that failed, whose own words may be far above. Returns the worst exit status: 1,
/// a law that is broken, is worse than 2, not proven.
fn worst(steps: &[(&str, ExitCode)]) -> ExitCode {
    let mut worst = ExitCode::SUCCESS;
    for (name, step) in steps {
        if *step != ExitCode::SUCCESS {
            println!("{name}: NOT ACCEPTED, see above");
            if worst != ExitCode::FAILURE {
                worst = *step;
            }
        }
    }
    worst
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_law_that_is_broken_is_worse_than_one_not_proven() {
        let (fine, not_proven) = (("a", ExitCode::SUCCESS), ("b", ExitCode::from(2)));
        let broken = ("c", ExitCode::FAILURE);
        assert_eq!(worst(&[fine, fine]), ExitCode::SUCCESS);
        assert_eq!(worst(&[fine, not_proven, fine]), ExitCode::from(2));
        assert_eq!(worst(&[not_proven, broken, fine]), ExitCode::FAILURE);
        assert_eq!(worst(&[broken, not_proven]), ExitCode::FAILURE);
    }
}
