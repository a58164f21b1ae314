//! [`IdempotencyStore`]: the contract of the family.

use std::any::Any;
use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

use crate::{
    CheckpointStore, Claim, ClaimOutcome, ClaimRequest, Failure, Key, Limits, Record, RecordAdmin,
    Response, Result, WatermarkStore,
};

/// One durable decision per key: an atomic *upsert-or-return*.
///
/// Exactly one of any number of concurrent claims is [`Acquired`](ClaimOutcome::Acquired); every
/// other one returns the truth about the winner. The laws that an implementation keeps are the
/// cases of the crate `idem-conformance`; run it against any implementation.
///
/// # To ensure correctness
///
/// * The written row proves the decision of a claim (the returned row, or the record that carries
///   the attempt id). The store never infers it from an earlier read.
/// * One clock, the store's, judges every expiry.
/// * Ownership is attempt id and token together. The statement that changes the record checks it.
/// * A token is `max(previous + 1, store clock in µs)`. The data that a later acquisition needs to
///   get a greater token outlives release and expiry; `delete_expired` may forget it only once the
///   clock has passed it.
/// * Answering a duplicate writes nothing.
/// * An error says whether the operation may have taken effect; in doubt, it says that it may.
///
/// # Cancellation
///
/// Every future may be dropped at any poll. The operation has then happened, or has not, or still
/// happens. No record is left half-written, and a key claimed in this way is free again after its
/// lease.
///
/// # Limits
///
/// Keys are checked when they are made. Durations, sizes and batch limits are checked before
/// anything is sent, as in [`check`](crate::backend::check).
#[async_trait]
pub trait IdempotencyStore: Any + Debug + Send + Sync {
    /// Returns a constant name for errors and metrics, such as `postgres`.
    fn backend(&self) -> &'static str;

    /// Returns the most that this store accepts.
    fn limits(&self) -> Limits;

    /// Returns the checkpoints of this store, if it keeps any. A store that wraps another returns
    /// the other's.
    fn checkpoints(&self) -> Option<&dyn CheckpointStore> {
        None
    }

    /// Returns the watermarks of this store, if it keeps any. A store that wraps another returns
    /// the other's.
    fn watermarks(&self) -> Option<&dyn WatermarkStore> {
        None
    }

    /// Returns the list of records and the forced steps of this store, if it has them. A store that
    /// wraps another returns the other's.
    fn admin(&self) -> Option<&dyn RecordAdmin> {
        None
    }

    /// Acquires the key, or returns what is known about it.
    ///
    /// *Atomicity*: one atomic decision on the server. Of concurrent claims of a free key exactly
    /// one is acquired.
    ///
    /// *Behaviour*: the key is acquired when
    /// * no live record exists: never claimed, released, or its retention has ended;
    /// * the record is in flight, stale, has the same fingerprint, and both its claim and this one
    ///   say [`StalePolicy::TakeOver`](crate::StalePolicy::TakeOver);
    /// * the record is failed, has the same fingerprint, and this claim says
    ///   [`FailedPolicy::Retry`](crate::FailedPolicy::Retry);
    /// * the record is in flight, has the same fingerprint and carries this attempt id: the answer
    ///   was lost. Token and attempts stay as before; the lease starts anew, even if it had ended.
    ///
    /// Each acquisition replaces the metadata. A stale record that may not be taken over becomes
    /// failed with [`Failure::ABANDONED`](crate::Failure::ABANDONED), kept until its retention
    /// ends, counted from the end of its lease. This claim returns that failure; only a later one
    /// may retry it. Any other live record is returned unchanged; one with another fingerprint as
    /// [`Conflict`](ClaimOutcome::Conflict), whatever its state, stale too.
    ///
    /// # Errors
    ///
    /// `InvalidInput`, `Contention`, `Unavailable`, `Misconfigured`, `Corrupt`; after an unknown
    /// effect, send the same request again.
    ///
    /// # Cancellation
    ///
    /// The key may be held by this attempt until its lease ends. The same request gets it back.
    #[doc(alias = "lock")]
    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome>;

