//! `prove ci`.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use idem_core::BoxError;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use tokio::runtime::Runtime;

use super::cell::{self, CellArguments};
use super::model::{Model, explore};
use crate::cells::{self, CellSpec, Need};
use crate::model::{Configuration, configurations};
use crate::report::{self, ReportArguments};
use crate::{campaign, fixtures, regress};

/// The arguments of `prove ci`.
#[derive(Debug, Args)]
pub struct CiArguments {
    /// The seed of the draws. Default: the beginning of the commit's hash
    #[arg(long)]
    seed: Option<u64>,
}

/// The cells that are drawn, one after another, until the fault of one takes place.
const DRAWS: u64 = 3;

/// Judges the kept histories, reads the patches, sees that the report is up to date, and runs
/// a drawn model and a drawn cell; another cell, where the fault of one did not take place.
/// Returns the worst exit status.
///
/// # Errors
///
/// Those of the files and of `git`.
pub fn run(arguments: &CiArguments, runtime: &Runtime) -> Result<ExitCode, BoxError> {
    let root = std::env::current_dir()?;
    let seed = match arguments.seed {
        Some(seed) => seed,
        None => of_commit(&root)?,
    };
    let (_, model) = drawn(seed)?;
    println!("the model {model}, drawn with --seed {seed}");
    let fixtures = ("kept histories", fixtures::run()?);
    println!("{} patches", regress::count(&root)?);
    let report = report::run(&ReportArguments { check: true })?;
    let model = ("model", explore(&Model::named(model))?);
    let mut status = ExitCode::SUCCESS;
    for seed in (0..DRAWS).map(|draw| seed.wrapping_add(draw)) {
        let (cell, _) = drawn(seed)?;
        println!("the cell {cell}, drawn with --seed {seed}");
        provide(&cell);
        status = runtime.block_on(cell::run(&CellArguments::of(cell, seed)))?;
        // Not proven: nothing was judged, so another cell is.
        if status != ExitCode::from(2) {
            break;
        }
    }
    let cell = ("cell", status);
    Ok(worst(&[fixtures, ("report", report), model, cell]))
}

/// Returns the seed of the commit: the same for everybody, and another one with the next commit.
fn of_commit(root: &Path) -> Result<u64, BoxError> {
    let commit = campaign::git(root, &["rev-parse", "HEAD"])?;
    let first = commit.get(..16).ok_or("a hash of a commit is longer")?;
    Ok(u64::from_str_radix(first, 16)?)
}

/// Draws a cell and a model, by their names.
fn drawn(seed: u64) -> Result<(String, &'static str), BoxError> {
    let mut random = StdRng::seed_from_u64(seed);
    let cells: Vec<CellSpec> = cells::all();
    let cells: Vec<&CellSpec> = cells.iter().filter(|cell| cell.is_short()).collect();
    let cell = cells.choose(&mut random).ok_or("there is no cell")?;
    let models: Vec<Configuration> = configurations();
    let models: Vec<_> = models.iter().filter(|model| model.is_small()).collect();
    let model = models.choose(&mut random).ok_or("there is no model")?;
    Ok((cell.name.to_owned(), model.name()))
}

/// Installs the servers of a cell. Without them it is not run, and says why.
fn provide(name: &str) {
    let cells = cells::all();
    let needs = cells.iter().filter(|cell| cell.name == name);
    for need in needs.flat_map(CellSpec::needs) {
        let Need::Server(name) = need else { continue };
        let provided = idem_servers::server(name)
            .and_then(|server| server.provide(|message| println!("    {message}")));
        if let Err(error) = provided {
            println!("    {name} cannot be installed: {error}");
        }
    }
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
    use std::collections::BTreeSet;

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

    #[test]
    fn a_draw_is_that_of_its_seed_and_other_seeds_draw_others() {
        assert_eq!(drawn(7).unwrap(), drawn(7).unwrap());
        let cells: BTreeSet<String> = (0..1_000).map(|seed| drawn(seed).unwrap().0).collect();
        let all = cells::all();
        let short = all.iter().filter(|cell| cell.is_short());
        assert_eq!(cells.len(), short.count(), "{cells:?}");
    }
}
