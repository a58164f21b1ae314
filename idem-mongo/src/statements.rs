//! The statements, each with the argument for its safety.
//!
//! Each changes one document in one command, which MongoDB does atomically: a pipeline update reads
//! the document as it is at the write. Of two concurrent updates one is undone and repeated, by the
//! server or by this crate (112). See
//! <https://www.mongodb.com/docs/manual/core/write-operations-atomicity/>. The document's `_id` is
//! the key, and every collection has an index on it. That index admits one record for each key, on
//! every shard if the shard key is the `_id`.
//!
//! The clock is `$$NOW`, the server's, read once for each command in milliseconds; this crate
//! stores microseconds. The server reads it before any wait: a slightly old instant lets a lease
//! seem live for longer, never stale too early.
//!
//! Conditions are in the pipeline of an upsert, because servers refuse `$expr` in its filter (224).
//! Dates are made from numbers, because not every server can add to a date.
//!
//! Rows such as C1, S2, R3 and N2 are those of the tables in `idem_core::backend::decision`. The
//! conformance suite tests each of them on the store.

use idem_core::backend::check::CheckedClaim;
use idem_core::backend::{FinalResult, StoredRecord};
use idem_core::{AttemptId, Claim, ClaimRequest, FailedPolicy, FencingToken, Key, StalePolicy};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Bson, Document, bson, doc};

/// The delay, in microseconds, after which the server itself may delete a record: a minute. The TTL
/// monitor uses the clock of the current primary. If that clock is ahead by less than this delay,
/// the monitor deletes no record that is live for another member. Nor does it delete a token that
/// another member's clock has not passed.
pub(crate) const TTL_MARGIN: i64 = 60_000_000;

/// Returns the server's clock in microseconds.
fn clock() -> Bson {
    bson!({ "$multiply": [{ "$toLong": "$$NOW" }, 1000_i64] })
}

/// Wraps `body` with the clock in `$$clock`.
fn at_clock(body: impl Into<Bson>) -> Bson {
    bson!({ "$let": { "vars": { "clock": clock() }, "in": body.into() } })
}

fn later(micros: i64) -> Bson {
    bson!({ "$add": ["$$clock", micros] })
}

/// Returns when the TTL monitor may delete the record: a margin after the clock has passed all of
/// these instants.
fn purge_at(instants: impl Into<Bson>) -> Bson {
    bson!({ "$toDate": { "$toLong": { "$divide": [
        { "$add": [{ "$max": instants.into() }, TTL_MARGIN] },
        1000_i64,
    ] } } })
}

pub(crate) fn binary(bytes: &[u8]) -> Bson {
    Bson::Binary(Binary {
        subtype: BinarySubtype::Generic,
        bytes: bytes.to_vec(),
    })
}

/// Matches the document of this key.
pub(crate) fn key_filter(key: &Key) -> Document {
    doc! { "_id": key.path() }
}

/// Matches the document while this claim is its latest acquisition.
fn claim_filter(claim: &Claim) -> Document {
    doc! {
        "_id": claim.key().path(),
        "token": claim.token().as_i64(),
        "attempt_id": binary(claim.attempt().as_bytes()),
    }
}

/// Matches the same document while it is in flight and live. No upsert uses this filter, so `$expr`
/// may use the clock.
///
/// Rows S2, R3 and N2.
pub(crate) fn held_filter(claim: &Claim) -> Document {
    let mut filter = claim_filter(claim);
    filter.insert("state", StoredRecord::IN_FLIGHT);
    filter.insert("$expr", doc! { "$gt": ["$expires_at", clock()] });
    filter
}

/// Reads the record of the key, with the clock in `now`, and with the result only for the same
/// request.
///
/// The store sends it before a claim, and after one that lost. It does not prove the winner: a
/// claim that finds the key free here still has to write. An outcome that it returns to a duplicate
/// was true at the read. The read concern fits the writes, so that outcome is as durable as they
/// are.
pub(crate) fn lookup(key: &Key, fingerprint: &Bson) -> Vec<Document> {
    vec![doc! { "$match": key_filter(key) }, with_clock(fingerprint)]
}

