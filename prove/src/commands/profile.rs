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
    let steps = [
        explore(&Model::all(true))?,
        runtime.block_on(campaign::run(&CampaignArguments::of(Profile::Ci)))?,
        report::run(&ReportArguments { check: true })?,
    ];
    Ok(first_failure(&steps))
}

/// Runs all models, drawn cells of each product, drawn patches, traces and fuzzing. Returns the worst
/// exit status.
///
/// # Errors
///
/// Those of the files, of `git`, and of servers that do not start.
pub fn nightly(runtime: &Runtime) -> Result<ExitCode, BoxError> {
    let mut steps = vec![
        explore(&Model::all(false))?,
        runtime.block_on(campaign::run(&CampaignArguments::of(Profile::Nightly)))?,
        regress::run(&RegressArguments::sample(PATCHES))?,
    ];
    let whether = |succeeds| match succeeds {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    };
    for store in TRACED {
        steps.push(whether(trace::run(&trace::Orders::of(store))?));
    }
    let fuzzed = fuzz::run(&fuzz::Orders::default())?;
    steps.push(whether(fuzzed));
    Ok(first_failure(&steps))
}

fn first_failure(steps: &[ExitCode]) -> ExitCode {
    let failure = steps.iter().find(|step| **step != ExitCode::SUCCESS);
    failure.copied().unwrap_or(ExitCode::SUCCESS)
}
