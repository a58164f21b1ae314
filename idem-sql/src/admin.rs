//! Lists and forced steps.

use std::pin::Pin;

use idem_core::admin::{
    Cursor, ForcedStep, RecordFilter, RecordPage, RecordSummary, Rewrite, SummaryState,
};
use idem_core::backend::{FinalResult, check};
use idem_core::{BoxError, Effect, Error, ErrorKind, Key, Result};

use crate::cells::{Columns, Row};
use crate::operations::{Operations, Read, Write};
use crate::parameters::{Parameter, Value, Values};

/// Boxed, because the compiler does not see that the future can be sent, where the session has a
/// lifetime of its own (<https://github.com/rust-lang/rust/issues/100013>).
type Boxed<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// The bytes of the result, after the columns of the record.
const RESULT_BYTES: usize = Columns::AFTER;
/// Scope, operation and id, as texts or as their bytes.
const KEY: usize = RESULT_BYTES + 1;

/// Reads a page of records in the order of the primary key.
///
/// # Errors
///
/// `InvalidInput` for a limit outside its bounds and for a cursor of another store; others as for a
/// read.
pub fn list<'a, O: Operations>(
    operations: &'a O,
    session: &'a mut O::Session<'_>,
    filter: &'a RecordFilter,
    after: Option<&'a Cursor>,
    limit: u32,
) -> Boxed<'a, RecordPage> {
    Box::pin(async move {
        let limit = check::batch(limit)?;
        let after = after.map(|cursor| Key::from_path(cursor.as_str()));
        let after = after.transpose().map_err(|_| Cursor::unreadable())?;
        let values = match &after {
            Some(key) => Values::of_key(key),
            // No part of a key is empty.
            None => [Parameter::Scope, Parameter::Operation, Parameter::Id]
                .into_iter()
                .fold(Values::default(), |values, part| {
                    values.with(part, Value::Text(""))
                }),
        };
        let values = values.with(Parameter::Limit, i64::from(limit));
        let rows = operations.list(session, &values).await?;
        let is_full = rows.len() >= limit as usize;
        let (mut records, mut last) = (Vec::with_capacity(rows.len()), None);
        for row in &rows {
            // Another program has written a row that is no key: nobody can name it.
            let Some(key) = key(row)? else { continue };
            records.extend(summary(row, key.clone())?);
            last = Some(key);
        }
        let next = is_full.then(|| {
            let last = last.ok_or_else(|| {
                Error::corrupt("none of the rows of a page has a key that can be read; delete them")
            });
            last.map(|last| Cursor::new(last.path()))
        });
        Ok(RecordPage::of(records, filter, next.transpose()?))
    })
}

/// Reads the record, expired or not.
///
/// # Errors
///
/// As for a read.
pub fn held<'a, O: Operations>(
    operations: &'a O,
    session: &'a mut O::Session<'_>,
    key: &'a Key,
) -> Boxed<'a, Option<RecordSummary>> {
    Box::pin(async move {
        let values = Values::of_key(key);
        let row = operations
            .read(session, key, Read::Summary, &values)
            .await?;
        row.map_or(Ok(None), |row| summary(&row, key.clone()))
    })
}

/// Takes a forced step on the record with its token and the state that was seen; returns whether
/// there was one.
///
/// # Errors
///
/// As for a release or a failure.
pub fn take<'a, O: Operations>(
    operations: &'a O,
    session: &'a mut O::Session<'_>,
    step: &'a ForcedStep,
    seen: SummaryState,
) -> Boxed<'a, bool> {
    Box::pin(async move {
        let Some(seen) = seen.stored() else {
            return Ok(false);
        };
        let result = FinalResult::forced(step.action(), &operations.limits())?;
        let topic = operations.topic(step.key());
        let values = Values::of_key(step.key())
            .with_result(&result)
            .with(Parameter::Token, step.token().as_i64())
            .with(Parameter::Seen, seen)
            .with(Parameter::Topic, Value::OptionalText(topic.as_deref()));
        let written = operations.write(session, step.key(), Write::Force, &values);
        Ok(written.await?.is_some())
    })
}

