//! Re-encryption of old records under the current key.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use super::envelope;
use super::{KeyRing, Protected, seals};
use crate::admin::{Cursor, RecordFilter, RecordSummary, Rewrite, SummaryState};
use crate::backend::StoredResult;
use crate::{
    Effect, Error, ErrorKind, IdempotencyStore, Key, Metadata, Record, RecordAdmin, Result,
};

/// What a page of [`rewrap`](Protected::rewrap) has found and done.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Rewrapped {
    /// The records that the store looked at, without audit entries.
    pub looked_at: u64,
    /// The records that are encrypted under the current key now, and were not before.
    pub rewritten: u64,
    /// The records that nothing had to be done about: encrypted under the current key, or without
    /// anything to encrypt.
    pub current: u64,
    /// The records in flight that hold a checkpoint, or metadata under another key. Their results
    /// will be under the current key, but not their metadata. Go through the store again when they
    /// have ended.
    pub in_flight: u64,
    /// The records that changed meanwhile: go through the store again.
    pub changed: u64,
    /// The records that cannot be decrypted; they stay as they are.
    pub unreadable: u64,
    /// The first error of those.
    pub first_error: Option<Error>,
    /// Where the next page begins; `None` after the last.
    pub next: Option<Cursor>,
}

impl Rewrapped {
    /// Returns whether nothing is left to do in what was looked at: then, after a whole pass, the
    /// other keys are not needed any more.
    #[must_use]
    pub fn is_done(&self) -> bool {
        [
            self.rewritten,
            self.in_flight,
            self.changed,
            self.unreadable,
        ] == [0; 4]
    }

    /// Adds the numbers of the next page, and goes on from there.
    #[must_use]
    pub fn and(mut self, next: Self) -> Self {
        self.looked_at += next.looked_at;
        self.rewritten += next.rewritten;
        self.current += next.current;
        self.in_flight += next.in_flight;
        self.changed += next.changed;
        self.unreadable += next.unreadable;
        self.first_error = self.first_error.or(next.first_error);
        self.next = next.next;
        self
    }
}

/// What became of a record.
enum Found {
    Rewritten,
    Current,
    InFlight,
    Changed,
}

