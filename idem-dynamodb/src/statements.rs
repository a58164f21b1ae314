//! The writes, each with the argument for its safety.
//!
//! Each changes one item in one `UpdateItem`, whose condition the service evaluates on the item as
//! it is at the write, atomically with the write:
//! <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/WorkingWithItems.html#WorkingWithItems.ConditionalUpdate>.
//! The item's partition key is the record's key, so there is one item for each key. A refused write
//! returns the item that refused it (`ReturnValuesOnConditionCheckFailure`), as strongly consistent
//! as the condition was. So every operation that meets what it expects takes one round trip, and so
//! does a claim that loses.
//!
//! An update expression cannot choose between cases. A write therefore expects one case: a free key,
//! or exactly the record that was seen. If the condition refuses it, the item that comes back
//! decides the next write, by [`idem_core::backend::decision`]. What was seen is compared in all
//! facts on which the decision depends, so the decision still holds at the write.
//!
//! Instants come from [`crate::clock`]. Ownership and tokens do not depend on them: every step of a
//! holder compares token and attempt, and a token grows from the item's own. Clocks only decide when
//! a lease or a retention has ended.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure as OnFailure;
use aws_sdk_dynamodb::types::{AttributeValue, Update as TransactUpdate};
use idem_core::backend::check::CheckedClaim;
use idem_core::backend::decision::{ClaimDecision, RecordFacts};
use idem_core::backend::{FinalResult, StoredRecord};
use idem_core::{
    AttemptId, Claim, ClaimRequest, Effect, Error, ErrorKind, FencingToken, Key, Result,
    StalePolicy, Timestamp,
};

use crate::row::{Item, Row, whole_seconds};

/// The names of the attributes.
pub(crate) mod attribute {
    pub(crate) const KEY: &str = "pk";
    pub(crate) const STATE: &str = "state";
    pub(crate) const TOKEN: &str = "token";
    pub(crate) const ATTEMPTS: &str = "attempts";
    pub(crate) const FINGERPRINT: &str = "fingerprint";
    pub(crate) const ATTEMPT: &str = "attempt_id";
    pub(crate) const CREATED_AT: &str = "created_at";
    pub(crate) const LEASE_ENDS_AT: &str = "lease_ends_at";
    pub(crate) const EXPIRES_AT: &str = "expires_at";
    pub(crate) const SEALED_AT: &str = "sealed_at";
    pub(crate) const FAILS_WHEN_STALE: &str = "fails_when_stale";
    pub(crate) const METADATA: &str = "metadata";
    pub(crate) const RESULT: &str = "result";
    pub(crate) const CHECKPOINT: &str = "checkpoint";
    /// When the service may delete the item, in seconds since 1970.
    pub(crate) const TTL: &str = "ttl";
    /// Of a watermark.
    pub(crate) const VERSION: &str = "version";
    /// The call that has raised a watermark, or ended a record that is not its own.
    pub(crate) const WRITER: &str = "writer";
}

use attribute::{
    ATTEMPT, ATTEMPTS, CHECKPOINT, CREATED_AT, EXPIRES_AT, FAILS_WHEN_STALE, FINGERPRINT, KEY,
    LEASE_ENDS_AT, METADATA, RESULT, SEALED_AT, STATE, TOKEN, TTL, VERSION, WRITER,
};

/// How long an item stays after its retention has ended and the clock has passed its token: an
/// hour. Then the next token, made from a clock alone, is greater: no client's clock is as far
/// behind, and a request that was delayed for longer has an expired signature.
pub(crate) const TOKEN_MARGIN: i64 = 3_600_000_000;

/// What the partition key of a record begins with.
pub(crate) const RECORD: &str = "r:";
/// What the partition key of a watermark begins with.
pub(crate) const MARK: &str = "w:";

/// Returns the partition key of a record: at most 1,918 of the 2,048 bytes that one may have.
pub(crate) fn record_key(key: &Key) -> String {
    [RECORD, &key.path()].concat()
}

/// Returns the partition key of a source's watermark.
pub(crate) fn mark_key(source: &Key) -> String {
    [MARK, &source.path()].concat()
}

/// The random id of a call, by which it recognizes what it has written. A holder's steps have their
/// claim for that.
pub(crate) type Writer = AttemptId;

pub(crate) fn number(number: i64) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

pub(crate) fn binary(bytes: &[u8]) -> AttributeValue {
    AttributeValue::B(bytes.to_vec().into())
}

