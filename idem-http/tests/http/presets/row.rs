//! [`Expected`]: one question of the conformance table, and its answer.

/// What the server does with the last request of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Does {
    Runs,
    Replays,
    Refuses,
}

/// A question to a server behind a preset, and the answer.
pub(super) struct Expected {
    pub(super) row: &'static str,
    /// The key of the row `Malformed`.
    pub(super) key: &'static str,
    pub(super) status: u16,
    pub(super) does: Does,
    /// Texts that the answer contains; those after `!` it does not.
    pub(super) texts: Vec<&'static str>,
}

impl Expected {
    /// Reads the lines of a table: row, status, what the server does, texts.
    pub(super) fn read(table: &'static str) -> Vec<Self> {
        let lines = table.lines().map(str::trim_start);
        let lines = lines.filter(|line| !line.is_empty());
        lines
            .map(|line| {
                let mut columns = line.split(" | ");
                let mut next = || columns.next().unwrap();
                let row = next();
                let (row, key) = row.split_once(": ").unwrap_or((row, ""));
                let status = next().parse().unwrap();
                let does = match next() {
                    "Runs" => Does::Runs,
                    "Replays" => Does::Replays,
                    "Refuses" => Does::Refuses,
                    other => panic!("{line}: {other}"),
                };
                let texts = columns.collect();
                Self {
                    row,
                    key,
                    status,
                    does,
                    texts,
                }
            })
            .collect()
    }

    pub(super) fn title(&self) -> &'static str {
        match self.row {
            "Missing" => "no key",
            "Malformed" => "a malformed key",
            "First" => "the first request",
            "Replay" => "its repetition",
            "Rewritten" => "the same JSON value, written in another way",
            "WithNull" => "a member that is null instead of absent",
            "OtherContext" => "other members that do not count",
            "OtherBody" => "another body with the key",
            "Elsewhere" => "the key on another path, tool or resource",
            "OtherAccount" => "the key of another account",
            "InFlight" => "a repetition while the first request runs",
            "InFlightOther" => "another body while the first request runs",
            "Rejected" => {
                "the repetition of a request that was rejected (4xx, or an error of the call)"
            }
            "Limited" => "the repetition of a request that was answered with 429",
            "Broken" => "the repetition of a request that was answered with 500",
            "Business" => "the repetition of a request whose 200 reports an error",
            "Transient" => "the repetition of a request whose answer says `transient-error`",
            "Expired" => "a repetition after the answer's time",
            "OldFirstSent" => "a request that was first sent before the window",
            "NoFirstSent" => "a key without the time of the first attempt",
            "StoreDown" => "the store is unreachable",
            "Get" => "a key with GET",
            "NewId" => "a repetition with another JSON-RPC id",
            "Batch" => "a batch",
            "SignedWithOther" => "a signed request whose header has another key",
            "Unsupported" => "a key on a route that does not support keys",
            row => panic!("no row: {row}"),
        }
    }
}