/// Reads the records of many keys, with the clock in `now`.
pub(crate) fn lookup_many(keys: Vec<String>) -> Vec<Document> {
    vec![doc! { "$match": { "_id": { "$in": keys } } }, as_returned()]
}

/// Adds the clock, and removes the checkpoint, and the result of another request.
fn with_clock(fingerprint: &Bson) -> Document {
    let same = doc! { "$eq": ["$fingerprint", fingerprint.clone()] };
    doc! { "$set": {
        "now": clock(),
        "result": { "$cond": [same, "$result", "$$REMOVE"] },
        "checkpoint": "$$REMOVE",
    } }
}

/// Adds the clock, and removes the checkpoint, which only the holder may see.
fn as_returned() -> Document {
    doc! { "$set": { "now": clock(), "checkpoint": "$$REMOVE" } }
}

/// Reads the whole record of the key, with the clock.
pub(crate) fn get(key: &Key) -> Vec<Document> {
    vec![doc! { "$match": key_filter(key) }, as_returned()]
}

/// Reads the claim's own record, while it is the latest acquisition, with the clock: the record
/// that a statement without a change has met. A no-op with a majority write concern waits until a
/// majority has confirmed the state that it saw. So a majority read after it sees that state, too.
///
/// The other rows of a seal, a release and a renewal.
pub(crate) fn owned(claim: &Claim) -> Vec<Document> {
    vec![
        doc! { "$match": claim_filter(claim) },
        doc! { "$set": { "now": clock() } },
    ]
}

/// Reads the token of the key's record, expired or not.
pub(crate) fn token(key: &Key) -> Vec<Document> {
    vec![
        doc! { "$match": key_filter(key) },
        doc! { "$project": { "token": 1 } },
    ]
}

/// Matches the documents that come after this `_id`; all of them, after an empty one. Of an `_id`
/// that is no text, none does: MongoDB compares within one type.
pub(crate) fn after(id: &str) -> Document {
    doc! { "_id": { "$gt": id } }
}

/// Reads the matching records in the order of their `_id`, at most `limit`, with the clock and
/// without what no list returns; through the index of the `_id`.
///
/// No server has an operator for the first bytes of a binary. So a failure or checkpoint comes
/// whole, if it has at most this many bytes, or not at all, and `body_bytes` is its size. The result
/// of a completed record never comes.
pub(crate) fn list(filter: Document, limit: u32, max_body_bytes: i64) -> Vec<Document> {
    let is = |state: i64| bson!({ "$eq": ["$state", state] });
    let body = bson!({ "$cond": [is(StoredRecord::IN_FLIGHT), "$checkpoint", "$result"] });
    let is_listed = bson!({ "$and": [
        { "$not": [is(StoredRecord::COMPLETED)] },
        { "$lte": ["$body_bytes", max_body_bytes] },
    ] });
    vec![
        doc! { "$match": filter },
        doc! { "$sort": { "_id": 1 } },
        doc! { "$limit": i64::from(limit) },
        doc! { "$set": { "now": clock(), "body": body } },
        doc! { "$unset": ["result", "checkpoint"] },
        doc! { "$set": { "body_bytes": {
            // A person may have written anything.
            "$cond": [{ "$eq": [{ "$type": "$body" }, "binData"] }, { "$binarySize": "$body" }, 0_i64],
        } } },
        doc! { "$set": { "body": { "$cond": [is_listed, "$body", "$$REMOVE"] } } },
    ]
}

/// A checked claim in the form of statement parameters.
#[derive(Debug)]
pub(crate) struct ClaimParams<'r> {
    pub(crate) request: &'r ClaimRequest,
    pub(crate) fingerprint: Bson,
    pub(crate) lease: i64,
    /// The id of this call in the records that it writes. It distinguishes them from those of
    /// other calls of the same attempt.
    pub(crate) call: ObjectId,
    attempt: Bson,
    kept: i64,
    metadata: Option<String>,
}

