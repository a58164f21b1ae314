//! [`Bug`]: the bug of a mutant.

/// The bug of a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bug {
    /// No bug.
    None,
    /// Checks that the key is free, and then claims it: two statements.
    CheckThenInsert,
    /// A claim overwrites the existing one: every caller wins.
    LastWriterWins,
    /// Checks only the key of a holder.
    NoFencing,
    /// Identifies a holder by its attempt alone: a stale token completes.
    IgnoresToken,
    /// Identifies a holder by its token alone.
    IgnoresAttempt,
    /// Judges leases by the clock of the client, and clients' clocks differ.
    ClientClock,
    /// Completed records stay for ever.
    NeverExpires,
    /// Keeps results for half of their retention.
    ExpiresEarly,
    /// Tenants share their records.
    IgnoresScope,
    /// Operations share their records.
    IgnoresOperation,
    /// Joins the parts of a key without their lengths.
    JoinsParts,
    /// Folds case, as some collations do.
    FoldsCase,
    /// Ignores spaces at the end, as `PAD SPACE` collations do.
    TrimsSpaces,
    /// Treats composed and decomposed forms as equal.
    FoldsUnicode,
    /// Cuts keys to 200 bytes.
    CutsKeys,
    /// A fresh key starts with token 1 again.
    TokenStartsAgain,
    /// A takeover keeps the token.
    TakeoverKeepsToken,
    /// Takes over stale claims whatever the request.
    TakeoverIgnoresFingerprint,
    /// Takes over records that must not run again.
    TakeoverIgnoresPolicy,
    /// Reports a conflict only until the record is completed.
    ReplaysToAnyRequest,
    /// Compares digests without their scheme.
    IgnoresScheme,
    /// A conflict extends the lease of the holder.
    ConflictTouches,
    /// Claims to be durable: its records are in memory, in an instance that all handles of a
    /// process share.
    Volatile,
    /// Selects expired records, and deletes them then: two statements.
    PurgeChecksThenDeletes,
    /// Counts abandoned records, and fails those that still are then.
    SweepCountsThenFails,
    /// Any attempt may renew.
    AnyoneRenews,
    /// Any attempt may release.
    AnyoneReleases,
    /// A renewal sets the lease, even to an earlier end.
    RenewalShortens,
    /// A holder whose lease has ended has lost its claim, although no attempt has taken it over.
    LateHolderLoses,
    /// After `fail_abandoned` or a claim has failed the record, the late holder still owns it.
    AbandonedKeepsOwner,
    /// Does not recognize its own repeated claim.
    ForgetsOwnClaim,
    /// Its own claim after the lease is a takeover.
    OwnClaimIsTakeover,
    /// A second completion overwrites the first.
    SecondCompletionOverwrites,
    /// A second completion is an error even if it is the same.
    SecondCompletionFails,
    /// A second release is an error.
    SecondReleaseFails,
    /// A release ends the lease and leaves the record.
    ReleaseLeavesRecord,
    /// Stores bodies as text.
    LossyBody,
    /// Bodies are cut to 64 KiB less one, as a TEXT column does.
    CutsBody,
    /// Stores headers in a sorted map.
    SortsHeaders,
    /// Stores the status in a signed column.
    ClampsStatus,
    /// Counts duplicates on the record.
    CountsDuplicates,
    /// `delete_expired` also deletes stale records.
    PurgesStale,
    /// `delete_expired` deletes every expired record, whatever the limit.
    PurgeIgnoresLimit,
    /// `delete_expired` returns its limit.
    PurgeTellsLimit,
    /// `fail_abandoned` also fails records that may be taken over.
    SweepFailsAll,
    /// `fail_abandoned` also fails live claims.
    SweepFailsLive,
    /// Checks no limits.
    ChecksNothing,
    /// Each handle remembers what was completed, for ever.
    StaleCache,
    /// Stores a response in two steps.
    SealsInTwoSteps,
    /// Remembers the running calls, and does not forget a dropped one.
    PoisonedByDrop,
    /// A batch stops at its first bad item.
    BatchStopsAtError,
    /// A batch checks first and claims then.
    BatchChecksThenInserts,
    /// A batch releases the claims that it should fail.
    BatchReleasesFailures,
    /// Any attempt may store a checkpoint of a record in flight.
    CheckpointChecksNothing,
    /// Checks that the claim is held, and then stores the checkpoint: two statements.
    CheckpointChecksThenWrites,
    /// A holder whose lease has ended may store no checkpoint, although no attempt has taken over
    /// its claim.
    CheckpointNeedsLease,
    /// A checkpoint extends the lease.
    CheckpointRenews,
    /// Checkpoints are cut to 64 KiB less one, as a TEXT column does.
    CheckpointCut,
    /// A second checkpoint changes nothing.
    FirstCheckpointStands,
    /// A takeover begins without a checkpoint.
    CheckpointLostInTakeover,
    /// A repeated claim begins without a checkpoint.
    CheckpointLostWhenAskedAgain,
    /// A released key keeps its checkpoint.
    CheckpointOutlivesRelease,
    /// An expired key keeps its checkpoint.
    CheckpointOutlivesExpiry,
    /// The retry of a failure begins with the failed attempt's checkpoint.
    CheckpointOutlivesFailure,
    /// A mark is at the last version sent.
    MarkLastWriterWins,
    /// Reads the mark, and then sets it: two statements.
    MarkChecksThenWrites,
    /// Reports the mark's own version as stale.
    EqualVersionIsStale,
    /// Reports that the mark's own version has raised it.
    EqualVersionAdvances,
    /// One mark for all sources of a scope.
    MarkOfTheScope,
    /// Versions are compared as text.
    MarkIsText,
    /// Stores versions as floating-point numbers.
    MarkIsFloat,
    /// Marks stay for ever.
    MarkNeverExpires,
    /// A mark that is raised keeps the end of its first retention.
    MarkKeepsFirstRetention,
    /// A stale version extends the retention of the mark.
    StaleVersionKeepsMark,
    /// `delete_expired_watermarks` also deletes live marks.
    PurgeTakesLiveMarks,
    /// `delete_expired` deletes marks along with records.
    MarksGoWithRecords,
    /// A rewrite does not compare the token.
    RewriteIgnoresToken,
    /// A rewrite extends the retention.
    RewriteExtendsRetention,
    /// A forced step does not compare the token.
    ForceIgnoresToken,
    /// A forced release ends the lease only, so that the old holder may still complete.
    ForceLeavesHolder,
    /// A forced step compares the token, and writes a little later.
    ForceChecksThenWrites,
    /// A forced step leaves no audit entry.
    ForceIsNotRecorded,
    /// A page lacks its last record, and the next one begins behind it.
    ListSkips,
    /// A list shows expired records as they were before.
    ListShowsExpired,
    /// Ignores an open transaction, and claims over it.
    IgnoresTransactions,
    /// Reports a claim as lost while the transaction that made it is open.
    LosesBesideTransactions,
    /// Waits for the end of a transaction on one of its few connections.
    WaitsForTransactions,
    /// Offers less than its profile promises.
    OffersLess,
    /// `Debug` of the store shows the keys that it keeps.
    DebugShowsKeys,
    /// The error of a second completion quotes the first.
    ErrorQuotesPayload,
    /// Logs the key of a conflict.
    LogsKey,
    /// A task of the store panics, and quotes the key.
    PanicQuotesKey,
}

