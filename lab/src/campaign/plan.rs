//! [`Plan`]: the pieces of a campaign, in a drawn order.

use std::path::Path;
use std::time::Duration;

use idem_core::BoxError;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::cells::{self, CellSpec, Expects, Segment};

/// A cell, and how much of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// The name of the cell.
    pub cell: String,
    /// The seed of its traffic and faults.
    pub seed: u64,
    /// How long faults are injected, in seconds.
    pub seconds: u64,
    /// How many faults have to take place, however long they take.
    #[serde(default)]
    pub faults: u64,
    /// The callers on fresh keys in each process.
    pub fresh: u64,
}

impl Piece {
    /// Returns how much of the cell to run.
    #[must_use]
    pub fn segment(&self) -> Segment {
        Segment {
            seed: self.seed,
            time: Duration::from_secs(self.seconds),
            faults: self.faults,
            workers: 3,
            callers: 3,
            fresh: self.fresh,
        }
    }
}

/// The pieces of a campaign.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The seed of the order and of all other seeds.
    pub seed: u64,
    /// The commit that it is about: another one may not go on with it.
    pub commit: String,
    /// The pieces.
    pub pieces: Vec<Piece>,
}

impl Plan {
    /// Draws the pieces: every cell for 20 seconds and for 50 faults, and traffic at scale. `only`
    /// keeps the cells whose names contain it.
    #[must_use]
    pub fn draw(seed: u64, commit: String, only: &str) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let mut pieces: Vec<Piece> = Vec::new();
        for cell in &cells::all() {
            if !cell.name.contains(only) {
                continue;
            }
            pieces.push(piece(cell, &mut random, 20, 4));
            // In parts, for a budget ends between pieces.
            pieces.extend((0..5).map(|_| ten_faults(cell, &mut random)));
            let fresh = callers_at_scale(cell);
            if fresh > 0 && cell.name.ends_with("/worker-kill") {
                pieces.extend((0..10).map(|_| piece(cell, &mut random, 20, fresh)));
            }
        }
        pieces.shuffle(&mut random);
        Self {
            seed,
            commit,
            pieces,
        }
    }

    /// Reads the plan of a folder; `None` where there is none.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn read(folder: &Path) -> Result<Option<Self>, BoxError> {
        let file = folder.join("plan.json");
        match std::fs::read(&file) {
            Ok(text) => Ok(Some(
                serde_json::from_slice(&text)
                    .map_err(|error| format!("{}: {error}", file.display()))?,
            )),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("{}: {error}", file.display()).into()),
        }
    }
}

/// Returns how many callers on fresh keys a process has at scale. Where calls share a statement, or a
/// forced write serves everybody who waits, more callers are more traffic, and a kill leaves more
/// calls without an answer.
fn callers_at_scale(cell: &CellSpec) -> u64 {
    match cell.product {
        SLOWER_WITH_EACH_KEY => 0,
        "SQLite" => 64,
        _ => 256,
    }
}

/// The product whose server here takes longer for each call the more records it has: callers on
/// fresh keys would bring it to a stand.
const SLOWER_WITH_EACH_KEY: &str = "MongoDB-compatible";

/// Returns a piece of ten faults. It takes time, and callers on fresh keys, to see that something is
/// lost.
fn ten_faults(cell: &CellSpec, random: &mut StdRng) -> Piece {
    let (seconds, fresh) = match cell.expects {
        Expects::Loss => (20, 4),
        Expects::Hold | Expects::TakeBack => (0, 0),
    };
    Piece {
        faults: 10,
        ..piece(cell, random, seconds, fresh)
    }
}

fn piece(cell: &CellSpec, random: &mut StdRng, seconds: u64, fresh: u64) -> Piece {
    let fresh = if cell.product == SLOWER_WITH_EACH_KEY {
        0
    } else {
        fresh
    };
    Piece {
        cell: cell.name.to_owned(),
        seed: random.random(),
        seconds,
        faults: 0,
        fresh,
    }
}
