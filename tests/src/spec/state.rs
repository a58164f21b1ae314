//! [`KeyState`]: what a store knows of a key.

/// The bounds of an instant or a token, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Span {
    /// The lower bound.
    pub lo: i64,
    /// The upper bound.
    pub hi: i64,
}

/// A key, as a store that keeps the laws may have it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyState {
    /// No later acquisition gets a token up to this one.
    pub floor: i64,
    /// The earliest instant at which the latest call took effect.
    pub clock: i64,
    /// The record.
    pub body: Body,
}

/// The record of a key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Body {
    /// There is none.
    Absent,
    /// A claim without a result.
    Fly(Fly),
    /// A result or a failure.
    Sealed(Sealed),
    /// A released claim.
    Tomb(Tomb),
}

/// A claim without a result.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Fly {
    /// Its token; unknown until an answer names it.
    pub token: Span,
    /// Its attempt.
    pub attempt: u64,
    /// The request's fingerprint.
    pub fingerprint: u64,
    /// Whether its stale claim may be taken over.
    pub takeover: bool,
    /// When its lease ends.
    pub lease: Span,
    /// How long the record is kept after that, in microseconds.
    pub kept: i64,
    /// How often the key was acquired since it was fresh.
    pub acquisitions: u32,
    /// The hash of its checkpoint; 0 without one.
    pub checkpoint: u64,
}

/// A result or a failure.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sealed {
    /// Whether it is a failure.
    pub is_failure: bool,
    /// Its token.
    pub token: Span,
    /// The attempt that sealed it; `None` when its claim was abandoned.
    pub attempt: Option<u64>,
    /// The request's fingerprint.
    pub fingerprint: u64,
    /// The hash of the result.
    pub seal: u64,
    /// When its retention ends.
    pub expires: Span,
    /// How often the key was acquired since it was fresh.
    pub acquisitions: u32,
}

/// A released claim.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Tomb {
    /// Its token.
    pub token: Span,
    /// Its attempt.
    pub attempt: u64,
}

impl Span {
    /// Creates the bounds of what is known exactly.
    #[must_use]
    pub const fn at(value: i64) -> Self {
        Self {
            lo: value,
            hi: value,
        }
    }

    /// Returns whether it contains the value.
    #[must_use]
    pub const fn contains(self, value: i64) -> bool {
        self.lo <= value && value <= self.hi
    }

    /// Returns the bounds later by this much.
    #[must_use]
    pub const fn after(self, by: i64) -> Self {
        Self {
            lo: self.lo.saturating_add(by),
            hi: self.hi.saturating_add(by),
        }
    }

    /// Returns the bounds of the later of two instants.
    #[must_use]
    pub fn later_of(self, other: Self) -> Self {
        Self {
            lo: self.lo.max(other.lo),
            hi: self.hi.max(other.hi),
        }
    }

    /// Returns what both allow; `None` when that is nothing.
    #[must_use]
    pub fn both(self, other: Self) -> Option<Self> {
        let (lo, hi) = (self.lo.max(other.lo), self.hi.min(other.hi));
        (lo <= hi).then_some(Self { lo, hi })
    }

    /// Returns the part from this instant on.
    #[must_use]
    pub fn from(self, start: i64) -> Option<Self> {
        self.both(Self {
            lo: start,
            hi: i64::MAX,
        })
    }

    /// Returns the part before this instant.
    #[must_use]
    pub fn before(self, end: i64) -> Option<Self> {
        self.both(Self {
            lo: i64::MIN,
            hi: end.saturating_sub(1),
        })
    }
}

impl KeyState {
    /// Creates a key that was never claimed.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            floor: 0,
            clock: i64::MIN,
            body: Body::Absent,
        }
    }

    /// Returns the key after everything since an earlier record was lost. Tokens still grow, because
    /// the store's clock goes on.
    #[must_use]
    pub fn lost(&self, earlier: &Body) -> Self {
        Self {
            floor: self.floor,
            clock: self.clock,
            body: earlier.clone(),
        }
    }

    /// Returns the key, of which there is no record, as one that was never claimed.
    #[must_use]
    pub(crate) fn forgotten(&self) -> Option<Self> {
        let is_absent = self.body == Body::Absent && self.floor > 0;
        is_absent.then_some(Self {
            clock: self.clock,
            ..Self::new()
        })
    }

    pub(super) fn with(&self, now: Span, body: Body) -> Self {
        Self {
            floor: self.floor,
            clock: now.lo,
            body,
        }
    }

    /// Returns the record's token.
    pub(super) fn token_mut(&mut self) -> Option<&mut Span> {
        match &mut self.body {
            Body::Absent => None,
            Body::Fly(fly) => Some(&mut fly.token),
            Body::Sealed(sealed) => Some(&mut sealed.token),
            Body::Tomb(tomb) => Some(&mut tomb.token),
        }
    }
}

impl Default for KeyState {
    fn default() -> Self {
        Self::new()
    }
}
