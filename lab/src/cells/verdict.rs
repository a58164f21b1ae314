//! What a cell has shown.

use std::error::Error;
use std::fmt;

use super::{CellSpec, Expects, Ran};
use crate::history::ReadError;
use crate::judge::Judgement;

/// What a cell has shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// What it expects.
    Accepted,
    /// A law was broken, or something lost that must hold.
    Refused(String),
    /// Nothing.
    NotProven(String),
}

impl Proof {
    /// Returns what it shows that a cell ended with this error: nothing, unless no clock explains
    /// the instants that the store told. Law 9 is broken then, or somebody has set the clock of this
    /// machine meanwhile.
    #[must_use]
    pub fn of_error(error: &(dyn Error + 'static)) -> Self {
        match error.downcast_ref() {
            Some(ReadError::Clocks(_)) => Self::Refused(error.to_string()),
            _ => Self::NotProven(error.to_string()),
        }
    }

    /// Returns the exit status: 0, 1 or 2.
    #[must_use]
    pub fn status(&self) -> u8 {
        match self {
            Self::Accepted => 0,
            Self::Refused(_) => 1,
            Self::NotProven(_) => 2,
        }
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted => f.write_str("accepted"),
            Self::Refused(why) => write!(f, "refused: {why}"),
            Self::NotProven(why) => write!(f, "not proven: {why}"),
        }
    }
}

/// Returns what the faults and the judgement of a cell's history show.
#[must_use]
pub fn verdict(cell: &CellSpec, ran: &Ran, judgement: &Judgement) -> Proof {
    if !judgement.refused.is_empty() {
        return Proof::Refused("no order of the calls explains the answers".to_owned());
    }
    if let Some(first) = ran.torn.first() {
        let count = ran.torn.len();
        return Proof::Refused(format!(
            "{count} rows and results are not together: {first}"
        ));
    }
    if !judgement.undecided.is_empty() {
        let count = judgement.undecided.len();
        return Proof::NotProven(format!("the search gave {count} keys up"));
    }
    if !ran.faults.iter().any(|fault| fault.outcome.is_installed()) {
        return Proof::NotProven("no fault took place".to_owned());
    }
    match (cell.expects, judgement.losses, &ran.gone) {
        (Expects::Hold, 0, None) | (Expects::TakeBack, _, None) | (Expects::Loss, _, Some(_)) => {
            Proof::Accepted
        }
        (Expects::Hold | Expects::TakeBack, _, Some(why)) => {
            Proof::NotProven(format!("the store is gone: {why}"))
        }
        (Expects::Hold, lost, None) => Proof::Refused(format!("{lost} losses")),
        (Expects::Loss, 0, None) => Proof::NotProven("nemesis too weak: nothing lost".to_owned()),
        (Expects::Loss, _, None) => Proof::Accepted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_that_no_clock_explains_are_refused() {
        let clocks = ReadError::Clocks("call 2 was told 3".to_owned());
        assert_eq!(Proof::of_error(&clocks).status(), 1);
        let harness = std::io::Error::other("no sandbox");
        assert_eq!(Proof::of_error(&harness).status(), 2);
    }
}
