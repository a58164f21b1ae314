//! [`Row`]: one question of the conformance table.

/// A question to a server behind a preset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Row {
    Missing,
    Malformed(&'static str),
    First,
    Replay,
    Rewritten,
    WithNull,
    OtherContext,
    OtherBody,
    Elsewhere,
    OtherAccount,
    InFlight,
    InFlightOther,
    Rejected,
    Limited,
    Broken,
    Business,
    Transient,
    Expired,
    OldFirstSent,
    NoFirstSent,
    StoreDown,
    Get,
    NewId,
    Batch,
    SignedWithOther,
    Unsupported,
}

/// What the server does with the last request of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Does {
    Runs,
    Replays,
    Refuses,
}

/// The answer to a row: the status, what the server does, and texts that the answer contains.
pub(super) struct Expected(
    pub(super) Row,
    pub(super) u16,
    pub(super) Does,
    pub(super) &'static [&'static str],
);

impl Row {
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Missing => "no key",
            Self::Malformed(_) => "a malformed key",
            Self::First => "the first request",
            Self::Replay => "its repetition",
            Self::Rewritten => "the same JSON value, written in another way",
            Self::WithNull => "a member that is null instead of absent",
            Self::OtherContext => "other members that do not count",
            Self::OtherBody => "another body with the key",
            Self::Elsewhere => "the key on another path, tool or resource",
            Self::OtherAccount => "the key of another account",
            Self::InFlight => "a repetition while the first request runs",
            Self::InFlightOther => "another body while the first request runs",
            Self::Rejected => {
                "the repetition of a request that was rejected (4xx, or an error of the call)"
            }
            Self::Limited => "the repetition of a request that was answered with 429",
            Self::Broken => "the repetition of a request that was answered with 500",
            Self::Business => "the repetition of a request whose 200 reports an error",
            Self::Transient => "the repetition of a request whose answer says `transient-error`",
            Self::Expired => "a repetition after the answer's time",
            Self::OldFirstSent => "a request that was first sent before the window",
            Self::NoFirstSent => "a key without the time of the first attempt",
            Self::StoreDown => "the store is unreachable",
            Self::Get => "a key with GET",
            Self::NewId => "a repetition with another JSON-RPC id",
            Self::Batch => "a batch",
            Self::SignedWithOther => "a signed request whose header has another key",
            Self::Unsupported => "a key on a route that does not support keys",
        }
    }
}