impl<'r> ClaimParams<'r> {
    pub(crate) fn new(request: &'r ClaimRequest, checked: CheckedClaim) -> Self {
        Self {
            request,
            fingerprint: binary(&request.fingerprint().to_bytes()),
            lease: checked.lease,
            call: ObjectId::new(),
            attempt: binary(request.attempt().as_bytes()),
            kept: checked.lease + checked.retention,
            metadata: checked.metadata,
        }
    }
}

/// Returns the update of a claim, for an upsert on the key: it decides every outcome of a claim at
/// the write.
///
/// Of any number of claims of a free key one inserts. The others meet its document, at once or when
/// they are sent again after 11000 or 112. For them the pipeline replaces the document with itself,
/// so the server writes nothing. The returned document carries this attempt's id in a record in
/// flight if, and only if, the attempt has won. `failure` is the stored form of the failure of a
/// stale record that may not be taken over.
pub(crate) fn claim(params: &ClaimParams<'_>, failure: &[u8]) -> Vec<Document> {
    let (record, failed) = (acquired(params), failed_as_abandoned(failure));
    let replacement = bson!({ "$switch": {
        "branches": [
            { "case": { "$in": ["$$decision", ["fresh", "own", "again"]] }, "then": record },
            { "case": { "$eq": ["$$decision", "abandoned"] }, "then": failed },
        ],
        "default": "$$ROOT",
    } });
    let vars = bson!({ "decision": decision(params) });
    let decided = bson!({ "$let": { "vars": vars, "in": replacement } });
    vec![doc! { "$replaceWith": at_clock(decided) }]
}

/// Returns the update of a claim in a batch, as a part of the command: an upsert that writes the
/// record of a key without a live one, row C1.
///
/// As in [`claim`], the server decides at the write, and writes nothing where there is a live
/// record. All other rows are left to [`claim`], and so is the proof to a read.
pub(crate) fn claim_fresh(params: &ClaimParams<'_>) -> Document {
    let record = record(params, next_token(), 1_i64.into(), "$$clock".into());
    let is_fresh = bson!({ "$not": [{ "$or": [is_spent(), is_live()] }] });
    let decided = bson!({ "$cond": [is_fresh, record, "$$ROOT"] });
    doc! {
        "q": key_filter(params.request.key()),
        "u": [{ "$replaceWith": at_clock(decided) }],
        "upsert": true,
    }
}

/// Returns the updates, as parts of a command, that take back a claim that the server has written
/// after this call returned an error: a fresh key is free again, and any other record's lease ends,
/// so that its checkpoint stays.
///
/// They find only what this call has acquired. A later call of the attempt that has got the claim
/// back has written its own id, and its time.
pub(crate) fn take_back(params: &ClaimParams<'_>) -> [Document; 2] {
    let written = |attempts: Bson| {
        doc! {
            "_id": params.request.key().path(),
            "call": params.call,
            "state": StoredRecord::IN_FLIGHT,
            "renewed_at": { "$exists": false },
            "attempts": attempts,
        }
    };
    let ended = vec![doc! { "$set": { "lease_ends_at": clock() } }];
    [
        doc! { "q": written(1_i64.into()), "u": release() },
        doc! { "q": written(bson!({ "$gt": 1_i64 })), "u": ended },
    ]
}