/// Returns when the service may delete an item, for these instants in microseconds.
fn ttl(expires_at: i64, token: FencingToken) -> AttributeValue {
    let last = expires_at.max(token.as_i64());
    number(whole_seconds(last.saturating_add(TOKEN_MARGIN)))
}

/// One conditional `UpdateItem`. In its expressions an attribute is `#name`, a value `:name`.
#[derive(Clone)]
pub(crate) struct Update {
    pub(crate) partition: String,
    sets: Vec<String>,
    removes: Vec<&'static str>,
    condition: String,
    values: HashMap<String, AttributeValue>,
}

impl Update {
    pub(crate) fn new(partition: String, condition: impl Into<String>) -> Self {
        Self {
            partition,
            sets: Vec::new(),
            removes: Vec::new(),
            condition: condition.into(),
            values: HashMap::new(),
        }
    }

    /// Sets an attribute to a value.
    fn set(mut self, name: &'static str, value: AttributeValue) -> Self {
        self.sets.push(format!("#{name} = :{name}"));
        self.value(name, value)
    }

    fn remove(mut self, name: &'static str) -> Self {
        self.removes.push(name);
        self
    }

    /// Defines a value of the condition or of an expression.
    fn value(mut self, name: &str, value: AttributeValue) -> Self {
        self.values.insert(format!(":{name}"), value);
        self
    }

    pub(crate) fn key(&self) -> Item {
        let partition = AttributeValue::S(self.partition.clone());
        [(KEY.to_owned(), partition)].into()
    }

    pub(crate) fn expression(&self) -> String {
        let mut expression = format!("SET {}", self.sets.join(", "));
        for (index, name) in self.removes.iter().enumerate() {
            let separator = if index == 0 { " REMOVE #" } else { ", #" };
            expression.push_str(separator);
            expression.push_str(name);
        }
        expression
    }

    pub(crate) fn condition(&self) -> &str {
        &self.condition
    }

    pub(crate) fn names(&self) -> HashMap<String, String> {
        names(&[&self.expression(), self.condition()].join(" "))
    }

    pub(crate) fn values(&self) -> HashMap<String, AttributeValue> {
        self.values.clone()
    }

    /// Returns it as a part of a transaction.
    pub(crate) fn in_transaction(&self, table: &str) -> Result<TransactUpdate> {
        let built = TransactUpdate::builder()
            .table_name(table)
            .set_key(Some(self.key()))
            .update_expression(self.expression())
            .condition_expression(self.condition())
            .set_expression_attribute_names(Some(self.names()))
            .set_expression_attribute_values(Some(self.values()))
            .return_values_on_condition_check_failure(OnFailure::AllOld)
            .build();
        built.map_err(|source| {
            let message = "the SDK refuses a part of the transaction; see the source";
            Error::new(ErrorKind::Other, Effect::None, message).with_source(source)
        })
    }
}

/// Returns the names in an expression. All are placeholders, because many are reserved words.
pub(crate) fn names(expression: &str) -> HashMap<String, String> {
    let is_letter = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    let names = expression.split('#').skip(1).map(|rest| {
        let end = rest.find(|letter| !is_letter(letter));
        &rest[..end.unwrap_or(rest.len())]
    });
    names
        .map(|name| (format!("#{name}"), name.to_owned()))
        .collect()
}

/// A checked claim.
#[derive(Debug)]
pub(crate) struct ClaimParams<'r> {
    pub(crate) request: &'r ClaimRequest,
    checked: CheckedClaim,
}

impl<'r> ClaimParams<'r> {
    pub(crate) fn new(request: &'r ClaimRequest, checked: CheckedClaim) -> Self {
        Self { request, checked }
    }
}

/// What a claim writes when it acquires the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Acquisition {
    pub(crate) token: FencingToken,
    pub(crate) attempts: i64,
    pub(crate) granted_at: i64,
    pub(crate) lease_ends_at: i64,
}

impl Acquisition {
    /// Decides what the claim writes over the record that was seen.
    pub(crate) fn new(
        params: &ClaimParams<'_>,
        decision: ClaimDecision,
        seen: Option<&Row>,
        now: i64,
    ) -> Result<Self> {
        let at = Timestamp::from_micros(now);
        let last = seen.map(Row::token).transpose()?;
        let token = match last {
            None => FencingToken::from_i64(now),
            Some(token) if decision == ClaimDecision::Own => token,
            Some(token) => token.next_at(at)?,
        };
        let attempts = match (decision, seen) {
            (ClaimDecision::Fresh, _) | (_, None) => 1,
            (ClaimDecision::Own, Some(row)) => row.number(ATTEMPTS)?,
            (_, Some(row)) => row.number(ATTEMPTS)?.saturating_add(1),
        };
        Ok(Self {
            token,
            attempts,
            granted_at: now,
            lease_ends_at: now.saturating_add(params.checked.lease),
        })
    }

