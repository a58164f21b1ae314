//! [`Seals`] without the feature `encryption`: nothing is encrypted, and nothing encrypted is read.

use super::envelope;
use crate::{
    Checkpoint, ClaimRequest, Effect, Error, ErrorKind, Failure, FencingToken, Fingerprint, Key,
    Limits, Metadata, RecordInfo, Response, Result,
};

/// No secrets.
#[derive(Debug, Clone, Default)]
pub(super) struct Seals {}

impl Seals {
    pub(super) fn limits(&self, limits: Limits) -> Limits {
        limits
    }

    pub(super) fn encrypts(&self) -> bool {
        false
    }

    pub(super) fn metadata(
        &self,
        _key: &Key,
        metadata: &Metadata,
        _fingerprint: Option<&Fingerprint>,
    ) -> Result<Metadata> {
        Ok(metadata.clone())
    }

    pub(super) fn request(&self, request: &ClaimRequest) -> Result<ClaimRequest> {
        Ok(request.clone())
    }

    pub(super) fn request_as(
        &self,
        _request: &ClaimRequest,
        _stored: &Fingerprint,
    ) -> Result<Option<ClaimRequest>> {
        Ok(None)
    }

    pub(super) fn response(
        &self,
        _key: &Key,
        _token: FencingToken,
        response: &Response,
        _limits: &Limits,
    ) -> Result<Response> {
        Ok(response.clone())
    }

    pub(super) fn failure(
        &self,
        _key: &Key,
        _token: FencingToken,
        failure: &Failure,
        _limits: &Limits,
    ) -> Result<Failure> {
        Ok(failure.clone())
    }

    pub(super) fn checkpoint(
        &self,
        _key: &Key,
        checkpoint: &Checkpoint,
        _limits: &Limits,
    ) -> Result<Checkpoint> {
        Ok(checkpoint.clone())
    }

    pub(super) fn open_response(
        &self,
        _key: &Key,
        _token: FencingToken,
        stored: Response,
    ) -> Result<Response> {
        plain(envelope::in_response(&stored).is_some())?;
        Ok(stored)
    }

    pub(super) fn open_failure(
        &self,
        _key: &Key,
        _token: FencingToken,
        stored: Failure,
    ) -> Result<Failure> {
        plain(envelope::in_failure(&stored).is_some())?;
        Ok(stored)
    }

    pub(super) fn open_checkpoint(&self, _key: &Key, stored: Checkpoint) -> Result<Checkpoint> {
        plain(envelope::in_checkpoint(&stored).is_some())?;
        Ok(stored)
    }

    pub(super) fn open_metadata(
        &self,
        _key: &Key,
        stored: &Metadata,
    ) -> Result<(Metadata, Option<Fingerprint>)> {
        plain(envelope::in_metadata(stored).is_some())?;
        Ok((stored.clone(), None))
    }

    pub(super) fn open_info(
        &self,
        key: &Key,
        _given: Option<&Fingerprint>,
        info: &mut RecordInfo,
    ) -> Result<()> {
        self.open_metadata(key, &info.metadata).map(drop)
    }
}

fn plain(is_encrypted: bool) -> Result<()> {
    if !is_encrypted {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Misconfigured,
        Effect::None,
        "a record is encrypted; build with the feature `encryption` of idem-core, and give the \
         store its keys",
    ))
}