/// Returns the decision in one word: rows C1 to C9, in their order.
fn decision(params: &ClaimParams<'_>) -> Bson {
    let is = |state: i64| bson!({ "$eq": ["$state", state] });
    let stale = bson!({ "$and": [
        is(StoredRecord::IN_FLIGHT),
        { "$lte": ["$lease_ends_at", "$$clock"] },
    ] });
    let both_take_over = bson!({ "$and": [
        params.request.on_stale() == StalePolicy::TakeOver,
        { "$eq": [{ "$ifNull": ["$sweep_at", 0_i64] }, 0_i64] },
    ] });
    let own = bson!({ "$and": [
        is(StoredRecord::IN_FLIGHT),
        { "$eq": ["$attempt_id", params.attempt.clone()] },
    ] });
    // A repeated command of one call leaves the claim as the first one has written it. A command
    // that the server does after a later call's (see `crate::locked`) takes no time from it.
    let is_later = bson!({ "$or": [
        { "$and": [
            { "$eq": ["$call", params.call] },
            { "$gt": ["$lease_ends_at", "$$clock"] },
        ] },
        { "$gt": [{ "$ifNull": ["$renewed_at", "$token"] }, "$$clock"] },
    ] });
    let stands = bson!({ "$and": [own.clone(), is_later] });
    let retried = bson!({ "$and": [
        is(StoredRecord::FAILED),
        params.request.on_failed() == FailedPolicy::Retry,
    ] });
    bson!({ "$switch": {
        "branches": [
            { "case": is_spent(), "then": "lost" },
            { "case": { "$not": [is_live()] }, "then": "fresh" },
            { "case": { "$ne": ["$fingerprint", params.fingerprint.clone()] }, "then": "lost" },
            { "case": stands, "then": "lost" },
            { "case": own, "then": "own" },
            { "case": { "$and": [stale.clone(), both_take_over] }, "then": "again" },
            { "case": stale, "then": "abandoned" },
            { "case": retried, "then": "again" },
        ],
        "default": "lost",
    } })
}

fn is_live() -> Bson {
    bson!({ "$gt": [{ "$ifNull": ["$expires_at", 0_i64] }, "$$clock"] })
}

/// The next token would not fit into 64 bits, so the server would make it a double.
fn is_spent() -> Bson {
    bson!({ "$gte": [{ "$ifNull": ["$token", 0_i64] }, i64::MAX] })
}

fn next_token() -> Bson {
    bson!({ "$max": ["$$clock", { "$add": [{ "$ifNull": ["$token", 0_i64] }, 1_i64] }] })
}

/// Returns the record in flight. An attempt that repeats its own claim keeps its token; both it and
/// a takeover keep the checkpoint.
fn acquired(params: &ClaimParams<'_>) -> Bson {
    let by_decision = |fresh: Bson, own: &str, again: Bson| {
        bson!({ "$switch": { "branches": [
            { "case": { "$eq": ["$$decision", "fresh"] }, "then": fresh },
            { "case": { "$eq": ["$$decision", "own"] }, "then": own },
        ], "default": again } })
    };
    let attempts = bson!({ "$add": ["$attempts", 1_i64] });
    let mut record = record(
        params,
        by_decision(next_token(), "$token", next_token()),
        by_decision(1_i64.into(), "$attempts", attempts),
        by_decision("$$clock".into(), "$created_at", "$created_at".into()),
    );
    // A failure that is retried has no checkpoint; a version of this crate without checkpoints may
    // have left one.
    let keeps_checkpoint = bson!({ "$and": [
        { "$ne": ["$$decision", "fresh"] },
        { "$eq": ["$state", StoredRecord::IN_FLIGHT] },
    ] });
    record.insert(
        "checkpoint",
        doc! { "$cond": [keeps_checkpoint, "$checkpoint", "$$REMOVE"] },
    );
    let is_own = bson!({ "$eq": ["$$decision", "own"] });
    record.insert(
        "renewed_at",
        doc! { "$cond": [is_own, "$$clock", "$$REMOVE"] },
    );
    record.into()
}

/// Returns the record in flight of this claim, without a checkpoint.
fn record(params: &ClaimParams<'_>, token: Bson, attempts: Bson, created_at: Bson) -> Document {
    let mut record = doc! {
        "_id": "$_id",
        "state": StoredRecord::IN_FLIGHT,
        "token": token,
        "attempts": attempts,
        "fingerprint": params.fingerprint.clone(),
        "attempt_id": params.attempt.clone(),
        "call": params.call,
        "created_at": created_at,
        "lease_ends_at": later(params.lease),
        "expires_at": later(params.kept),
        // The token is ahead of the clock if the clock was set back.
        "purge_at": purge_at(bson!([later(params.kept), { "$ifNull": ["$token", 0_i64] }])),
    };
    if params.request.on_stale() == StalePolicy::Fail {
        record.insert("sweep_at", later(params.lease));
    }
    if let Some(metadata) = &params.metadata {
        record.insert("metadata", doc! { "$literal": metadata });
    }
    record
}

