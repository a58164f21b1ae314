//! The operations.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure as OnFailure};
use idem_core::backend::decision::{
    ClaimDecision, StepDecision, decide, decide_release, decide_renewal, decide_seal,
};
use idem_core::backend::{DuplicateEstimator, FinalResult, check, encode_failure};
use idem_core::{
    Claim, ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind, Failure, Key, Record, Result,
    Timestamp,
};

use crate::clock::{Clock, Now};
use crate::codes::CONFLICTS;
use crate::config::{Config, LookupFirst};
use crate::error::{Access, Failed, changed_too_often, clock_unknown};
use crate::row::Row;
use crate::session::{MAX_RETRIES, Session, pause};
use crate::statements::{self, Acquisition, ClaimParams, Update, Writer, attribute, record_key};

/// The partition key of the item that is read, and never there, when only the service's clock is
/// needed.
pub(crate) const NO_ITEM: &str = "c:";

/// The state that all operations share, besides a session.
pub(crate) struct Operations {
    pub(crate) config: Config,
    pub(crate) client: Client,
    pub(crate) clock: Arc<Clock>,
    estimator: DuplicateEstimator,
}

/// The result of a conditional write.
pub(crate) enum Changed {
    /// It is done.
    Done,
    /// The condition refused it: the item as it was then; `None` where there was none.
    Refused(Option<Row>),
}

/// Returns whether a refusal means that another transaction holds the item.
fn is_conflict(failed: &Failed<UpdateItemError>) -> bool {
    failed.code().is_some_and(|code| CONFLICTS.contains(&code))
}

impl Operations {
    pub(crate) fn new(client: Client, config: Config) -> Self {
        Self {
            clock: Arc::new(Clock::new(config.max_clock_skew())),
            client,
            config,
            estimator: DuplicateEstimator::new(),
        }
    }

    pub(crate) fn session(&self) -> Session {
        Session::new(&self.config)
    }

    /// Returns the service's time, and measures it first where it is not known.
    pub(crate) async fn now(&self, session: &Session) -> Result<Now> {
        if let Some(now) = self.clock.now() {
            return Ok(now);
        }
        // A second answer may be faster, or narrow the bounds.
        let mut has_date = false;
        for _ in 0..2 {
            self.read_item(session, NO_ITEM.to_owned(), Access::Read)
                .await?;
            if let Some(now) = self.clock.now() {
                return Ok(now);
            }
            has_date |= self.clock.is_measured();
        }
        Err(clock_unknown(has_date))
    }

    /// Reads an item, as of the latest acknowledged write.
    pub(crate) async fn read_item(
        &self,
        session: &Session,
        partition: String,
        sent: Access,
    ) -> Result<Option<Row>> {
        let request = self
            .client
            .get_item()
            .table_name(self.config.table())
            .key(attribute::KEY, AttributeValue::S(partition))
            .consistent_read(true);
        let answer = session
            .send(&self.clock, sent, |watch| {
                request.customize().interceptor(watch).send()
            })
            .await?;
        match answer {
            Ok(found) => Ok(found.item.map(Row::new)),
            Err(failed) => Err(failed.classify(sent)),
        }
    }

    /// Reads the record of the key.
    pub(crate) async fn read(&self, session: &Session, key: &Key) -> Result<Option<Row>> {
        self.read_item(session, record_key(key), Access::Read).await
    }

    /// Sends a conditional write, and repeats it while another transaction holds the item.
    pub(crate) async fn update(&self, session: &Session, update: &Update) -> Result<Changed> {
        // Whether an earlier round may have had an effect that this one's error does not tell.
        let is_unknown = AtomicBool::new(false);
        let mut tries = 0;
        loop {
            let request = self
                .client
                .update_item()
                .table_name(self.config.table())
                .set_key(Some(update.key()))
                .update_expression(update.expression())
                .condition_expression(update.condition())
                .set_expression_attribute_names(Some(update.names()))
                .set_expression_attribute_values(Some(update.values()))
                .return_values_on_condition_check_failure(OnFailure::AllOld);
            let answer = session
                .send(&self.clock, Access::Write, |watch| {
                    request.customize().interceptor(watch).send()
                })
                .await;
            let failed = match answer.map_err(|error| since(error, &is_unknown))? {
                Ok(_) => return Ok(Changed::Done),
                Err(failed) => failed,
            };
            if let Some(UpdateItemError::ConditionalCheckFailedException(refused)) =
                failed.service_error()
            {
                return Ok(Changed::Refused(refused.item.clone().map(Row::new)));
            }
            tries += 1;
            is_unknown.fetch_or(failed.is_unknown, Ordering::Relaxed);
            if !is_conflict(&failed) || tries > MAX_RETRIES {
                return Err(since(failed.classify(Access::Write), &is_unknown));
            }
            pause(tries).await;
        }
    }

    fn looks_up_first(&self, key: &Key) -> bool {
        match self.config.lookup_first() {
            LookupFirst::WhereDuplicatesAreExpected => self.estimator.expects_duplicate(key),
            LookupFirst::Never => false,
            LookupFirst::Always => true,
        }
    }

    /// Claims a key, and records the outcome in the estimator.
    pub(crate) async fn claim(
        &self,
        session: &Session,
        request: &ClaimRequest,
    ) -> Result<ClaimOutcome> {
        let checked = check::claim(request, &self.config.limits())?;
        let params = ClaimParams::new(request, checked);
        let outcome = self.claim_checked(session, &params).await?;
        let acquired = matches!(outcome, ClaimOutcome::Acquired(_));
        self.estimator.record(request.key(), !acquired);
        Ok(outcome)
    }