    /// Returns the claim.
    pub(crate) fn claim(self, request: &ClaimRequest) -> Claim {
        Claim::new(
            request.key().clone(),
            self.token,
            request.attempt(),
            u32::try_from(self.attempts).unwrap_or(u32::MAX),
            Timestamp::from_micros(self.granted_at),
            Timestamp::from_micros(self.lease_ends_at),
        )
    }

    /// Returns whether this item is what the acquisition has written: a try of the SDK whose answer
    /// was lost.
    pub(crate) fn has_written(&self, row: &Row, request: &ClaimRequest) -> Result<bool> {
        Ok(row.state()? == StoredRecord::IN_FLIGHT
            && row.token()? == self.token
            && row.bytes(ATTEMPT)? == request.attempt().as_bytes()
            && row.number(LEASE_ENDS_AT)? == self.lease_ends_at)
    }
}

/// Matches a key without a live record, whose last token is below the clock: row C1 of
/// [`decide`](idem_core::backend::decision::decide).
const IS_FREE: &str = "attribute_not_exists(#pk) OR (#expires_at <= :now AND #token < :now)";

/// Matches the record that was seen, as far as decisions depend on it. With each acquisition comes a
/// new token, and until then a fingerprint and a policy stay.
const IS_AS_SEEN: &str = "#token = :seen_token AND #state = :seen_state AND #attempt_id = :seen_attempt \
                          AND #lease_ends_at = :seen_lease AND #expires_at = :seen_expiry";

/// Expects exactly the record that was seen.
fn as_seen(partition: String, seen: &RecordFacts, state: i64) -> Update {
    Update::new(partition, IS_AS_SEEN)
        .value("seen_token", number(seen.token.as_i64()))
        .value("seen_state", number(state))
        .value("seen_attempt", binary(seen.attempt.as_bytes()))
        .value("seen_lease", number(seen.lease_ends_at.as_micros()))
        .value("seen_expiry", number(seen.expires_at.as_micros()))
}

/// Returns the write by which a claim acquires the key: of a free key, or over the record that was
/// seen.
///
/// Of any number of claims of a free key the service accepts one. The others meet its record, which
/// is live, so the condition refuses them.
pub(crate) fn acquire(
    params: &ClaimParams<'_>,
    decision: ClaimDecision,
    seen: Option<&Row>,
    acquisition: &Acquisition,
) -> Result<Update> {
    let (request, checked) = (params.request, &params.checked);
    let partition = record_key(request.key());
    let update = match seen {
        None => Update::new(partition, IS_FREE).value("now", number(acquisition.granted_at)),
        Some(row) => as_seen(partition, &row.facts()?, row.state()?),
    };
    let expires_at = acquisition.lease_ends_at.saturating_add(checked.retention);
    let mut update = update
        .set(STATE, number(StoredRecord::IN_FLIGHT))
        .set(TOKEN, number(acquisition.token.as_i64()))
        .set(ATTEMPTS, number(acquisition.attempts))
        .set(FINGERPRINT, binary(&request.fingerprint().to_bytes()))
        .set(ATTEMPT, binary(request.attempt().as_bytes()))
        .set(LEASE_ENDS_AT, number(acquisition.lease_ends_at))
        .set(EXPIRES_AT, number(expires_at))
        .set(TTL, ttl(expires_at, acquisition.token))
        .remove(RESULT)
        .remove(SEALED_AT);
    if decision == ClaimDecision::Fresh {
        update = update.set(CREATED_AT, number(acquisition.granted_at));
    }
    // A takeover keeps the checkpoint, and so does the attempt that repeats its claim.
    if !matches!(decision, ClaimDecision::Own | ClaimDecision::TakeOver) {
        update = update.remove(CHECKPOINT);
    }
    update = match request.on_stale() {
        StalePolicy::Fail => update.set(FAILS_WHEN_STALE, number(1)),
        StalePolicy::TakeOver => update.remove(FAILS_WHEN_STALE),
    };
    Ok(match &checked.metadata {
        Some(metadata) => update.set(METADATA, AttributeValue::S(metadata.clone())),
        None => update.remove(METADATA),
    })
}