    /// Seals the claim with a response, which is replayed from now until the retention ends.
    ///
    /// *Atomicity*: the store checks ownership and stores the response in one step.
    ///
    /// *Behaviour*: a holder whose lease has ended may still complete. It may do so until another
    /// attempt has acquired the key, `fail_abandoned` or a claim has failed it, or its retention
    /// has ended. Repeating it with the same response succeeds; the first retention stands.
    ///
    /// # Errors
    ///
    /// `ClaimLost` when the claim is no longer held; nothing is changed. `AlreadySealed` when this
    /// claim was sealed with another result (another response, or a failure), which stands.
    /// `InvalidInput`, `Contention`, `Unavailable`, ….
    ///
    /// # Cancellation
    ///
    /// The response may be stored or not; repeat the call to find out.
    async fn complete(&self, claim: &Claim, response: &Response, retention: Duration)
    -> Result<()>;

    /// Seals the claim with a failure, which is replayed like a response until the retention ends.
    ///
    /// *Atomicity*, *behaviour*, *cancellation*: as for [`complete`](Self::complete).
    ///
    /// # Errors
    ///
    /// As for [`complete`](Self::complete).
    async fn fail(&self, claim: &Claim, failure: &Failure, retention: Duration) -> Result<()>;

    /// Gives the claim up: the key is free at once, for any fingerprint.
    ///
    /// *Atomicity*: the store checks ownership and frees the key in one step.
    ///
    /// *Behaviour*: a holder whose lease has ended may still release until another attempt has
    /// acquired the key. Repeating it succeeds until the key is acquired again or the remains are
    /// deleted. Nothing remains except the data for the next token: the next acquisition is the
    /// key's first. Whether `delete_expired` counts the remains is open.
    ///
    /// # Errors
    ///
    /// `ClaimLost` when the claim is no longer held or is sealed; nothing is changed. Others as
    /// usual.
    ///
    /// # Cancellation
    ///
    /// The key may be free or held; it is free after its lease in any case.
    async fn release(&self, claim: &Claim) -> Result<()>;

    /// Extends the lease to `lease` from now, and the end of the retention by as much. It never
    /// shortens a lease.
    ///
    /// *Atomicity*: the store checks ownership and extends the lease in one step.
    ///
    /// *Behaviour*: a holder whose lease has ended may still renew until another attempt has
    /// acquired the key. Returns the claim with its new end of lease; token and attempt id are the
    /// same.
    ///
    /// # Errors
    ///
    /// `ClaimLost` when the claim is no longer held or is sealed; nothing is changed. Others as
    /// usual.
    ///
    /// # Cancellation
    ///
    /// The lease may be extended or not.
    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<Claim>;

    /// Returns the live record of the key, stale ones included; `None` when the key is free.
    ///
    /// *Atomicity*: one consistent record, of the latest acknowledged state.
    ///
    /// # Errors
    ///
    /// `Unavailable`, `Misconfigured`, `Corrupt`.
    ///
    /// # Cancellation
    ///
    /// Without effect.
    async fn get(&self, key: &Key) -> Result<Option<Record>>;

    /// Deletes at most `limit` records whose retention has ended; returns how many. Fewer than
    /// `limit` means that no more were found.
    ///
    /// *Atomicity*: each record by itself; runs beside live traffic and other calls of it.
    ///
    /// *Behaviour*: a live record is never deleted. Records that a server expires by itself are not
    /// counted.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when `limit` is zero or above [`MAX_BATCH`](crate::limits::MAX_BATCH); others
    /// as usual.
    ///
    /// # Cancellation
    ///
    /// Some, all or none of the batch are deleted.
    #[doc(alias("cleanup", "purge"))]
    async fn delete_expired(&self, limit: u32) -> Result<u64>;

    /// Marks at most `limit` stale records that may not be taken over as failed, with
    /// [`Failure::ABANDONED`](crate::Failure::ABANDONED); returns how many. Fewer than `limit`
    /// means that no more were found.
    ///
    /// *Atomicity*: each record by itself; runs beside live traffic and other calls of it.
    ///
    /// *Behaviour*: records that may be taken over stay as they are. The retention is unchanged.
    ///
    /// # Errors
    ///
    /// As for [`delete_expired`](Self::delete_expired).
    ///
    /// # Cancellation
    ///
    /// Some, all or none of the batch are failed.
    async fn fail_abandoned(&self, limit: u32) -> Result<u64>;
}
