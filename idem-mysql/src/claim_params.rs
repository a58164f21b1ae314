//! [`ClaimParams`]: a claim, as statements take it.

use idem_core::backend::check;
use idem_core::{
    AttemptId, Claim, ClaimRequest, FailedPolicy, FencingToken, Key, Result, StalePolicy, Timestamp,
};
use idem_sql::batch::Item;

use crate::config::Config;
use crate::session::Query;
use crate::statements::{Statement, bind_key};

/// A checked claim in the form that statements take.
#[derive(Debug)]
pub(crate) struct ClaimParams<'r> {
    pub(crate) request: &'r ClaimRequest,
    fingerprint: Vec<u8>,
    attempt: AttemptId,
    lease: i64,
    kept: i64,
    sweep: Option<i64>,
    metadata: Option<String>,
}

impl<'r> ClaimParams<'r> {
    pub(crate) fn new(request: &'r ClaimRequest, config: &Config) -> Result<Self> {
        let checked = check::claim(request, &config.limits())?;
        Ok(Self {
            request,
            fingerprint: request.fingerprint().to_bytes().to_vec(),
            attempt: request.attempt(),
            lease: checked.lease,
            kept: checked.lease + checked.retention,
            sweep: (request.on_stale() == StalePolicy::Fail).then_some(checked.lease),
            metadata: checked.metadata,
        })
    }

    /// Returns the claim that an insert with this token has won: the token is the server's clock.
    pub(crate) fn inserted(&self, token: i64) -> Claim {
        Claim::new(
            self.request.key().clone(),
            FencingToken::from_i64(token),
            self.attempt,
            1,
            Timestamp::from_micros(token),
            Timestamp::from_micros(token + self.lease),
        )
    }

    /// Binds the parameters of one inserted row.
    pub(crate) fn bind_row<'q>(&'q self, query: Query<'q>) -> Query<'q> {
        let query = query.bind(self.lease).bind(self.kept).bind(self.sweep);
        bind_key(query, self.request.key())
            .bind(&self.fingerprint[..])
            .bind(&self.attempt.as_bytes()[..])
            .bind(self.metadata.as_ref().map(String::as_bytes))
    }

    pub(crate) fn take<'q>(&'q self, statement: &Statement) -> Query<'q> {
        let attempt = &self.attempt.as_bytes()[..];
        let query = sqlx::query(statement.text())
            .bind(attempt)
            .bind(attempt)
            .bind(self.lease)
            .bind(self.kept)
            .bind(self.sweep)
            .bind(&self.fingerprint[..])
            .bind(attempt)
            .bind(self.metadata.as_ref().map(String::as_bytes));
        bind_key(query, self.request.key())
            .bind(&self.fingerprint[..])
            .bind(attempt)
            .bind(self.request.on_stale() == StalePolicy::Fail)
            .bind(self.request.on_failed() == FailedPolicy::Retry)
    }

    pub(crate) fn lookup<'q>(&'q self, statement: &Statement) -> Query<'q> {
        bind_key(sqlx::query(statement.text()), self.request.key())
    }
}

impl Item for ClaimParams<'_> {
    fn key(&self) -> &Key {
        self.request.key()
    }

    fn bytes(&self) -> usize {
        self.metadata.as_ref().map_or(0, String::len)
    }
}