impl<S: IdempotencyStore> Protected<S> {
    /// Re-encrypts the sealed records of a page of at most `limit` under the current key. Go on
    /// with [`next`](Rewrapped::next) until there is none.
    ///
    /// It runs beside live traffic: a record is replaced in one step, if it is still sealed by the
    /// same acquisition; see [`rewrite`](RecordAdmin::rewrite). With
    /// [`PlainRecords::Accept`](super::PlainRecords::Accept) it encrypts plain records, too. It
    /// masks nothing, and leaves fingerprints as they are. One page costs a page of a list, and a
    /// read and a write for each record.
    ///
    /// # Errors
    ///
    /// `Misconfigured` when there are no keys, or the store has no
    /// [`admin`](IdempotencyStore::admin); those of the store, after which a part of the page is
    /// done. Repeat the page. Records that cannot be decrypted are counted and are no error.
    ///
    /// # Cancellation
    ///
    /// Some, all or none of the page are done; each record is readable under its old key or the
    /// current one.
    pub async fn rewrap(&self, after: Option<&Cursor>, limit: u32) -> Result<Rewrapped> {
        let missing = |what| Error::new(ErrorKind::Misconfigured, Effect::None, what);
        let ring = self.seals.ring.as_ref();
        let ring = ring.ok_or_else(|| missing("there are no keys to encrypt records with"))?;
        let admin = self.store.admin();
        let admin = admin.ok_or_else(|| missing("this store does not list its records"))?;
        let page = admin.list(&RecordFilter::new(), after, limit).await?;
        let mut done = Rewrapped {
            next: page.next,
            ..Rewrapped::default()
        };
        for summary in page.records {
            done.looked_at += 1;
            match self.rewrap_one(ring, admin, summary).await {
                Ok(Found::Rewritten) => done.rewritten += 1,
                Ok(Found::Current) => done.current += 1,
                Ok(Found::InFlight) => done.in_flight += 1,
                Ok(Found::Changed) => done.changed += 1,
                Err(error) if is_unreadable(&error) => {
                    done.unreadable += 1;
                    done.first_error.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    async fn rewrap_one(
        &self,
        ring: &KeyRing,
        admin: &dyn RecordAdmin,
        summary: RecordSummary,
    ) -> Result<Found> {
        let is_held = match summary.state {
            SummaryState::InFlight | SummaryState::Stale => true,
            SummaryState::Expired => return Ok(Found::Current),
            _ => false,
        };
        // Nobody can tell the key of a checkpoint from a list.
        let is_current = summary.checkpoint.is_none()
            && self.metadata_is_under(&ring.current(), &summary.metadata);
        if is_held {
            return Ok(if is_current {
                Found::Current
            } else {
                Found::InFlight
            });
        }
        let key = summary.key;
        let Some(record) = self.store.get(&key).await? else {
            // Its retention has ended.
            return Ok(Found::Current);
        };
        let Some(rewrite) = self.rewrapped(ring, &key, record)? else {
            return Ok(Found::Current);
        };
        Ok(match admin.rewrite(&rewrite).await? {
            true => Found::Rewritten,
            false => Found::Changed,
        })
    }

    /// Returns the forms of the record under the current key; `None` when it has them.
    fn rewrapped(&self, ring: &KeyRing, key: &Key, record: Record) -> Result<Option<Rewrite>> {
        let current = ring.current();
        let metadata_is_current = self.metadata_is_under(&current, &record.info().metadata);
        let is_under = |envelope: Option<&_>| {
            envelope.is_some_and(|envelope: &bytes::Bytes| {
                seals::key_id(envelope) == Some(current.as_str())
            })
        };
        let token = record.info().token;
        let stored = record.info().metadata.clone();
        let shown = record.info().fingerprint;
        let limits = self.own_limits();
        let result = match record {
            // It has a new acquisition.
            Record::InFlight(_) => return Ok(None),
            Record::Completed(record) => {
                if metadata_is_current && is_under(envelope::in_response(&record.response)) {
                    return Ok(None);
                }
                let plain = self.seals.open_response(key, token, record.response)?;
                let sealed = self.seals.response(key, token, &plain, &limits)?;
                StoredResult::Response(sealed)
            }
            Record::Failed(record) => {
                let is_own = seals::is_abandoned(&record.failure);
                let is_current = is_own || is_under(envelope::in_failure(&record.failure));
                if metadata_is_current && is_current {
                    return Ok(None);
                }
                StoredResult::Failure(if is_own {
                    record.failure
                } else {
                    let plain = self.seals.open_failure(key, token, record.failure)?;
                    self.seals.failure(key, token, &plain, &limits)?
                })
            }
        };
        let (metadata, mut fingerprint) = self.seals.open_metadata(key, &stored)?;
        if fingerprint.is_none() {
            self.seals.unbound()?;
            // One that is hashed with a pepper is not the claim's own.
            fingerprint = self.seals.peppers.is_none().then_some(shown);
        }
        let metadata = self.seals.metadata(key, &metadata, fingerprint.as_ref())?;
        Rewrite::new(key.clone(), token, result, metadata).map(Some)
    }

    /// Returns whether nothing in these metadata is left to encrypt under this key.
    fn metadata_is_under(&self, current: &str, metadata: &Metadata) -> bool {
        match envelope::in_metadata(metadata) {
            Some(text) => {
                let envelope = STANDARD_NO_PAD.decode(text).unwrap_or_default();
                seals::key_id(&envelope) == Some(current)
            }
            None => metadata.is_empty() && self.seals.peppers.is_some(),
        }
    }
}

/// Returns whether the error concerns one record: its bytes, its key, or its size.
fn is_unreadable(error: &Error) -> bool {
    let kinds = [
        ErrorKind::Corrupt,
        ErrorKind::Misconfigured,
        ErrorKind::InvalidInput,
    ];
    kinds.contains(&error.kind())
}
