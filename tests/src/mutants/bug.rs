//! [`Bug`]: what a mutant does wrong.

/// What a mutant does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bug {
    /// Nothing.
    None,
    /// Looks whether the key is free, and then claims it: two statements.
    CheckThenInsert,
    /// A claim overwrites the one that is there: everybody wins.
    LastWriterWins,
    /// Checks nothing of a holder but the key.
    NoFencing,
    /// Knows a holder by its attempt alone: a stale token completes.
    IgnoresToken,
    /// Knows a holder by its token alone.
    IgnoresAttempt,
    /// Judges leases by the clock of the client, and clients' clocks differ.
    ClientClock,
    /// What is completed stays for ever.
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
    /// Takes composed and decomposed forms for equal.
    FoldsUnicode,
    /// Cuts keys to 200 bytes.
    CutsKeys,
    /// A fresh key starts with token 1 again.
    TokenStartsAgain,
    /// A takeover keeps the token.
    TakeoverKeepsToken,
    /// Takes over stale claims whatever the request.
    TakeoverIgnoresFingerprint,
    /// Takes over what must not run again.
    TakeoverIgnoresPolicy,
    /// Tells a conflict only while nobody has finished.
    ReplaysToAnyRequest,
    /// Compares digests and not how they were made.
    IgnoresScheme,
    /// A conflict extends the lease of the holder.
    ConflictTouches,
    /// Anybody may renew.
    AnyoneRenews,
    /// Anybody may release.
    AnyoneReleases,
    /// A renewal sets the lease, also to less.
    RenewalShortens,
    /// A holder whose lease has ended has lost its claim, though nobody has taken it.
    LateHolderLoses,
    /// After a sweep or claim has failed the record, the late holder still owns it.
    AbandonedKeepsOwner,
    /// Does not know its own claim when asked again.
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
    /// Bodies are kept as text.
    LossyBody,
    /// Bodies are cut to 64 KiB less one, as a TEXT column does.
    CutsBody,
    /// Headers are kept in a sorted map.
    SortsHeaders,
    /// The status is kept in a signed column.
    ClampsStatus,
    /// Counts duplicates on the record.
    CountsDuplicates,
    /// Purges what is stale too.
    PurgesStale,
    /// Purges everything that has expired, whatever the limit.
    PurgeIgnoresLimit,
    /// Tells how much it was asked to purge.
    PurgeTellsLimit,
    /// Sweeps what may be taken over too.
    SweepFailsAll,
    /// Sweeps live claims too.
    SweepFailsLive,
    /// Checks no limits.
    ChecksNothing,
    /// Each handle remembers what was completed, for ever.
    StaleCache,
    /// Stores a response in two steps.
    SealsInTwoSteps,
    /// Remembers who is at work, and forgets to forget when dropped.
    PoisonedByDrop,
    /// A batch ends with its first bad item.
    BatchStopsAtError,
    /// A batch looks first and claims then.
    BatchChecksThenInserts,
    /// Anybody may store a checkpoint of what is in flight.
    CheckpointChecksNothing,
    /// Looks whether the claim is held, and then stores the checkpoint: two statements.
    CheckpointChecksThenWrites,
    /// A holder whose lease has ended may store no checkpoint, though nobody has taken its claim.
    CheckpointNeedsLease,
    /// A checkpoint extends the lease.
    CheckpointRenews,
    /// Checkpoints are cut to 64 KiB less one, as a TEXT column does.
    CheckpointCut,
    /// A second checkpoint changes nothing.
    FirstCheckpointStands,
    /// A takeover begins without a checkpoint.
    CheckpointLostInTakeover,
    /// The attempt that asks again begins without a checkpoint.
    CheckpointLostWhenAskedAgain,
    /// A released key keeps its checkpoint.
    CheckpointOutlivesRelease,
    /// An expired key keeps its checkpoint.
    CheckpointOutlivesExpiry,
    /// The retry of a failure begins with the checkpoint of what failed.
    CheckpointOutlivesFailure,
    /// A mark is at the version that came last.
    MarkLastWriterWins,
    /// Looks where the mark is, and then sets it: two statements.
    MarkChecksThenWrites,
    /// The version of the mark is told to be stale.
    EqualVersionIsStale,
    /// The version of the mark is told to have raised it.
    EqualVersionAdvances,
    /// One mark for all sources of a scope.
    MarkOfTheScope,
    /// Versions are compared as text.
    MarkIsText,
    /// Versions are kept as floating-point numbers.
    MarkIsFloat,
    /// Marks stay for ever.
    MarkNeverExpires,
    /// A mark that is raised keeps the end of its first retention.
    MarkKeepsFirstRetention,
    /// What is stale extends the retention of the mark.
    StaleVersionKeepsMark,
    /// Purges live marks too.
    PurgeTakesLiveMarks,
    /// A purge of the records takes the marks with it.
    MarksGoWithRecords,
    /// Sees what an open transaction has not committed, and claims over it.
    IgnoresTransactions,
    /// Tells the holder that its claim is lost while the transaction that made it is open.
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
    /// A task of its own panics, and quotes the key.
    PanicQuotesKey,
}

impl Bug {
    /// All that are bugs.
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
