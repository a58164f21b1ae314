//! The commands of each operation, and the meaning of their answers.

use std::time::Duration;

use bytes::Bytes;
use idem_core::backend::check::{self, CheckedClaim};
use idem_core::backend::{FinalResult, encode_failure};
use idem_core::{
    Claim, ClaimOutcome, ClaimRequest, Error, FailedPolicy, Failure, FencingToken, Key, Record,
    Result, StalePolicy, Timestamp,
};
use redis::Value;

use crate::config::Config;
use crate::record::Stored;
use crate::script::Call;
use crate::scripts::Scripts;

/// What all operations need beside a link.
#[derive(Debug)]
pub(crate) struct Operations {
    pub(crate) config: Config,
    pub(crate) scripts: Scripts,
    /// The result of a record that is failed because it was abandoned.
    pub(crate) abandoned: Bytes,
}

impl Operations {
    pub(crate) fn new(config: Config) -> Result<Self> {
        Ok(Self {
            config,
            scripts: Scripts::new(),
            abandoned: encode_failure(&Failure::abandoned())?,
        })
    }

    /// Returns the key of a record: `namespace:r:scope:operation:id`. All of a record is under this
    /// one key, so it is in one slot of a cluster.
    pub(crate) fn record_key(&self, key: &Key) -> String {
        [self.config.namespace(), ":r:", &key.path()].concat()
    }

    /// Returns the prefix of the keys of all records; it contains no character that is special in a
    /// pattern.
    pub(crate) fn record_prefix(&self) -> String {
        [self.config.namespace(), ":r:"].concat()
    }

    /// Returns the channel on which changes of this key's record are published: `namespace:w:…`.
    pub(crate) fn channel(&self, key: &Key) -> String {
        [self.config.namespace(), ":w:", &key.path()].concat()
    }

    /// Returns the names of the channels up to the key, or an empty text if nothing is published.
    pub(crate) fn channel_prefix(&self) -> String {
        match self.config.notifies() {
            true => [self.config.namespace(), ":w:"].concat(),
            false => String::new(),
        }
    }

    /// Returns the channel on which a change is published, or an empty name.
    pub(crate) fn channel_of(&self, key: &Key) -> String {
        if self.config.notifies() {
            self.channel(key)
        } else {
            String::new()
        }
    }

    /// Returns the same for the key of a record.
    pub(crate) fn channel_for(&self, record_key: &str) -> String {
        if !self.config.notifies() {
            return String::new();
        }
        let path = record_key.strip_prefix(&self.record_prefix());
        [self.config.namespace(), ":w:", path.unwrap_or_default()].concat()
    }

    pub(crate) fn flag(flag: bool) -> u8 {
        u8::from(flag)
    }

