//! How much one hold of a shard's lock does about what has fallen due.

/// Bounds of one hold of the lock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    /// How many entries of a queue are looked at.
    entries: u32,
    /// How many of them may be changed.
    changes: u32,
}

/// What one hold of the lock did for a purge or sweep.
#[derive(Debug)]
pub(super) struct Progress {
    pub(super) changed: u32,
    pub(super) more: bool,
}

impl Work {
    /// What a claim of a new key or the first mark of a source clears away in passing, so that a
    /// store that nobody purges does not grow for ever: more than the entries that one key makes in
    /// its life.
    pub(super) const IN_PASSING: Self = Self {
        entries: 8,
        changes: 2,
    };

    /// One hold of the lock of a purge or sweep that may change so many more.
    pub(super) fn at_most(changes: u32) -> Self {
        Self {
            entries: 256,
            changes,
        }
    }

    /// Takes entry by entry: `None` when there is no more, otherwise whether something was changed.
    pub(super) fn through(self, mut step: impl FnMut() -> Option<bool>) -> Progress {
        let mut changed = 0;
        for _ in 0..self.entries {
            if changed == self.changes {
                break;
            }
            match step() {
                None => {
                    return Progress {
                        changed,
                        more: false,
                    };
                }
                Some(is_changed) => changed += u32::from(is_changed),
            }
        }
        Progress {
            changed,
            more: true,
        }
    }
}
