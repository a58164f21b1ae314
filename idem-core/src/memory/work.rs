//! Bounds the due work that one hold of a shard's lock does.

/// Bounds of one hold of the lock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    /// How many entries of a queue are checked.
    entries: u32,
    /// How many of them may be changed.
    changes: u32,
}

/// What one hold of the lock did for `delete_expired` or `fail_abandoned`.
#[derive(Debug)]
pub(super) struct Progress {
    pub(super) changed: u32,
    pub(super) more: bool,
}

impl Work {
    /// What a claim of a new key or the first mark of a source deletes in passing: more than the
    /// entries that one key makes in its life. So a store without calls of `delete_expired` does
    /// not grow for ever.
    pub(super) const IN_PASSING: Self = Self {
        entries: 8,
        changes: 2,
    };

    /// Returns the bounds of one hold for `delete_expired` or `fail_abandoned`, which may still
    /// change this many.
    pub(super) fn at_most(changes: u32) -> Self {
        Self {
            entries: 256,
            changes,
        }
    }

    /// Takes entry by entry. `step` returns `None` when there is no more, otherwise whether it
    /// changed something.
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