/// Returns the stale record as a failed one, without an owner and a checkpoint. Its retention does
/// not change.
fn failed_as_abandoned(failure: &[u8]) -> Bson {
    bson!({
        "_id": "$_id",
        "state": StoredRecord::FAILED,
        "token": "$token",
        "attempts": "$attempts",
        "fingerprint": "$fingerprint",
        "attempt_id": binary(AttemptId::NIL.as_bytes()),
        "created_at": "$created_at",
        "lease_ends_at": "$lease_ends_at",
        "expires_at": "$expires_at",
        "purge_at": "$purge_at",
        "sealed_at": "$$clock",
        "metadata": "$metadata",
        "result": binary(failure),
    })
}

/// Returns the update of a completion or failure, for the document that [`held_filter`] matches.
/// The server checks the ownership on the document as it is at the write.
pub(crate) fn seal(state: i64, result: &[u8], retention: i64) -> Vec<Document> {
    vec![
        // This comes first, so that checkpoint and result are never both in the document.
        doc! { "$unset": ["sweep_at", "checkpoint", "call"] },
        doc! { "$set": {
            "state": state,
            "result": binary(result),
            "sealed_at": clock(),
            "expires_at": at_clock(later(retention)),
            "purge_at": at_clock(purge_at(bson!([later(retention), "$token"]))),
        } },
    ]
}

/// Returns the update of a release. The document stays for a while and counts as absent, so that a
/// release can be repeated and the next token is greater whatever the clock does.
pub(crate) fn release() -> Vec<Document> {
    vec![
        doc! { "$set": {
            "state": StoredRecord::RELEASED,
            "expires_at": 0_i64,
            "purge_at": at_clock(purge_at(bson!(["$$clock", "$token"]))),
        } },
        doc! { "$unset": ["sweep_at", "metadata", "checkpoint", "call"] },
    ]
}

/// Matches the document of the key while it is live, and has the token and the state that an
/// operator has seen.
pub(crate) fn seen_filter(key: &Key, token: FencingToken, state: i64) -> Document {
    doc! {
        "_id": key.path(),
        "token": token.as_i64(),
        "state": state,
        "$expr": { "$gt": ["$expires_at", clock()] },
    }
}

/// Returns the update of a forced step, for the document that [`seen_filter`] matches. The record
/// is nobody's then, so of several such steps, and the holder's own, one is taken.
pub(crate) fn force(result: &FinalResult) -> Vec<Document> {
    let mut update = match result.is_release() {
        true => release(),
        false => seal(result.state(), result.bytes(), result.retention()),
    };
    if result.is_release() {
        update.push(doc! { "$unset": ["result", "sealed_at"] });
    }
    update.push(doc! { "$set": { "attempt_id": binary(AttemptId::NIL.as_bytes()) } });
    update
}

/// Returns the update that replaces the stored forms of a sealed record, for the document that
/// [`seen_filter`] matches. While a record is sealed, no other update changes its result.
pub(crate) fn rewrite(result: &[u8], metadata: Option<&str>) -> Vec<Document> {
    let mut update = vec![doc! { "$set": { "result": binary(result) } }];
    update.push(match metadata {
        Some(metadata) => doc! { "$set": { "metadata": { "$literal": metadata } } },
        None => doc! { "$unset": ["metadata"] },
    });
    update
}

