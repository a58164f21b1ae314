//! What goes to the wrapped store, and what comes back. The transaction methods of a store need
//! these parts, too.

use super::{Protected, envelope};
use crate::admin::{AUDIT_OPERATION, AuditEntry, Rewrite};
use crate::backend::{StoredResult, check};
use crate::{
    Claim, ClaimOutcome, ClaimRequest, Completed, Conflict, Failed, Failure, FencingToken,
    Fingerprint, IdempotencyStore, InFlight, Key, Limits, Metadata, Record, Response, Result,
};

impl<S: IdempotencyStore> Protected<S> {
    /// Returns the claim as the wrapped store gets it, for `claim_in` of a store. Pass the outcome
    /// to [`protect_again`](Self::protect_again), then to [`reveal`](Self::reveal).
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when the metadata are over the limit.
    pub fn protect_claim(&self, request: &ClaimRequest) -> Result<ClaimRequest> {
        if is_exempt(request.key()) {
            return Ok(request.clone());
        }
        check::metadata(request.metadata(), &self.own_limits())?;
        self.seals.request(request)
    }

    /// Returns the claim to send in place of the one that got this outcome: it met a record of the
    /// same request that was claimed under another pepper. `None` when the outcome stands.
    ///
    /// # Errors
    ///
    /// As for [`protect_claim`](Self::protect_claim).
    pub fn protect_again(
        &self,
        request: &ClaimRequest,
        outcome: &ClaimOutcome,
    ) -> Result<Option<ClaimRequest>> {
        match outcome {
            ClaimOutcome::Conflict(met) if !is_exempt(request.key()) => {
                self.seals.request_as(request, &met.info.fingerprint)
            }
            _ => Ok(None),
        }
    }

    /// Returns the response as the wrapped store gets it, for `complete_in` of a store.
    ///
    /// A `complete_in` that is repeated after the key was changed may get `AlreadySealed`, although
    /// the stored result is the same; [`get`](IdempotencyStore::get) shows it.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when it is over the limit or cannot be
    /// masked; those of [`Rebuild::reference`](super::Rebuild::reference).
    pub fn protect_response(&self, claim: &Claim, response: &Response) -> Result<Response> {
        if is_exempt(claim.key()) {
            return Ok(response.clone());
        }
        let form = self.forms.stored(claim.key(), response)?;
        self.seal_response(claim, form.as_ref().unwrap_or(response))
    }

    /// Returns the failure as the wrapped store gets it, for `fail_in` of a store.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when it is over the limit.
    pub fn protect_failure(&self, claim: &Claim, failure: &Failure) -> Result<Failure> {
        self.seal_failure(claim.key(), claim.token(), failure)
    }

    /// Returns the outcome of a claim as the caller gets it.
    ///
    /// # Errors
    ///
    /// `Misconfigured` and `Corrupt` when a value cannot be decrypted; those of
    /// [`Rebuild::rebuild`](super::Rebuild::rebuild).
    pub async fn reveal(
        &self,
        request: &ClaimRequest,
        outcome: ClaimOutcome,
    ) -> Result<ClaimOutcome> {
        let (key, given) = (request.key(), Some(request.fingerprint()));
        Ok(match outcome {
            ClaimOutcome::Acquired(claim) => ClaimOutcome::Acquired(claim),
            ClaimOutcome::InFlight(record) => {
                ClaimOutcome::InFlight(self.open_in_flight(key, given, record)?)
            }
            ClaimOutcome::Completed(record) => {
                let record = self.open_completed(key, given, record)?;
                ClaimOutcome::Completed(self.replayed(key, record).await?)
            }
            ClaimOutcome::Failed(record) => {
                ClaimOutcome::Failed(self.open_failed(key, given, record)?)
            }
            ClaimOutcome::Conflict(Conflict { mut info }) => {
                if !is_exempt(key) {
                    self.seals.open_info(key, None, &mut info)?;
                }
                ClaimOutcome::Conflict(Conflict { info })
            }
        })
    }

    /// Returns the record as [`get`](IdempotencyStore::get) shows it.
    pub(super) async fn reveal_record(&self, key: &Key, record: Record) -> Result<Record> {
        Ok(match record {
            Record::InFlight(record) => Record::InFlight(self.open_in_flight(key, None, record)?),
            Record::Completed(record) => {
                let record = self.open_completed(key, None, record)?;
                Record::Completed(self.replayed(key, record).await?)
            }
            Record::Failed(record) => Record::Failed(self.open_failed(key, None, record)?),
        })
    }

