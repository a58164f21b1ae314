//! [`Epochs`]: how the store's clock relates to the machine's, between two steps of it.

use super::{ReadError, Return, Seen};
use crate::spec::{ABANDONED, Answer, Op, Span};

/// The difference between the two clocks may change by this much in a million.
const DRIFT_PPM: i64 = 200;

/// Longer than any clock is wrong, in microseconds: what is known without a told instant.
const UNKNOWN: Span = Span {
    lo: -1_000_000_000_000_000_000,
    hi: 1_000_000_000_000_000_000,
};

/// The times between recorded steps of the store's clock. Without a step there is one.
pub(super) struct Epochs {
    epochs: Vec<Epoch>,
    quantum: i64,
}

struct Epoch {
    /// Between which instants of the machine's clock it lies. Where steps took time, two overlap.
    time: Span,
    /// The bounds of the store's clock less the machine's.
    offset: Span,
}

impl Epochs {
    /// Each told instant lies between the call and its answer.
    pub(super) fn of(seen: &[Seen], quantum: i64) -> Result<Self, ReadError> {
        let steps = seen.iter().filter(|one| is_step(one));
        let steps = steps.map(|one| Span {
            lo: one.invocation.c0,
            hi: one.answer.as_ref().map_or(i64::MAX, |answer| answer.c1),
        });
        let mut steps: Vec<Span> = steps.collect();
        steps.sort_by_key(|step| step.lo);
        let begins = [i64::MIN]
            .into_iter()
            .chain(steps.iter().map(|step| step.lo));
        let ends = steps.iter().map(|step| step.hi).chain([i64::MAX]);
        let epochs = begins.zip(ends).map(|(lo, hi)| Epoch {
            time: Span { lo, hi },
            // Without a step and a told instant the two clocks may as well be the same.
            offset: if steps.is_empty() {
                Span::at(0)
            } else {
                UNKNOWN
            },
        });
        let mut epochs = Self {
            epochs: epochs.collect(),
            quantum,
        };
        for at in 0..epochs.epochs.len() {
            if let Some(offset) = epochs.offset(seen, at)? {
                epochs.epochs[at].offset = offset;
            }
        }
        Ok(epochs)
    }

    /// Returns what the told instants of an epoch say; `None` without any.
    fn offset(&self, seen: &[Seen], at: usize) -> Result<Option<Span>, ReadError> {
        let within: Vec<&Seen> = seen.iter().filter(|one| self.times(one).eq([at])).collect();
        let begins = within.iter().map(|one| one.invocation.c0);
        let ends = within.iter().filter_map(|one| one.answer.as_ref());
        let (first, last) = (begins.min(), ends.map(|answer| answer.c1).max());
        let lasts = last.unwrap_or(0).saturating_sub(first.unwrap_or(0));
        let drift = lasts.saturating_mul(DRIFT_PPM) / 1_000_000;
        let slack = self.quantum.saturating_add(drift);
        let mut offset: Option<Span> = None;
        for one in within {
            let Some((answer, now)) = one.answer.as_ref().and_then(|a| Some((a, told(a)?))) else {
                continue;
            };
            let told = Span {
                lo: now.saturating_sub(answer.c1).saturating_sub(slack),
                hi: now.saturating_sub(one.invocation.c0).saturating_add(slack),
            };
            let both = offset.map_or(Some(told), |offset| offset.both(told));
            offset = Some(both.ok_or_else(|| {
                ReadError::Clocks(format!("call {} was told {now}", one.invocation.id))
            })?);
        }
        Ok(offset)
    }

    /// Returns the epochs in which a call may have taken effect.
    fn times(&self, seen: &Seen) -> impl Iterator<Item = usize> {
        let answer = seen.answer.as_ref();
        let is_known = answer.is_some_and(|answer| answer.answer != Answer::Unknown);
        let call = Span {
            lo: seen.invocation.c0,
            hi: answer
                .filter(|_| is_known)
                .map_or(i64::MAX, |answer| answer.c1),
        };
        // A step belongs to the time before it.
        let last = match is_step(seen) {
            true => self
                .epochs
                .iter()
                .position(|epoch| epoch.time.hi == call.hi),
            false => None,
        };
        let times = self.epochs.iter().enumerate();
        let times = times.filter(move |(at, epoch)| {
            epoch.time.both(call).is_some() && last.is_none_or(|last| *at <= last)
        });
        times.map(|(at, _)| at)
    }

    /// Returns whether the clock was set while a call was under way.
    pub(super) fn is_over_a_step(&self, seen: &Seen) -> bool {
        self.times(seen).nth(1).is_some()
    }

    /// Returns between which instants of the store's clock a call took effect, if it did.
    pub(super) fn window(&self, seen: &Seen) -> Span {
        let answer = seen.answer.as_ref();
        let answer = answer.filter(|answer| answer.answer != Answer::Unknown);
        let told = answer.and_then(told);
        let offsets: Vec<Span> = self.times(seen).map(|at| self.epochs[at].offset).collect();
        let (lo, hi) = offsets
            .iter()
            .fold((i64::MAX, i64::MIN), |(lo, hi), offset| {
                (lo.min(offset.lo), hi.max(offset.hi))
            });
        // The clock may have been set between the decision and the answer.
        let told = told.filter(|_| offsets.len() == 1);
        Span {
            lo: seen.invocation.c0.saturating_add(lo),
            hi: match (told, answer) {
                // Stores tell the instant of their answer, which some read after the decision.
                (Some(now), _) => now.saturating_add(self.quantum),
                (None, Some(answer)) => answer.c1.saturating_add(hi),
                (None, None) => i64::MAX / 2,
            },
        }
    }
}

/// Returns the instant of the store's clock at which it answered, if it said so. With the failure of
/// an abandoned claim some say when that was recorded, which may have been before the call.
fn told(answer: &Return) -> Option<i64> {
    match answer.answer {
        Answer::Failed {
            seal: ABANDONED, ..
        } => None,
        _ => answer.now,
    }
}

fn is_step(seen: &Seen) -> bool {
    matches!(seen.invocation.call.op, Op::Clock { .. })
}