/// Returns the write that fails a stale record which may not be taken over: row C6. It has no owner
/// then, and its retention stays.
pub(crate) fn abandon(
    partition: String,
    seen: &Row,
    failure: &[u8],
    writer: &Writer,
    now: i64,
) -> Result<Update> {
    Ok(as_seen(partition, &seen.facts()?, seen.state()?)
        .set(STATE, number(StoredRecord::FAILED))
        .set(ATTEMPT, binary(AttemptId::NIL.as_bytes()))
        .set(RESULT, binary(failure))
        .set(SEALED_AT, number(now))
        .set(WRITER, binary(writer.as_bytes()))
        .remove(FAILS_WHEN_STALE)
        .remove(CHECKPOINT))
}

/// Matches the claim's record while it is in flight and live: rows S2, R3 and N2.
const IS_HELD: &str = "#token = :held_token AND #attempt_id = :held_attempt AND #state = :held_state \
                       AND #expires_at > :now";

fn held(claim: &Claim, now: i64, more: &str) -> Update {
    let condition = [IS_HELD, more].concat();
    Update::new(record_key(claim.key()), condition)
        .value("held_token", number(claim.token().as_i64()))
        .value("held_attempt", binary(claim.attempt().as_bytes()))
        .value("held_state", number(StoredRecord::IN_FLIGHT))
        .value("now", number(now))
}

/// Ends a record in this way.
fn ended(update: Update, result: &FinalResult, token: FencingToken, now: i64) -> Update {
    let update = update
        .set(STATE, number(result.state()))
        .remove(FAILS_WHEN_STALE)
        .remove(CHECKPOINT);
    if result.is_release() {
        // The item stays for a while and counts as absent, so that a release can be repeated and
        // the next token is greater.
        return update
            .set(EXPIRES_AT, number(0))
            .set(TTL, ttl(now, token))
            .remove(METADATA)
            .remove(RESULT)
            .remove(SEALED_AT);
    }
    let expires_at = now.saturating_add(result.retention());
    update
        .set(RESULT, binary(result.bytes()))
        .set(SEALED_AT, number(now))
        .set(EXPIRES_AT, number(expires_at))
        .set(TTL, ttl(expires_at, token))
}

/// Returns the write of a completion, a failure or a release.
pub(crate) fn finish(claim: &Claim, result: &FinalResult, now: i64) -> Update {
    ended(held(claim, now, ""), result, claim.token(), now)
}

/// Returns the write of a renewal over a lease that ends at `known`. It never shortens the lease,
/// and keeps the record for as much longer. Returns the new end of the lease, too.
pub(crate) fn renew(claim: &Claim, known: i64, lease: i64, now: i64) -> (Update, i64) {
    let ends_at = known.max(now.saturating_add(lease));
    let longer = ends_at - known;
    let mut update = held(claim, now, " AND #lease_ends_at = :known")
        .value("known", number(known))
        .value("longer", number(longer))
        .value("later", number(whole_seconds(longer)))
        .set(LEASE_ENDS_AT, number(ends_at));
    update
        .sets
        .push(format!("#{EXPIRES_AT} = #{EXPIRES_AT} + :longer"));
    update.sets.push(format!("#{TTL} = #{TTL} + :later"));
    (update, ends_at)
}

/// Returns the write of a checkpoint. Lease and retention do not change.
pub(crate) fn checkpoint(claim: &Claim, stored: &[u8], now: i64) -> Update {
    held(claim, now, "").set(CHECKPOINT, binary(stored))
}

/// Returns the write of a checkpoint that is not the stored one, so that a transaction which was
/// committed before is refused.
pub(crate) fn next_checkpoint(claim: &Claim, stored: &[u8], now: i64) -> Update {
    let is_other = " AND (attribute_not_exists(#checkpoint) OR #checkpoint <> :checkpoint)";
    held(claim, now, is_other).set(CHECKPOINT, binary(stored))
}

/// Matches the record of the key while it is live, and has the token and the state that an operator
/// has seen.
const IS_SEEN: &str = "#token = :seen_token AND #state = :seen_state AND #expires_at > :now";

fn seen_live(key: &Key, token: FencingToken, state: i64, now: i64) -> Update {
    Update::new(record_key(key), IS_SEEN)
        .value("seen_token", number(token.as_i64()))
        .value("seen_state", number(state))
        .value("now", number(now))
}