    /// Returns the limits of what callers give.
    pub(super) fn own_limits(&self) -> Limits {
        self.seals.limits(self.store.limits())
    }

    /// Encrypts a response that is masked already.
    pub(super) fn seal_response(&self, claim: &Claim, form: &Response) -> Result<Response> {
        let limits = self.own_limits();
        self.seals
            .response(claim.key(), claim.token(), form, &limits)
    }

    pub(super) fn seal_failure(
        &self,
        key: &Key,
        token: FencingToken,
        failure: &Failure,
    ) -> Result<Failure> {
        if is_exempt(key) {
            return Ok(failure.clone());
        }
        self.seals.failure(key, token, failure, &self.own_limits())
    }

    /// Returns the rewrite as the wrapped store gets it, with the fingerprint that the record has.
    pub(super) async fn protect_rewrite(&self, rewrite: &Rewrite) -> Result<Rewrite> {
        let (key, token) = (rewrite.key(), rewrite.token());
        if is_exempt(key) || !self.seals.encrypts() {
            return Ok(rewrite.clone());
        }
        let limits = self.own_limits();
        check::metadata(rewrite.metadata(), &limits)?;
        let result = match rewrite.result() {
            StoredResult::Response(response) => {
                StoredResult::Response(self.seals.response(key, token, response, &limits)?)
            }
            StoredResult::Failure(failure) => {
                StoredResult::Failure(self.seals.failure(key, token, failure, &limits)?)
            }
        };
        let fingerprint = match self.store.get(key).await? {
            Some(record) => self.seals.open_metadata(key, &record.info().metadata)?.1,
            None => None,
        };
        let metadata = self
            .seals
            .metadata(key, rewrite.metadata(), fingerprint.as_ref())?;
        Rewrite::new(key.clone(), token, result, metadata)
    }

    /// Returns the metadata for a list, which shows what it can: a note where there is no key.
    pub(super) fn shown_metadata(&self, key: &Key, stored: Metadata) -> Metadata {
        if envelope::in_metadata(&stored).is_none() {
            return stored;
        }
        match self.seals.open_metadata(key, &stored) {
            Ok((metadata, _)) => metadata,
            Err(error) => Metadata::new().with(envelope::ENTRY, error.to_string()),
        }
    }

    fn open_in_flight(
        &self,
        key: &Key,
        given: Option<&Fingerprint>,
        mut record: InFlight,
    ) -> Result<InFlight> {
        if !is_exempt(key) {
            self.seals.open_info(key, given, &mut record.info)?;
        }
        Ok(record)
    }

    fn open_completed(
        &self,
        key: &Key,
        given: Option<&Fingerprint>,
        mut record: Completed,
    ) -> Result<Completed> {
        if is_exempt(key) {
            record.response = self.shown_entry(record.response)?;
            return Ok(record);
        }
        let token = record.info.token;
        record.response = self.seals.open_response(key, token, record.response)?;
        self.seals.open_info(key, given, &mut record.info)?;
        Ok(record)
    }

    fn open_failed(
        &self,
        key: &Key,
        given: Option<&Fingerprint>,
        mut record: Failed,
    ) -> Result<Failed> {
        if !is_exempt(key) {
            let token = record.info.token;
            record.failure = self.seals.open_failure(key, token, record.failure)?;
            self.seals.open_info(key, given, &mut record.info)?;
        }
        Ok(record)
    }

    async fn replayed(&self, key: &Key, mut record: Completed) -> Result<Completed> {
        if !is_exempt(key) {
            record.response = self.forms.replayed(key, record.response).await?;
        }
        Ok(record)
    }

    /// Decrypts the metadata of the record that an audit entry has kept.
    fn shown_entry(&self, response: Response) -> Result<Response> {
        let entry: Result<AuditEntry> = response.from_json();
        let Ok(AuditEntry {
            before: Some(_), ..
        }) = &entry
        else {
            return Ok(response);
        };
        let mut entry = entry?;
        if let Some(before) = &mut entry.before {
            let metadata = std::mem::take(&mut before.metadata);
            before.metadata = self.shown_metadata(&before.key, metadata);
        }
        let (_, _, body) = Response::json(&entry)?.into_parts();
        Ok(Response::new(response.status(), body))
    }
}

/// Returns whether the record is an audit entry. Stores write these themselves, in the transaction
/// of the forced step, so they stay in clear.
pub(super) fn is_exempt(key: &Key) -> bool {
    key.operation() == AUDIT_OPERATION
}
