//! The record in the caller's own `TransactWriteItems`.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use aws_sdk_dynamodb::config::interceptors::BeforeTransmitInterceptorContextMut;
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{CancellationReason, TransactWriteItem};
use idem_core::backend::decision::StepDecision;
use idem_core::backend::{FinalResult, check};
use idem_core::{
    Advance, AttemptId, Bytes, Checkpoint, Claim, Effect, Error, ErrorKind, Failure, Key, Response,
    Result,
};

use crate::codes::CONFLICTS;
use crate::error::{Access, changed_too_often};
use crate::operations::{Operations, ended, held};
use crate::row::{Item, Row};
use crate::session::{MAX_RETRIES, Session, pause};
use crate::statements::{self, Update, Writer};
use crate::store::{DynamoStore, at};
use crate::watermark::met;

/// The codes of reasons after which the same transaction may succeed.
const PASSING: [&str; 4] = [
    "TransactionConflict",
    "ThrottlingError",
    "ProvisionedThroughputExceeded",
    "RequestLimitExceeded",
];
const CONDITION: &str = "ConditionalCheckFailed";
const NONE: &str = "None";

/// A `TransactWriteItems` in the making: the caller's items, and steps of the store.
///
/// DynamoDB commits all of it or nothing. It takes at most 100 items and 4 MB, and no item twice, so
/// a transaction has at most one step for each key.
#[derive(Clone)]
pub struct Transaction {
    token: String,
    items: Vec<TransactWriteItem>,
    parts: Vec<Part>,
    body: FirstBody,
}

/// The text that was sent first, with which each repetition is sent.
///
/// The service refuses a token that comes with other parameters
/// (<https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html>).
/// The SDK writes maps in their own order, which a copy of a map need not have.
#[derive(Clone, Default)]
struct FirstBody(Arc<OnceLock<Bytes>>);

/// Does not show the text.
impl fmt::Debug for FirstBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FirstBody")
    }
}

impl Intercept for FirstBody {
    fn name(&self) -> &'static str {
        "idem first body"
    }

    fn modify_before_retry_loop(
        &self,
        context: &mut BeforeTransmitInterceptorContextMut<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let body = context.request_mut().body_mut();
        let sent = body.bytes().ok_or("the request is not in memory")?;
        let first = self.0.get_or_init(|| Bytes::copy_from_slice(sent));
        *body = first.clone().into();
        Ok(())
    }
}

/// Whose item it is.
#[derive(Clone)]
enum Part {
    /// The caller's, with its index among the caller's.
    Caller(usize),
    Step(Step),
}

#[derive(Clone)]
enum Step {
    End {
        claim: Claim,
        result: FinalResult,
        now: i64,
    },
    Checkpoint {
        claim: Claim,
        stored: Bytes,
        now: i64,
    },
    Advance {
        version: i64,
        writer: Writer,
    },
}

/// What became of a transaction.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum TransactionOutcome {
    /// Everything is committed.
    Committed,
    /// The record shows that this step was committed before: by this transaction, whose answer was
    /// lost. Nothing was committed again.
    CommittedBefore,
    /// Nothing was committed, because a watermark is not below the version.
    NotAdvanced(Advance),
    /// Nothing was committed, because of one of the caller's items. The claim is still held.
    Refused(Refusal),
}

/// Why one of the caller's items was refused.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Refusal {
    /// The number that [`Transaction::push`] returned for the item.
    pub index: usize,
    /// The service's code, such as `ConditionalCheckFailed`.
    pub code: String,
    /// The item before the write, if the caller's write requested it.
    pub item: Option<Item>,
}

/// Does not show the item.
impl fmt::Debug for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refusal")
            .field("index", &self.index)
            .field("code", &self.code)
            .field("has_item", &self.item.is_some())
            .finish()
    }
}

/// Shows the number of items, not the items.
impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction")
            .field("items", &self.items.len())
            .finish_non_exhaustive()
    }
}

impl Default for Transaction {
    fn default() -> Self {
        Self::new()
    }
}

impl Transaction {
    /// Creates an empty transaction with a client request token of its own. Under it the service
    /// commits the transaction once, however often it is sent within ten minutes.
    #[must_use]
    pub fn new() -> Self {
        let random = u128::from_be_bytes(*AttemptId::random().as_bytes());
        Self {
            token: format!("{random:032x}"),
            items: Vec::new(),
            parts: Vec::new(),
            body: FirstBody::default(),
        }
    }

    /// Adds an item of the caller's. Returns its number, from 0, for [`Refusal::index`].
    pub fn push(&mut self, item: TransactWriteItem) -> usize {
        self.body = FirstBody::default();
        let is_callers = |part: &&Part| matches!(part, Part::Caller(_));
        let index = self.parts.iter().filter(is_callers).count();
        self.items.push(item);
        self.parts.push(Part::Caller(index));
        index
    }