/// Returns the write of a forced step. The record is nobody's then, so of several such steps, and
/// the holder's own, one is taken.
pub(crate) fn force(
    (key, token, state): (&Key, FencingToken, i64),
    result: &FinalResult,
    writer: &Writer,
    now: i64,
) -> Update {
    ended(seen_live(key, token, state, now), result, token, now)
        .set(ATTEMPT, binary(AttemptId::NIL.as_bytes()))
        .set(WRITER, binary(writer.as_bytes()))
}

/// Returns the write that replaces the stored forms of a sealed record. While a record is sealed, no
/// other write changes its result.
pub(crate) fn rewrite(
    (key, token, state): (&Key, FencingToken, i64),
    result: &[u8],
    metadata: Option<&str>,
    now: i64,
) -> Update {
    let update = seen_live(key, token, state, now).set(RESULT, binary(result));
    match metadata {
        Some(metadata) => update.set(METADATA, AttributeValue::S(metadata.to_owned())),
        None => update.remove(METADATA),
    }
}

/// Returns the write of an advance: it raises the mark, or meets a live one that is not below the
/// version. Of any number of advances to one version the service accepts the first.
pub(crate) fn advance(
    source: &Key,
    version: i64,
    writer: &Writer,
    retention: i64,
    now: i64,
) -> Update {
    let condition = "attribute_not_exists(#pk) OR #expires_at <= :now OR #version < :version";
    let expires_at = now.saturating_add(retention);
    let deleted_at = number(whole_seconds(expires_at.saturating_add(TOKEN_MARGIN)));
    Update::new(mark_key(source), condition)
        .value("now", number(now))
        .set(VERSION, number(version))
        .set(WRITER, binary(writer.as_bytes()))
        .set(EXPIRES_AT, number(expires_at))
        .set(TTL, deleted_at)
}

/// Matches records whose retention has ended, and whose token a clock an hour behind has passed.
/// Then the next token can be made from a clock alone.
pub(crate) const IS_EXPIRED: &str =
    "begins_with(#pk, :prefix) AND #expires_at <= :now AND #token < :old";

/// Matches marks whose retention has ended.
pub(crate) const IS_EXPIRED_MARK: &str = "begins_with(#pk, :prefix) AND #expires_at <= :now";

/// Matches abandoned records: stale ones that may not be taken over.
pub(crate) const IS_ABANDONED: &str = "begins_with(#pk, :prefix) AND attribute_exists(#fails_when_stale) AND #state = :in_flight \
     AND #lease_ends_at <= :now AND #expires_at > :now";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_name_what_they_use_and_nothing_else() {
        let key = Key::new("tenant", "pay", "1").unwrap();
        let at = Timestamp::from_micros;
        let claim = Claim::new(
            key.clone(),
            FencingToken::from_i64(7),
            AttemptId::random(),
            1,
            at(5),
            at(9),
        );
        let released = FinalResult::released();
        for update in [
            finish(&claim, &released, 6),
            renew(&claim, 9, 100, 6).0,
            checkpoint(&claim, b"x", 6),
            next_checkpoint(&claim, b"x", 6),
            force((&key, claim.token(), 0), &released, &AttemptId::random(), 6),
            rewrite((&key, claim.token(), 1), b"x", None, 6),
            advance(&key, 3, &AttemptId::random(), 10, 6),
        ] {
            let text = format!("{} {}", update.expression(), update.condition());
            for name in update.names().keys() {
                assert!(text.contains(name.as_str()), "{name} in {text}");
            }
            for value in update.values().keys() {
                assert!(text.contains(value.as_str()), "{value} in {text}");
            }
            for word in text.split([' ', ',', '(', ')']) {
                let is_defined = match word.chars().next() {
                    Some(':') => update.values().contains_key(word),
                    Some('#') => update.names().contains_key(word),
                    _ => true,
                };
                assert!(is_defined, "{word} is not defined");
            }
        }
    }

    #[test]
    fn the_longest_key_fits_into_a_partition_key() {
        let worst = |bytes: usize| "%".repeat(bytes);
        let key = Key::new(worst(255), worst(128), worst(255)).unwrap();
        assert!(record_key(&key).len() <= 2048);
    }

    #[test]
    fn a_renewal_never_shortens_a_lease() {
        let key = Key::new("tenant", "pay", "1").unwrap();
        let at = Timestamp::from_micros;
        let token = FencingToken::from_i64(7);
        let claim = Claim::new(key, token, AttemptId::random(), 1, at(5), at(900));
        assert_eq!(renew(&claim, 900, 100, 6).1, 900);
        assert_eq!(renew(&claim, 900, 1000, 6).1, 1006);
    }
}