    pub(crate) fn claim(&self, request: &ClaimRequest, checked: &CheckedClaim) -> Call<'_> {
        let call = self.scripts.claim.call(&self.record_key(request.key()));
        call.arg(&request.fingerprint().to_bytes()[..])
            .arg(&request.attempt().as_bytes()[..])
            .arg(checked.lease)
            .arg(checked.retention)
            .arg(Self::flag(request.on_stale() == StalePolicy::Fail))
            .arg(Self::flag(request.on_failed() == FailedPolicy::Retry))
            .arg(checked.metadata.as_deref().unwrap_or_default())
            .arg(self.config.grace_millis())
            .arg(&self.abandoned[..])
            .arg(Self::flag(self.config.replicas().is_some()))
            .dated()
    }

    /// Decodes a claim's answer.
    pub(crate) fn claimed(request: &ClaimRequest, answer: Value) -> Result<ClaimOutcome> {
        let answer = items(answer)?;
        if let [Value::BulkString(word), Value::Int(_)] = &answer[..]
            && word == b"spent"
        {
            return Err(Error::corrupt(
                "the key's token is 2^53 or more, which scripts cannot count up; a clock was centuries ahead, or \
                 somebody has written the record: nobody can claim the key until its record is deleted",
            ));
        }
        if let [
            Value::Int(1),
            Value::Int(now),
            Value::Int(token),
            Value::Int(attempts),
            Value::Int(ends),
        ] = answer[..]
        {
            return Ok(ClaimOutcome::Acquired(Claim::new(
                request.key().clone(),
                FencingToken::from_i64(token),
                request.attempt(),
                u32::try_from(attempts).unwrap_or(u32::MAX),
                Timestamp::from_micros(now),
                Timestamp::from_micros(ends),
            )));
        }
        match <[Value; 3]>::try_from(answer) {
            Ok(
                [
                    Value::Int(0 | 2),
                    Value::Int(now),
                    Value::BulkString(record),
                ],
            ) => Stored::new(record, now).columns()?.loses(request),
            _ => Err(nonsense()),
        }
    }

    pub(crate) fn finish(&self, claim: &Claim, result: &FinalResult) -> Call<'_> {
        let script = match result.is_release() {
            true => &self.scripts.release,
            false => &self.scripts.seal,
        };
        let call = with_owner(script.call(&self.record_key(claim.key())), claim);
        let call = match result.is_release() {
            true => call,
            false => call
                .arg(result.state())
                .arg(result.bytes())
                .arg(result.retention()),
        };
        call.arg(self.config.grace_millis())
            .arg(self.channel_of(claim.key()))
            .arg(Self::flag(self.config.replicas().is_some()))
    }

    /// Decodes the answer of a seal or release.
    pub(crate) fn done(answer: &Value) -> Result<()> {
        match answer {
            Value::BulkString(word) if word == b"done" => Ok(()),
            Value::BulkString(word) if word == b"lost" => Err(Error::claim_lost()),
            Value::BulkString(word) if word == b"sealed" => Err(Error::already_sealed()),
            _ => Err(nonsense()),
        }
    }

    pub(crate) fn renew(&self, claim: &Claim, lease: Duration) -> Result<Call<'_>> {
        let lease = check::lease(lease)?;
        let call = self.scripts.renew.call(&self.record_key(claim.key()));
        Ok(with_owner(call, claim)
            .arg(lease)
            .arg(self.config.grace_millis()))
    }

    /// Decodes a renewal's answer.
    pub(crate) fn renewed(claim: &Claim, answer: Value) -> Result<Claim> {
        if answer == Value::Nil {
            return Err(Error::claim_lost());
        }
        let [Value::Int(now), Value::Int(ends), Value::Int(attempts)] = items(answer)?[..] else {
            return Err(nonsense());
        };
        Ok(Claim::new(
            claim.key().clone(),
            claim.token(),
            claim.attempt(),
            u32::try_from(attempts).unwrap_or(u32::MAX),
            Timestamp::from_micros(now),
            Timestamp::from_micros(ends),
        ))
    }

    pub(crate) fn get(&self, key: &Key) -> Call<'_> {
        let call = self.scripts.get.call(&self.record_key(key));
        call.arg(Self::flag(self.config.replicas().is_some()))
    }

    /// Decodes a read's answer.
    pub(crate) fn got(answer: Value) -> Result<Option<Record>> {
        if answer == Value::Nil {
            return Ok(None);
        }
        let mut answer = items(answer)?;
        answer.truncate(2);
        match <[Value; 2]>::try_from(answer) {
            Ok([Value::Int(now), Value::BulkString(record)]) => {
                Stored::new(record, now).columns()?.record().map(Some)
            }
            _ => Err(nonsense()),
        }
    }
}

/// Returns whether a claim's answer reports a write, or rests on one that replicas may not have.
pub(crate) fn is_settled(answer: &Value) -> bool {
    matches!(answer, Value::Array(items)
        if matches!(items.first(), Some(Value::Int(1 | 2))))
}

/// Returns whether the answer of a seal or release reports a write, or rests on one that replicas
/// may not have.
pub(crate) fn is_done(answer: &Value) -> bool {
    matches!(answer, Value::BulkString(word) if word == b"done" || word == b"sealed")
}

/// Returns whether a read's answer rests on a write that replicas may not have.
pub(crate) fn is_result(answer: &Value) -> bool {
    matches!(answer, Value::Array(items) if items.len() == 3)
}

/// Returns whether a renewal's answer reports a write.
pub(crate) fn is_something(answer: &Value) -> bool {
    *answer != Value::Nil
}

/// Nothing was written that replicas would need.
pub(crate) fn nothing(_: &Value) -> bool {
    false
}

pub(crate) fn with_owner<'s>(call: Call<'s>, claim: &Claim) -> Call<'s> {
    call.arg(claim.token().as_i64())
        .arg(&claim.attempt().as_bytes()[..])
}

pub(crate) fn items(answer: Value) -> Result<Vec<Value>> {
    match answer {
        Value::Array(items) => Ok(items),
        _ => Err(nonsense()),
    }
}

pub(crate) fn nonsense() -> Error {
    Error::corrupt("the server's answer to a script makes no sense; is a proxy in between?")
}