    fn push_step(&mut self, table: &str, update: &Update, step: Step) -> Result<()> {
        let update = update.in_transaction(table)?;
        self.body = FirstBody::default();
        self.items
            .push(TransactWriteItem::builder().update(update).build());
        self.parts.push(Part::Step(step));
        Ok(())
    }

    /// Returns the items, in the order in which they were added, for callers who send them
    /// themselves. Steps of the store are among them.
    #[must_use]
    pub fn items(&self) -> &[TransactWriteItem] {
        &self.items
    }

    /// Returns the client request token to send with [`items`](Self::items).
    #[must_use]
    pub fn client_request_token(&self) -> &str {
        &self.token
    }

    /// Decodes the reasons for which the service has canceled [`items`](Self::items).
    ///
    /// # Errors
    ///
    /// `ClaimLost` or `AlreadySealed` for a step whose claim is no longer held; `Contention` or
    /// `Unavailable` when the same transaction may succeed if it is sent again; `Misconfigured`.
    pub fn canceled(&self, reasons: &[CancellationReason]) -> Result<TransactionOutcome> {
        if reasons.len() != self.parts.len() {
            return Err(Error::new(
                ErrorKind::Corrupt,
                Effect::None,
                "the service has canceled the transaction without a reason for each item",
            ));
        }
        let of = |reason: &CancellationReason| reason.code.clone().unwrap_or_default();
        let codes: Vec<_> = reasons.iter().map(of).collect();
        let (mut outcome, mut refused) = (None, None);
        for ((part, reason), code) in self.parts.iter().zip(reasons).zip(&codes) {
            let is_refused = code == CONDITION;
            match part {
                Part::Step(step) if is_refused => {
                    let met = step.refused_by(reason.item.clone().map(Row::new))?;
                    outcome.get_or_insert(met);
                }
                Part::Caller(index) if is_refused => {
                    refused.get_or_insert(Refusal {
                        index: *index,
                        code: code.clone(),
                        item: reason.item.clone(),
                    });
                }
                Part::Step(_) | Part::Caller(_) => {}
            }
        }
        if let Some(outcome) = outcome.or(refused.map(TransactionOutcome::Refused)) {
            return Ok(outcome);
        }
        if let Some(code) = codes.iter().find(|code| PASSING.contains(&code.as_str())) {
            return Err(passing(code));
        }
        let broken = self
            .parts
            .iter()
            .zip(&codes)
            .find(|(_, code)| *code != NONE);
        match broken {
            Some((Part::Caller(index), code)) => Ok(TransactionOutcome::Refused(Refusal {
                index: *index,
                code: code.clone(),
                item: None,
            })),
            Some((Part::Step(_), _)) | None => Err(Error::new(
                ErrorKind::Misconfigured,
                Effect::None,
                "the service refuses the store's part of the transaction: the item would be above \
                 400 KiB, or the table has another key than this store's; run `verify()`",
            )),
        }
    }
}

impl Step {
    /// Returns the outcome for the item that has refused the step.
    fn refused_by(&self, row: Option<Row>) -> Result<TransactionOutcome> {
        match self {
            Self::End { claim, result, now } => match ended(row.as_ref(), claim, result, *now)? {
                StepDecision::Done => Ok(TransactionOutcome::CommittedBefore),
                StepDecision::Lost => Err(Error::claim_lost()),
                StepDecision::AlreadySealed => Err(Error::already_sealed()),
                StepDecision::Apply => Err(changed_too_often(1)),
            },
            Self::Checkpoint { claim, stored, now } => {
                let mut row = held(row, claim, *now)?;
                match row.take_checkpoint()? {
                    Some(found) if found == *stored => Ok(TransactionOutcome::CommittedBefore),
                    _ => Err(changed_too_often(1)),
                }
            }
            Self::Advance { version, writer } => {
                let row = row.ok_or_else(|| changed_too_often(1))?;
                Ok(match met(&row, *version, writer)? {
                    Advance::Advanced => TransactionOutcome::CommittedBefore,
                    advance => TransactionOutcome::NotAdvanced(advance),
                })
            }
        }
    }
}

fn passing(code: &str) -> Error {
    match code {
        "TransactionConflict" => Error::new(
            ErrorKind::Contention,
            Effect::None,
            "another transaction is changing one of the items; send the same transaction again",
        ),
        _ => Error::new(
            ErrorKind::Unavailable,
            Effect::None,
            "the service throttles one of the tables; send the same transaction again later",
        ),
    }
}

