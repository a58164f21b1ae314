//! Campaigns: cells in a drawn order, each judged before the next begins, and the ledger of what
//! they showed.

mod code;
mod ledger;
mod plan;
mod row;
mod run;
mod tally;

use crate::history::History;
use crate::judge::{Judgement, judge};
use crate::search::Bounds;

pub(crate) use code::git;
pub use code::{code_of, commit};
pub use ledger::{Entry, Ledger};
pub use plan::{Piece, Plan};
pub use row::{Counts, Row};
pub use run::{CampaignArguments, run};
pub use tally::Tally;

/// How many configurations of a key are searched where the usual number does not do.
const MOST: usize = 200_000;

/// Judges a history; with more patience where the search gives a key up.
fn judged(history: &History) -> Judgement {
    let judgement = judge(history, Bounds::default());
    if judgement.undecided.is_empty() {
        return judgement;
    }
    let bounds = Bounds {
        configurations: MOST,
        ..Bounds::default()
    };
    judge(history, bounds)
}
