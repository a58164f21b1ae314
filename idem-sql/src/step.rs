//! The answer to a step of a claim's holder: a completion, a failure, a release, a renewal, a
//! checkpoint.
//!
//! The statement writes the record where the claim holds it, which is
//! [`StepDecision::Apply`](idem_core::backend::decision::StepDecision::Apply). Where it has written
//! nothing, the store reads the record, and this module decides as [`idem_core::backend::decision`]
//! says.

use idem_core::backend::{FinalResult, StoredRecord};
use idem_core::{Advance, Bytes, Checkpoint, Claim, Effect, Error, ErrorKind, Result, Timestamp};

/// How often an operation is repeated after a statement that found the row changed. Each time
/// another caller made progress, so more than a few repetitions are a sign of trouble.
pub const MAX_RETRIES: u32 = 16;

/// The result of a step's statement.
#[derive(Debug)]
pub enum Step<R> {
    /// The statement wrote the record, and returned this row.
    Done(R),
    /// The statement wrote nothing. The claim is the latest acquisition, and its record is in this
    /// state, with this result.
    Met(i64, Option<Vec<u8>>),
}

impl<R> Step<R> {
    /// Creates the step from the record that the store read after a statement that wrote nothing.
    ///
    /// # Errors
    ///
    /// `ClaimLost` where the claim has no record any more.
    pub fn met(owned: Option<(i64, Option<Vec<u8>>)>) -> Result<Self> {
        let (state, result) = owned.ok_or_else(Error::claim_lost)?;
        Ok(Self::Met(state, result))
    }

    /// Returns the row of a renewal or a checkpoint.
    ///
    /// # Errors
    ///
    /// `ClaimLost` for every record that was not written.
    pub fn row(self) -> Result<R> {
        match self {
            Self::Done(row) => Ok(row),
            Self::Met(..) => Err(Error::claim_lost()),
        }
    }

    /// Answers a completion, a failure or a release.
    ///
    /// # Errors
    ///
    /// `AlreadySealed` where the record has another result and this one is no release; `ClaimLost`
    /// otherwise.
    pub fn finished(self, wanted: &FinalResult) -> Result<()> {
        match self {
            Self::Done(_) => Ok(()),
            Self::Met(state, result) if wanted.is_same(state, result.as_deref()) => Ok(()),
            Self::Met(StoredRecord::COMPLETED | StoredRecord::FAILED, _)
                if !wanted.is_release() =>
            {
                Err(Error::already_sealed())
            }
            Self::Met(..) => Err(Error::claim_lost()),
        }
    }
}

/// Returns the claim with its new lease. Both instants are in microseconds, by the server's clock.
pub fn renewed(claim: &Claim, now: i64, lease_ends_at: i64) -> Claim {
    Claim::new(
        claim.key().clone(),
        claim.token(),
        claim.attempt(),
        claim.attempts(),
        Timestamp::from_micros(now),
        Timestamp::from_micros(lease_ends_at),
    )
}

/// Decodes the stored checkpoint.
///
/// # Errors
///
/// `Corrupt` where the bytes are no checkpoint.
pub fn stored_checkpoint(stored: Option<&[u8]>) -> Result<Option<Checkpoint>> {
    let stored = stored.map(Bytes::copy_from_slice);
    stored.as_ref().map(Checkpoint::decode).transpose()
}

/// Answers a version that did not raise the mark, because the mark is as high already.
#[must_use]
pub fn not_advanced(current: u64, version: u64) -> Advance {
    match current == version {
        true => Advance::Unchanged,
        false => Advance::Stale { current },
    }
}

/// Returns the error of a claim after [`MAX_RETRIES`].
#[must_use]
pub fn key_changed_hands(effect: Effect) -> Error {
    Error::new(
        ErrorKind::Contention,
        effect,
        format!("the key changed hands {MAX_RETRIES} times while it was claimed; ask again"),
    )
}

/// Returns the error of an advance after [`MAX_RETRIES`].
#[must_use]
pub fn mark_was_raised() -> Error {
    Error::new(
        ErrorKind::Contention,
        Effect::None,
        format!("the mark was raised {MAX_RETRIES} times while it was advanced; ask again"),
    )
}