    async fn claim_checked(
        &self,
        session: &Session,
        params: &ClaimParams<'_>,
    ) -> Result<ClaimOutcome> {
        let request = params.request;
        let failure = encode_failure(&Failure::abandoned())?;
        let mut seen = match self.looks_up_first(request.key()) {
            true => self.read(session, request.key()).await?,
            false => None,
        };
        for tries in 1..=MAX_RETRIES {
            let now = self.now(session).await?.micros;
            let facts = seen.as_ref().map(Row::facts).transpose()?;
            let decision = decide(facts.as_ref(), request, Timestamp::from_micros(now));
            seen = match (decision, seen) {
                (ClaimDecision::Report, Some(row)) => return row.loses(request, now),
                (ClaimDecision::Abandon, Some(row)) => {
                    let partition = record_key(request.key());
                    let writer = Writer::random();
                    let update = statements::abandon(partition, &row, &failure, &writer, now)?;
                    match self.update(session, &update).await? {
                        Changed::Done => return row.abandoned(&failure, now).loses(request, now),
                        // A try of this write whose answer was lost.
                        Changed::Refused(Some(met)) if met.is_written_by(&writer) => {
                            return met.loses(request, now);
                        }
                        Changed::Refused(met) => met,
                    }
                }
                (decision, seen) => {
                    let acquired = Acquisition::new(params, decision, seen.as_ref(), now)?;
                    let update = statements::acquire(params, decision, seen.as_ref(), &acquired)?;
                    match self.update(session, &update).await? {
                        Changed::Done => {
                            return Ok(ClaimOutcome::Acquired(acquired.claim(request)));
                        }
                        Changed::Refused(Some(met)) if acquired.has_written(&met, request)? => {
                            return Ok(ClaimOutcome::Acquired(acquired.claim(request)));
                        }
                        Changed::Refused(met) => met,
                    }
                }
            };
            // The record that refused the first write usually decides at once.
            if tries > 1 {
                pause(tries).await;
            }
        }
        Err(changed_too_often(MAX_RETRIES))
    }

    /// Seals or releases.
    pub(crate) async fn finish(
        &self,
        session: &Session,
        claim: &Claim,
        result: &FinalResult,
    ) -> Result<()> {
        for tries in 1..=MAX_RETRIES {
            let now = self.now(session).await?.micros;
            let update = statements::finish(claim, result, now);
            let Changed::Refused(row) = self.update(session, &update).await? else {
                return Ok(());
            };
            match ended(row.as_ref(), claim, result, now)? {
                StepDecision::Apply => pause(tries).await,
                StepDecision::Done => return Ok(()),
                StepDecision::Lost => return Err(Error::claim_lost()),
                StepDecision::AlreadySealed => return Err(Error::already_sealed()),
            }
        }
        Err(changed_too_often(MAX_RETRIES))
    }

    pub(crate) async fn renew(
        &self,
        session: &Session,
        claim: &Claim,
        lease: Duration,
    ) -> Result<Claim> {
        let lease = check::lease(lease)?;
        let mut known = claim.lease_ends_at().as_micros();
        for tries in 1..=MAX_RETRIES {
            let now = self.now(session).await?.micros;
            let (update, ends_at) = statements::renew(claim, known, lease, now);
            let Changed::Refused(row) = self.update(session, &update).await? else {
                return Ok(renewed(claim, now, ends_at));
            };
            let row = held(row, claim, now)?;
            known = row.number(attribute::LEASE_ENDS_AT)?;
            pause(tries - 1).await;
        }
        Err(changed_too_often(MAX_RETRIES))
    }

    pub(crate) async fn get(&self, session: &Session, key: &Key) -> Result<Option<Record>> {
        let row = self.read(session, key).await?;
        let now = self.now(session).await?.micros;
        row.map_or(Ok(None), |row| row.record(now))
    }
}

/// Decides what the end of a claim means for the record that refused it.
pub(crate) fn ended(
    row: Option<&Row>,
    claim: &Claim,
    result: &FinalResult,
    now: i64,
) -> Result<StepDecision> {
    let facts = row.map(Row::facts).transpose()?;
    let now = Timestamp::from_micros(now);
    if result.is_release() {
        return Ok(decide_release(facts.as_ref(), claim, now));
    }
    let state = row.map(Row::state).transpose()?;
    let stored = row.and_then(Row::result);
    let is_same = || state.is_some_and(|state| result.is_same(state, stored));
    Ok(decide_seal(facts.as_ref(), claim, is_same, now))
}

/// Returns the record that the claim holds in flight.
///
/// # Errors
///
/// `ClaimLost` when it does not.
pub(crate) fn held(row: Option<Row>, claim: &Claim, now: i64) -> Result<Row> {
    let row = row.ok_or_else(Error::claim_lost)?;
    let now = Timestamp::from_micros(now);
    match decide_renewal(Some(&row.facts()?), claim, now) {
        StepDecision::Apply => Ok(row),
        _ => Err(Error::claim_lost()),
    }
}

/// Gives an error an unknown effect, if an earlier try may have had one.
fn since(error: Error, is_unknown: &AtomicBool) -> Error {
    match is_unknown.load(Ordering::Relaxed) {
        true if error.kind() != ErrorKind::InvalidInput => error.with_effect(Effect::Unknown),
        _ => error,
    }
}

fn renewed(claim: &Claim, now: i64, ends_at: i64) -> Claim {
    Claim::new(
        claim.key().clone(),
        claim.token(),
        claim.attempt(),
        claim.attempts(),
        Timestamp::from_micros(now),
        Timestamp::from_micros(ends_at),
    )
}