/// Returns the update of a renewal, which never shortens a lease. `renewed_at` returns the clock to
/// the caller.
pub(crate) fn renew(lease: i64) -> Vec<Document> {
    let longer = bson!({ "$max": [0_i64, { "$subtract": [later(lease), "$lease_ends_at"] }] });
    let lease_ends_at = bson!({ "$add": ["$lease_ends_at", "$$longer"] });
    let fails_when_stale = bson!({ "$gt": [{ "$ifNull": ["$sweep_at", 0_i64] }, 0_i64] });
    let renewed = bson!({ "$mergeObjects": ["$$ROOT", {
        "lease_ends_at": lease_ends_at.clone(),
        "expires_at": { "$add": ["$expires_at", "$$longer"] },
        "purge_at": purge_at(bson!([{ "$add": ["$expires_at", "$$longer"] }, "$token"])),
        "sweep_at": { "$cond": [fails_when_stale, lease_ends_at, "$$REMOVE"] },
        "renewed_at": "$$clock",
    }] });
    let renewed = bson!({ "$let": { "vars": { "longer": longer }, "in": renewed } });
    vec![doc! { "$replaceWith": at_clock(renewed) }]
}

/// Returns the update of a checkpoint, for the document that [`held_filter`] matches. Lease and
/// retention do not change.
pub(crate) fn checkpoint(stored: &[u8]) -> Vec<Document> {
    vec![doc! { "$set": { "checkpoint": binary(stored) } }]
}

/// Returns the update of an advance, for an upsert on the source: it raises the mark, or leaves it
/// unchanged.
///
/// Like a claim, it is decided at the write, so of any number of advances to one version the first
/// raises the mark and the others meet it. The returned document carries this writer's id if, and
/// only if, this advance has raised it.
pub(crate) fn advance(version: i64, writer: &Bson, retention: i64) -> Vec<Document> {
    let stands = bson!({ "$and": [
        { "$gt": [{ "$ifNull": ["$expires_at", 0_i64] }, "$$clock"] },
        { "$gte": ["$version", version] },
    ] });
    let raised = bson!({
        "_id": "$_id",
        "version": version,
        "writer": writer.clone(),
        "expires_at": later(retention),
        "purge_at": purge_at(bson!([later(retention), "$$clock"])),
    });
    let decided = bson!({ "$cond": [stands, "$$ROOT", raised] });
    vec![doc! { "$replaceWith": at_clock(decided) }]
}

/// Matches marks whose retention has ended; `now` as for [`expired`].
pub(crate) fn expired_marks(now: i64) -> Document {
    let by_index = mongodb::bson::DateTime::from_millis((now + TTL_MARGIN) / 1000);
    doc! {
        "purge_at": { "$lte": by_index },
        "$expr": { "$lte": ["$expires_at", clock()] },
    }
}

/// Matches records whose retention has ended and whose token the clock has passed: then the next
/// token can be made from the clock alone. `now` is a recent time of the server's clock, for the
/// search in an index; the clock at the time of the statement decides.
pub(crate) fn expired(now: i64) -> Document {
    let by_index = mongodb::bson::DateTime::from_millis((now + TTL_MARGIN) / 1000);
    doc! {
        "purge_at": { "$lte": by_index },
        "$expr": { "$and": [
            { "$lte": ["$expires_at", clock()] },
            { "$lt": ["$token", clock()] },
        ] },
    }
}

/// Matches abandoned records: stale ones that may not be taken over; `now` as for [`expired`].
pub(crate) fn abandoned(now: i64) -> Document {
    doc! {
        "sweep_at": { "$lte": now },
        "state": StoredRecord::IN_FLIGHT,
        "$expr": { "$and": [
            { "$lte": ["$sweep_at", clock()] },
            { "$gt": ["$expires_at", clock()] },
        ] },
    }
}

/// Returns the update of `fail_abandoned`, for the documents that [`abandoned`] matches.
pub(crate) fn fail_abandoned(failure: &[u8]) -> Vec<Document> {
    vec![doc! { "$replaceWith": at_clock(failed_as_abandoned(failure)) }]
}

/// Matches those of these documents that still match the filter.
pub(crate) fn among(ids: &[Bson], mut filter: Document) -> Document {
    filter.insert("_id", doc! { "$in": ids });
    filter
}
