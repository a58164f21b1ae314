//! Runs a campaign, piece by piece.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use idem_core::BoxError;

use super::ledger::write_whole;
use super::{Counts, Ledger, Piece, Plan, Row, Tally, code, judged};
use crate::cells::{self, CellSpec};
use crate::history::Calls;
use crate::traffic;

/// The arguments of `prove campaign`.
#[derive(Debug, Args)]
pub struct CampaignArguments {
    /// The seed of the order and of every piece. Default: a random one, which is printed
    #[arg(long)]
    seed: Option<u64>,
    /// Only the cells whose names contain this
    #[arg(long, default_value = "", hide_default_value = true)]
    only: String,
    /// The folder of the plan, of each piece's row and of kept histories. A campaign that is in it
    /// goes on. Default: a temporary folder
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Starts no piece after this many minutes: the same command goes on later
    #[arg(long, value_name = "MINUTES")]
    budget: Option<u64>,
    /// The ledger to which the rows are added, once each
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
}

/// Runs a campaign. Returns 0 when every piece was accepted, 1 when one was refused, 2 when one
/// proved nothing or was left for later.
///
/// # Errors
///
/// Those of the files; a folder with a campaign of another commit.
pub async fn run(arguments: &CampaignArguments) -> Result<ExitCode, BoxError> {
    let root = std::env::current_dir()?;
    let commit = code::commit(&root)?;
    let temporary = tempfile::Builder::new().prefix("idem-prove-").tempdir()?;
    let folder = arguments.folder.clone();
    let folder = folder.unwrap_or_else(|| temporary.path().to_owned());
    let folder = folder.as_path();
    std::fs::create_dir_all(folder)?;
    let plan = match Plan::read(folder)? {
        Some(plan) if plan.commit == commit => plan,
        Some(plan) => {
            let other = plan.commit;
            return Err(format!(
                "{} holds a campaign of commit {other}, and this is {commit}: choose another folder",
                folder.display()
            )
            .into());
        }
        None => {
            let seed = arguments.seed.unwrap_or_else(traffic::seed);
            let plan = Plan::draw(seed, commit, &arguments.only);
            let text = serde_json::to_vec_pretty(&plan)?;
            write_whole(&folder.join("plan.json"), &text)?;
            plan
        }
    };
    let ends = arguments
        .budget
        .map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
    let mut campaign = Campaign {
        root: &root,
        folder,
        plan: &plan,
        ledger: arguments.ledger.as_deref(),
        rows: Vec::new(),
    };
    let mut left = 0;
    for (number, piece) in plan.pieces.iter().enumerate() {
        if ends.is_some_and(|ends| Instant::now() > ends) && !campaign.is_done(number) {
            left += 1;
            continue;
        }
        Box::pin(campaign.piece(number, piece)).await?;
    }
    let status = campaign.sum_up(left);
    if status != 0 {
        // The folder is evidence now.
        std::mem::forget(temporary);
        println!("kept: {}", folder.display());
    }
    Ok(ExitCode::from(status))
}

struct Campaign<'a> {
    root: &'a Path,
    folder: &'a Path,
    plan: &'a Plan,
    ledger: Option<&'a Path>,
    rows: Vec<Row>,
}

impl Campaign<'_> {
    fn file(&self, number: usize) -> PathBuf {
        self.folder.join(format!("{number:04}.json"))
    }

    fn is_done(&self, number: usize) -> bool {
        self.file(number).exists()
    }

    /// Runs a piece that has no row yet, and adds its row to the ledger.
    async fn piece(&mut self, number: usize, piece: &Piece) -> Result<(), BoxError> {
        let file = self.file(number);
        if file.exists() {
            let row = serde_json::from_slice(&std::fs::read(&file)?);
            let row = row.map_err(|error| format!("{}: {error}", file.display()))?;
            return self.keep(row);
        }
        let started = Instant::now();
        let histories = self.folder.join(format!("{number:04}"));
        if histories.exists() {
            // The campaign was killed in the middle of this piece.
            std::fs::remove_dir_all(&histories)?;
        }
        let all = cells::all();
        let cell = all.iter().find(|cell| cell.name == piece.cell);
        let cell = cell.ok_or_else(|| format!("there is no cell `{}`", piece.cell))?;
        let row = self.row(cell, piece, &histories).await?;
        println!(
            "{:>4}/{} {:32} {:>9} claims, {:>4} s: {}",
            number + 1,
            self.plan.pieces.len(),
            row.cell,
            row.tally.claims,
            started.elapsed().as_secs(),
            row.verdict
        );
        // Histories that need no explanation are not kept: their seed is.
        if row.status == 0 && row.losses == 0 && histories.exists() {
            std::fs::remove_dir_all(&histories)?;
        }
        write_whole(&file, &serde_json::to_vec_pretty(&row)?)?;
        self.keep(row)
    }

    /// Adds a row to the ledger, which may have it from before the campaign was killed.
    fn keep(&mut self, row: Row) -> Result<(), BoxError> {
        if let Some(file) = self.ledger {
            let mut ledger = Ledger::read(file)?;
            ledger.add(&row)?;
            ledger.write(file)?;
        }
        self.rows.push(row);
        Ok(())
    }

    async fn row(&self, cell: &CellSpec, piece: &Piece, histories: &Path) -> Result<Row, BoxError> {
        let mut row = Row {
            cell: piece.cell.clone(),
            seed: piece.seed,
            commit: self.plan.commit.clone(),
            code: code::code_of(self.root, cell.product)?,
            product: cell.product.to_owned(),
            settings: String::new(),
            tally: Tally::default(),
            undecided: 0,
            refused: 0,
            losses: 0,
            faults: std::collections::BTreeMap::new(),
            status: 2,
            verdict: String::new(),
        };
        if let Some(why) = cells::missing(cell) {
            row.verdict = format!("not run: {why}");
            return Ok(row);
        }
        let ran = match cells::run(cell, piece.segment(), histories).await {
            Ok(ran) => ran,
            Err(error) => {
                row.verdict = format!("not proven: {error}");
                return Ok(row);
            }
        };
        let calls = Calls::read(histories)?;
        let history = match calls.history() {
            Ok(history) => history,
            Err(error) => {
                row.verdict = format!("not proven: {error}");
                return Ok(row);
            }
        };
        let judgement = judged(&history);
        let proof = cells::verdict(cell, &ran, &judgement);
        row.tally = Tally::of(&calls);
        row.tally.rows = ran.rows;
        row.faults = Counts::of(&ran.faults);
        row.product = ran.product;
        row.settings = ran.settings;
        Ok(row.with(&proof, &judgement))
    }

    /// Prints the sum, and returns the exit status.
    fn sum_up(&self, left: usize) -> u8 {
        let mut tally = Tally::default();
        self.rows.iter().for_each(|row| tally.add(row.tally));
        let with = |status: u8| self.rows.iter().filter(|row| row.status == status).count();
        println!(
            "{} pieces: {} accepted, {} refused, {} not proven; {left} left; {} claims, {} calls on \
             {} keys",
            self.rows.len(),
            with(0),
            with(1),
            with(2),
            tally.claims,
            tally.calls,
            tally.keys,
        );
        match (with(1), with(2) + left) {
            (0, 0) if !self.rows.is_empty() => 0,
            (0, _) => 2,
            _ => 1,
        }
    }
}