/// Replaces the stored forms of a sealed record with this token; returns whether there was one.
///
/// # Errors
///
/// As for a completion.
pub fn rewrite<'a, O: Operations>(
    operations: &'a O,
    session: &'a mut O::Session<'_>,
    rewrite: &'a Rewrite,
) -> Boxed<'a, bool> {
    Box::pin(async move {
        let checked = check::rewrite(rewrite, &operations.limits())?;
        let metadata = Value::OptionalText(checked.metadata.as_deref());
        let values = Values::of_key(rewrite.key())
            .with(Parameter::Token, rewrite.token().as_i64())
            .with(Parameter::Seen, rewrite.state())
            .with(Parameter::Result, Value::Bytes(checked.result[..].into()))
            .with(Parameter::Metadata, metadata);
        let written = operations.write(session, rewrite.key(), Write::Rewrite, &values);
        Ok(written.await?.is_some())
    })
}

fn key(row: &Row) -> Result<Option<Key>> {
    let row = Columns::of(row);
    let parts = [row.either(KEY)?, row.either(KEY + 1)?, row.either(KEY + 2)?];
    let [Some(scope), Some(operation), Some(id)] = parts else {
        return Ok(None);
    };
    Ok(Key::stored(scope, operation, id).ok())
}

fn summary(row: &Row, key: Key) -> Result<Option<RecordSummary>> {
    let row = Columns::of(row);
    let bytes = u64::try_from(row.number(RESULT_BYTES)?).unwrap_or(0);
    Ok(row.stored(row.now()?)?.summary(key, bytes))
}

/// Returns the error of a transaction, which is one of this family's, or of a driver.
#[must_use]
pub fn error(error: BoxError) -> Error {
    match error.downcast::<Error>() {
        Ok(error) => *error,
        Err(error) => {
            let message = "the transaction of the forced step failed";
            Error::new(ErrorKind::Other, Effect::Unknown, message).with_source(error)
        }
    }
}

/// Implements `RecordsIn` for a store and transactions of the type `$transactions`. `$session`
/// makes the session in one of them, for a record's key.
#[macro_export]
macro_rules! records_in {
    (
        [$($generics:tt)*] $store:ty, $transactions:ty,
        |$in:ident, $transaction:ident, $key:ident| $session:expr $(,)?
    ) => {
        const _: () = {
            use std::time::Duration;

            use $crate::macros::idem_core::backend::FinalResult;
            use $crate::macros::idem_core::{
                Claim, ClaimOutcome, ClaimRequest, IdempotencyStore as _, Response, Result,
            };
            use $crate::operations::Operations as _;

            impl<$($generics)*> $crate::transactions::RecordsIn<$transactions> for $store {
                fn is_same(&self, other: &Self) -> bool {
                    std::sync::Arc::ptr_eq(&self.operations, &other.operations)
                }

                async fn claims(
                    &self,
                    transaction: &mut $transactions,
                    request: &ClaimRequest,
                ) -> Result<ClaimOutcome> {
                    let ($in, $transaction, $key) = (self, transaction, request.key());
                    let mut session = $session?;
                    self.operations.claim(&mut session, request).await
                }

                async fn completes(
                    &self,
                    transaction: &mut $transactions,
                    claim: &Claim,
                    response: &Response,
                    retention: Duration,
                ) -> Result<()> {
                    let result = FinalResult::completed(response, retention, &self.limits())?;
                    let ($in, $transaction, $key) = (self, transaction, claim.key());
                    let mut session = $session?;
                    self.operations.finish(&mut session, claim, &result).await
                }
            }
        };
    };
}

