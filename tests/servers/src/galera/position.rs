use std::fs;

use super::mariadbd;
use crate::error::Doing;
use crate::{Error, Result, Site};

const MARK: &str = "WSREP: Recovered position: ";

/// How far the data of a stopped node goes. A node that was killed has it in InnoDB only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    /// As the server takes it: identifier of the cluster's history, colon, number of the last write.
    pub(crate) text: String,
    /// Number of the last write; -1 of a node without data.
    pub(crate) write: i64,
}

impl Position {
    /// Has the server of a stopped node look for it, which takes a second.
    pub(crate) fn recover(site: &Site<'_>) -> Result<Self> {
        let mut command = mariadbd(site);
        let output = command
            .arg("--wsrep-recover")
            .output()
            .doing(|| format!("cannot run {}", command.get_program().display()))?;
        let said = String::from_utf8_lossy(&output.stderr);
        Self::told_in(&said).ok_or_else(|| {
            let said = crate::folder::tail(&said);
            Error::failed(format!("a node does not say how far its data goes:{said}"))
        })
    }

    fn told_in(log: &str) -> Option<Self> {
        let place = log.rfind(MARK)?;
        let text = log[place + MARK.len()..].split_whitespace().next()?;
        // MariaDB's own transaction number may follow after a comma.
        let (_, write) = text.split(',').next()?.rsplit_once(':')?;
        Some(Self {
            text: text.into(),
            write: write.parse().ok()?,
        })
    }

    /// Lets the node start the cluster anew, although it was not the last to leave as far as it knows; and lets it
    /// forget whom it was with, or it would wait for them.
    pub(crate) fn allow_start(site: &Site<'_>) -> Result<()> {
        let _ = fs::remove_file(site.path("data/gvwstate.dat"));
        let name = "data/grastate.dat";
        let known = fs::read_to_string(site.path(name)).unwrap_or_default();
        site.write(
            name,
            &known.replace("safe_to_bootstrap: 0", "safe_to_bootstrap: 1"),
        )
        .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::Position;

    const CLUSTER: &str = "01cc980c-e5ea-11f1-b2f4-5bc8adfe3539";

    #[test]
    fn the_position_is_read_from_what_the_server_says() {
        let log = format!(
            "[Note] InnoDB: started\n2026-11-21 [Note] WSREP: Recovered position: {CLUSTER}:42\n"
        );
        let position = Position::told_in(&log).unwrap();
        assert_eq!(position.write, 42);
        assert_eq!(position.text, format!("{CLUSTER}:42"));
    }

    #[test]
    fn a_transaction_number_behind_it_is_kept_for_the_server() {
        let log = format!("WSREP: Recovered position: {CLUSTER}:7,0-1-9");
        let position = Position::told_in(&log).unwrap();
        assert_eq!(position.write, 7);
        assert!(position.text.ends_with(":7,0-1-9"), "{}", position.text);
    }

    #[test]
    fn a_server_that_says_nothing_has_no_position() {
        assert_eq!(Position::told_in("[ERROR] disk on fire"), None);
    }
}
