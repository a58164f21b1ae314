//! [`Delivery`]: how a request got its answer.

use crate::{Answer, IssuedKey};

/// How a request got its answer; in the extensions of each response to a request with a key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delivery {
    /// Whether the answer is a replay.
    pub answer: Answer,
    /// The key of the request.
    pub key: IssuedKey,
    /// How often this call sent the request.
    pub tries: u32,
    /// Why the answer is one that would have been tried again; `None` when it is final.
    pub gave_up: Option<GaveUp>,
}

/// Why a call ended with an answer that would have been tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GaveUp {
    /// It has used all of its tries.
    Tries,
    /// The next try would begin after the deadline.
    Deadline,
    /// The budget that the client's requests share is used up.
    Budget,
    /// The server may have forgotten the first request by the time of the next try.
    Expired,
}

impl GaveUp {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Tries => "the request was sent as often as allowed, without an answer",
            Self::Deadline => "the request had no answer before its deadline",
            Self::Budget => "the request had no answer, and the retry budget is used up",
            Self::Expired => {
                "the request had no answer, and the server may forget the key before another try"
            }
        }
    }
}