/// Implements `RecordAdmin`. A forced step and its audit entry are one transaction of `$source`,
/// and `$session` makes the session in it for a record's key.
#[macro_export]
macro_rules! store_admin {
    (
        $store:ty, $backend:expr, $source:ty,
        |$in:ident, $transaction:ident, $key:ident| $session:expr $(,)?
    ) => {
        const _: () = {
            use std::time::Duration;

            use $crate::admin;
            use $crate::macros::async_trait;
            use $crate::macros::idem_core::admin::{
                Cursor, Forced, ForcedStep, RecordFilter, RecordPage, RecordSummary, Rewrite,
                SummaryState,
            };
            use $crate::macros::idem_core::backend::{ForcedSteps, force};
            use $crate::macros::idem_core::{
                Claim, ClaimOutcome, ClaimRequest, IdempotencyStore as _, Key, RecordAdmin,
                Response, Result,
            };
            use $crate::operations::Operations as _;
            use $crate::transactions::{RecordsIn, TransactionSource, Transactions};

            type Transaction = <$source as TransactionSource>::Transaction;

            struct Steps<'f> {
                store: &'f $store,
                transaction: &'f mut Transaction,
            }

            #[async_trait]
            impl ForcedSteps for Steps<'_> {
                async fn held(&mut self, key: &Key) -> Result<Option<RecordSummary>> {
                    let ($in, $transaction, $key) = (self.store, &mut *self.transaction, key);
                    let mut session = $session?;
                    admin::held(&*self.store.operations, &mut session, key).await
                }

                async fn claim(&mut self, request: &ClaimRequest) -> Result<ClaimOutcome> {
                    self.store.claims(&mut *self.transaction, request).await
                }

                async fn complete(
                    &mut self,
                    claim: &Claim,
                    response: &Response,
                    retention: Duration,
                ) -> Result<()> {
                    let transaction = &mut *self.transaction;
                    let store = self.store;
                    store
                        .completes(transaction, claim, response, retention)
                        .await
                }

                async fn take(&mut self, step: &ForcedStep, seen: SummaryState) -> Result<bool> {
                    let ($in, $transaction, $key) =
                        (self.store, &mut *self.transaction, step.key());
                    let mut session = $session?;
                    admin::take(&*self.store.operations, &mut session, step, seen).await
                }
            }

            impl $store {
                async fn force_now(&self, step: &ForcedStep) -> Result<Forced> {
                    let mut attempts = Transactions::<$source>::new(self).attempts();
                    loop {
                        let mut transaction = attempts.begin().await?;
                        let mut steps = Steps {
                            store: self,
                            transaction: &mut transaction,
                        };
                        let forced = force(&mut steps, step, &self.limits()).await;
                        if let Some(forced) = attempts.finish(transaction, forced).await {
                            return forced.map_err(admin::error);
                        }
                    }
                }
            }

            #[deny(clippy::missing_trait_methods)]
            #[async_trait]
            impl RecordAdmin for $store {
                async fn list(
                    &self,
                    filter: &RecordFilter,
                    after: Option<&Cursor>,
                    limit: u32,
                ) -> Result<RecordPage> {
                    let mut session = self.session();
                    let page =
                        admin::list(&*self.operations, &mut session, filter, after, limit).await;
                    page.map_err(|error| error.at($backend, "list"))
                }

                async fn summary(&self, key: &Key) -> Result<Option<RecordSummary>> {
                    let mut session = self.session();
                    let summary = admin::held(&*self.operations, &mut session, key).await;
                    summary.map_err(|error| error.at($backend, "summary"))
                }

                async fn force(&self, step: &ForcedStep) -> Result<Forced> {
                    let forced = self.force_now(step).await;
                    forced.map_err(|error| error.at($backend, "force"))
                }

                async fn rewrite(&self, rewrite: &Rewrite) -> Result<bool> {
                    let mut session = self.session();
                    let rewritten = admin::rewrite(&*self.operations, &mut session, rewrite).await;
                    rewritten.map_err(|error| error.at($backend, "rewrite"))
                }
            }
        };
    };
}