impl Bug {
    /// All bugs.
    pub const ALL: &'static [Self] = &[
        Self::CheckThenInsert,
        Self::LastWriterWins,
        Self::NoFencing,
        Self::IgnoresToken,
        Self::IgnoresAttempt,
        Self::ClientClock,
        Self::NeverExpires,
        Self::ExpiresEarly,
        Self::IgnoresScope,
        Self::IgnoresOperation,
        Self::JoinsParts,
        Self::FoldsCase,
        Self::TrimsSpaces,
        Self::FoldsUnicode,
        Self::CutsKeys,
        Self::TokenStartsAgain,
        Self::TakeoverKeepsToken,
        Self::TakeoverIgnoresFingerprint,
        Self::TakeoverIgnoresPolicy,
        Self::ReplaysToAnyRequest,
        Self::IgnoresScheme,
        Self::ConflictTouches,
        Self::AnyoneRenews,
        Self::Volatile,
        Self::PurgeChecksThenDeletes,
        Self::SweepCountsThenFails,
        Self::AnyoneReleases,
        Self::RenewalShortens,
        Self::LateHolderLoses,
        Self::AbandonedKeepsOwner,
        Self::ForgetsOwnClaim,
        Self::OwnClaimIsTakeover,
        Self::SecondCompletionOverwrites,
        Self::SecondCompletionFails,
        Self::SecondReleaseFails,
        Self::ReleaseLeavesRecord,
        Self::LossyBody,
        Self::CutsBody,
        Self::SortsHeaders,
        Self::ClampsStatus,
        Self::CountsDuplicates,
        Self::PurgesStale,
        Self::PurgeIgnoresLimit,
        Self::PurgeTellsLimit,
        Self::SweepFailsAll,
        Self::SweepFailsLive,
        Self::ChecksNothing,
        Self::StaleCache,
        Self::SealsInTwoSteps,
        Self::PoisonedByDrop,
        Self::BatchStopsAtError,
        Self::BatchChecksThenInserts,
        Self::BatchReleasesFailures,
        Self::CheckpointChecksNothing,
        Self::CheckpointChecksThenWrites,
        Self::CheckpointNeedsLease,
        Self::CheckpointRenews,
        Self::CheckpointCut,
        Self::FirstCheckpointStands,
        Self::CheckpointLostInTakeover,
        Self::CheckpointLostWhenAskedAgain,
        Self::CheckpointOutlivesRelease,
        Self::CheckpointOutlivesExpiry,
        Self::CheckpointOutlivesFailure,
        Self::MarkLastWriterWins,
        Self::MarkChecksThenWrites,
        Self::EqualVersionIsStale,
        Self::EqualVersionAdvances,
        Self::MarkOfTheScope,
        Self::MarkIsText,
        Self::MarkIsFloat,
        Self::MarkNeverExpires,
        Self::MarkKeepsFirstRetention,
        Self::StaleVersionKeepsMark,
        Self::PurgeTakesLiveMarks,
        Self::MarksGoWithRecords,
        Self::RewriteIgnoresToken,
        Self::RewriteExtendsRetention,
        Self::ForceIgnoresToken,
        Self::ForceLeavesHolder,
        Self::ForceChecksThenWrites,
        Self::ForceIsNotRecorded,
        Self::ListSkips,
        Self::ListShowsExpired,
        Self::IgnoresTransactions,
        Self::LosesBesideTransactions,
        Self::WaitsForTransactions,
        Self::OffersLess,
        Self::DebugShowsKeys,
        Self::ErrorQuotesPayload,
        Self::LogsKey,
        Self::PanicQuotesKey,
    ];
}