/// The record and the caller's own items commit together: the only true exactly-once.
///
/// Claim outside, so that other callers see the key in flight while the work runs. Then add the
/// caller's items and the end of the claim to one [`Transaction`], and [`commit`](Self::commit) it at
/// once: the instants in it are those of the steps.
impl DynamoStore {
    /// Adds [`complete`](idem_core::IdempotencyStore::complete) to the transaction.
    ///
    /// # Errors
    ///
    /// `InvalidInput`; `Unavailable` or `Misconfigured` when the service's clock is not known.
    /// Whether the claim is still held, the commit finds out.
    ///
    /// # Cancellation
    ///
    /// Nothing is added.
    pub async fn complete_in(
        &self,
        transaction: &mut Transaction,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        let limits = self.operations.config.limits();
        let result = FinalResult::completed(response, retention, &limits);
        let ended = self.operations.end_in(transaction, claim, result);
        ended.await.map_err(at("complete_in"))
    }

    /// Adds [`fail`](idem_core::IdempotencyStore::fail) to the transaction.
    ///
    /// # Errors
    ///
    /// As for [`complete_in`](Self::complete_in).
    ///
    /// # Cancellation
    ///
    /// Nothing is added.
    pub async fn fail_in(
        &self,
        transaction: &mut Transaction,
        claim: &Claim,
        failure: &Failure,
        retention: Duration,
    ) -> Result<()> {
        let limits = self.operations.config.limits();
        let result = FinalResult::failed(failure, retention, &limits);
        let ended = self.operations.end_in(transaction, claim, result);
        ended.await.map_err(at("fail_in"))
    }

    /// Adds [`checkpoint`](idem_core::CheckpointStore::checkpoint) to the transaction: the step's own
    /// items and the checkpoint commit together.
    ///
    /// A checkpoint that equals the stored one counts as
    /// [`CommittedBefore`](TransactionOutcome::CommittedBefore), so give each step's another name or
    /// other data.
    ///
    /// # Errors
    ///
    /// As for [`complete_in`](Self::complete_in).
    ///
    /// # Cancellation
    ///
    /// Nothing is added.
    pub async fn checkpoint_in(
        &self,
        transaction: &mut Transaction,
        claim: &Claim,
        checkpoint: &Checkpoint,
    ) -> Result<()> {
        let added = self
            .operations
            .checkpoint_in(transaction, claim, checkpoint);
        added.await.map_err(at("checkpoint_in"))
    }

    /// Adds [`advance`](idem_core::WatermarkStore::advance) to the transaction, which commits only if
    /// the mark is below the version.
    ///
    /// # Errors
    ///
    /// As for [`complete_in`](Self::complete_in).
    ///
    /// # Cancellation
    ///
    /// Nothing is added.
    pub async fn advance_in(
        &self,
        transaction: &mut Transaction,
        source: &Key,
        version: u64,
        retention: Duration,
    ) -> Result<()> {
        let added = self
            .operations
            .advance_in(transaction, source, version, retention);
        added.await.map_err(at("advance_in"))
    }

    /// Commits the transaction. Repeats it while other transactions change the same items, or a
    /// table is throttled, for [`Config::with_timeout`](crate::Config::with_timeout) at most.
    ///
    /// # Errors
    ///
    /// `ClaimLost`: another attempt does the work, and nothing was committed. `AlreadySealed`;
    /// `Contention`, `Unavailable`: after an unknown effect, commit the same transaction again.
    /// `Misconfigured`.
    ///
    /// # Cancellation
    ///
    /// The transaction is committed or not; commit it again to find out.
    pub async fn commit(&self, transaction: &Transaction) -> Result<TransactionOutcome> {
        let session = self.operations.session();
        let committed = self.operations.commit(&session, transaction);
        committed.await.map_err(at("commit"))
    }
}

impl Operations {
    async fn end_in(
        &self,
        transaction: &mut Transaction,
        claim: &Claim,
        result: Result<FinalResult>,
    ) -> Result<()> {
        let result = result?;
        let now = self.now(&self.session()).await?.micros;
        let update = statements::finish(claim, &result, now);
        let claim = claim.clone();
        let step = Step::End { claim, result, now };
        transaction.push_step(self.config.table(), &update, step)
    }

    async fn checkpoint_in(
        &self,
        transaction: &mut Transaction,
        claim: &Claim,
        checkpoint: &Checkpoint,
    ) -> Result<()> {
        let stored = self.encoded_checkpoint(checkpoint)?;
        let now = self.now(&self.session()).await?.micros;
        let update = statements::next_checkpoint(claim, &stored, now);
        let claim = claim.clone();
        let step = Step::Checkpoint { claim, stored, now };
        transaction.push_step(self.config.table(), &update, step)
    }

    async fn advance_in(
        &self,
        transaction: &mut Transaction,
        source: &Key,
        version: u64,
        retention: Duration,
    ) -> Result<()> {
        let version = check::version(version)?;
        let retention = check::retention(retention)?;
        let now = self.now(&self.session()).await?.micros;
        let writer = Writer::random();
        let update = statements::advance(source, version, &writer, retention, now);
        let step = Step::Advance { version, writer };
        transaction.push_step(self.config.table(), &update, step)
    }

    async fn commit(
        &self,
        session: &Session,
        transaction: &Transaction,
    ) -> Result<TransactionOutcome> {
        let mut is_unknown = false;
        let mut tries = 0;
        loop {
            let request = self
                .client
                .transact_write_items()
                .client_request_token(&transaction.token)
                .set_transact_items(Some(transaction.items.clone()));
            let answer = session
                .send(&self.clock, Access::Write, |watch| {
                    let body = transaction.body.clone();
                    let request = request.customize().interceptor(watch);
                    request.interceptor(body).send()
                })
                .await;
            let since = |error: Error, is_unknown| match is_unknown {
                true => error.with_effect(Effect::Unknown),
                false => error,
            };
            let failed = match answer.map_err(|error| since(error, is_unknown))? {
                Ok(_) => return Ok(TransactionOutcome::Committed),
                Err(failed) => failed,
            };
            tries += 1;
            is_unknown |= failed.is_unknown;
            let error = match failed.service_error() {
                // A cancellation is final for all tries of the same token: had one of them been
                // committed, the service would say so.
                Some(TransactWriteItemsError::TransactionCanceledException(canceled)) => {
                    match transaction.canceled(canceled.cancellation_reasons()) {
                        Err(error) if error.is_retryable() => error,
                        decided => return decided,
                    }
                }
                _ if failed.code().is_some_and(|code| CONFLICTS.contains(&code)) => {
                    failed.classify(Access::Write)
                }
                _ => return Err(since(failed.classify(Access::Write), is_unknown)),
            };
            if tries > MAX_RETRIES {
                return Err(since(error, is_unknown));
            }
            pause(tries).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::AttributeValue;
    use idem_core::{FencingToken, Timestamp};

    use super::*;

    fn claim() -> Claim {
        let key = Key::new("tenant", "pay", "1").unwrap();
        let at = Timestamp::from_micros;
        let token = FencingToken::from_i64(7);
        Claim::new(key, token, AttemptId::random(), 1, at(5), at(900))
    }

    /// A transaction of an item of the caller's and the end of a claim.
    fn transaction(claim: &Claim) -> Transaction {
        let mut transaction = Transaction::new();
        let item = TransactWriteItem::builder().build();
        assert_eq!(transaction.push(item), 0);
        let result = FinalResult::released();
        let update = statements::finish(claim, &result, 6);
        let (claim, now) = (claim.clone(), 6);
        let step = Step::End { claim, result, now };
        transaction.push_step("table", &update, step).unwrap();
        transaction
    }

    fn reason(code: &str) -> CancellationReason {
        CancellationReason::builder().code(code).build()
    }

    #[test]
    fn a_refusal_names_the_callers_item() {
        let transaction = transaction(&claim());
        let refused = CancellationReason::builder()
            .code(CONDITION)
            .item("id", AttributeValue::S("secret".to_owned()))
            .build();
        let outcome = transaction.canceled(&[refused, reason(NONE)]).unwrap();
        let TransactionOutcome::Refused(refusal) = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!((refusal.index, refusal.code.as_str()), (0, CONDITION));
        assert!(refusal.item.is_some() && !format!("{refusal:?}").contains("secret"));
        let broken = transaction.canceled(&[reason("ValidationError"), reason(NONE)]);
        assert!(matches!(broken, Ok(TransactionOutcome::Refused(_))));
    }

    #[test]
    fn a_claim_that_is_gone_is_lost_whatever_else_was_refused() {
        let transaction = transaction(&claim());
        let both = [reason(CONDITION), reason(CONDITION)];
        assert!(transaction.canceled(&both).unwrap_err().is_claim_lost());
    }

    #[test]
    fn conflicts_and_throttling_may_be_repeated() {
        let transaction = transaction(&claim());
        for (code, kind) in [
            ("TransactionConflict", ErrorKind::Contention),
            ("ThrottlingError", ErrorKind::Unavailable),
        ] {
            for reasons in [[reason(code), reason(NONE)], [reason(NONE), reason(code)]] {
                let error = transaction.canceled(&reasons).unwrap_err();
                assert_eq!((error.kind(), error.effect()), (kind, Effect::None));
            }
        }
        let of_the_store = [reason(NONE), reason("ValidationError")];
        let error = transaction.canceled(&of_the_store).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        let error = transaction.canceled(&[]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn tokens_fit_into_what_the_service_takes() {
        let (one, two) = (Transaction::new(), Transaction::new());
        assert!(one.token.len() <= 36 && one.token != two.token);
        assert_eq!(format!("{one:?}"), "Transaction { items: 0, .. }");
    }
}
