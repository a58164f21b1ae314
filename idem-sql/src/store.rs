//! Macros that give a store its public traits and methods.

/// Implements `IdempotencyStore`, `BatchStore`, `CheckpointStore`, `WatermarkStore` and `Debug`, and
/// the method `config()`.
///
/// The store has a field `operations` with a `config`, and a method `session()`. Each call becomes
/// the operation of the same name on a new session; an error names the backend and the operation.
///
/// Where the store's method `batched()` returns the store behind batches, claims, completions,
/// failures and releases go there. `with_batches()` makes that one for a new store, in the field
/// `batched`, unless the configuration turns it off.
#[macro_export]
macro_rules! store {
    ($store:ty, $backend:expr) => {
        const _: () = {
            use std::sync::Arc;
            use std::time::Duration;

            #[allow(unused_imports)] // One store has a way of its own.
            use $crate::batch::Batches as _;
            use $crate::macros::async_trait;
            use $crate::macros::idem_core::backend::{FinalResult, check};
            use $crate::macros::idem_core::wrappers::Batched;
            use $crate::macros::idem_core::{
                Advance, BatchStore, Checkpoint, CheckpointStore, Claim, ClaimOutcome,
                ClaimRequest, Error, Failure, Finish, IdempotencyStore, Key, Limits, Record,
                RecordAdmin, Response, Result, WatermarkStore,
            };
            use $crate::maintenance::Task;
            use $crate::operations::Operations as _;

            fn at(operation: &'static str) -> impl Fn(Error) -> Error {
                move |error| error.at($backend, operation)
            }

            impl $store {
                /// Returns the configuration.
                #[must_use]
                pub fn config(&self) -> &Config {
                    &self.operations.config
                }

                fn with_batches(mut self) -> Self {
                    let config = &self.operations.config;
                    if config.batching() {
                        let batched = Batched::new(self.clone()).with_timeout(config.timeout());
                        self.batched = Some(Arc::new(batched));
                    }
                    self
                }

                async fn maintain(&self, task: Task, limit: u32) -> Result<u64> {
                    let limit = check::batch(limit)?;
                    let mut session = self.session();
                    self.operations.maintain(&mut session, task, limit).await
                }
            }

            /// Shows the names, not the connections, whose options hold the password.
            impl std::fmt::Debug for $store {
                fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.debug_struct(stringify!($store))
                        .field("config", &self.operations.config)
                        .finish_non_exhaustive()
                }
            }

            #[deny(clippy::missing_trait_methods)]
            #[async_trait]
            impl IdempotencyStore for $store {
                fn backend(&self) -> &'static str {
                    $backend
                }

                fn limits(&self) -> Limits {
                    self.operations.config.limits()
                }

                fn checkpoints(&self) -> Option<&dyn CheckpointStore> {
                    Some(self)
                }

                fn watermarks(&self) -> Option<&dyn WatermarkStore> {
                    Some(self)
                }

                fn admin(&self) -> Option<&dyn RecordAdmin> {
                    Some(self)
                }

                async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
                    if let Some(batched) = self.batched() {
                        return batched.claim(request).await;
                    }
                    let mut session = self.session();
                    let claimed = self.operations.claim(&mut session, request);
                    claimed.await.map_err(at("claim"))
                }

                async fn complete(
                    &self,
                    claim: &Claim,
                    response: &Response,
                    retention: Duration,
                ) -> Result<()> {
                    if let Some(batched) = self.batched() {
                        return batched.complete(claim, response, retention).await;
                    }
                    let result = FinalResult::completed(response, retention, &self.limits());
                    let result = result.map_err(at("complete"))?;
                    let mut session = self.session();
                    let sealed = self.operations.finish(&mut session, claim, &result);
                    sealed.await.map_err(at("complete"))
                }

                async fn fail(
                    &self,
                    claim: &Claim,
                    failure: &Failure,
                    retention: Duration,
                ) -> Result<()> {
                    if let Some(batched) = self.batched() {
                        return batched.fail(claim, failure, retention).await;
                    }
                    let result = FinalResult::failed(failure, retention, &self.limits());
                    let result = result.map_err(at("fail"))?;
                    let mut session = self.session();
                    let sealed = self.operations.finish(&mut session, claim, &result);
                    sealed.await.map_err(at("fail"))
                }

                async fn release(&self, claim: &Claim) -> Result<()> {
                    if let Some(batched) = self.batched() {
                        return batched.release(claim).await;
                    }
                    let (mut session, result) = (self.session(), FinalResult::released());
                    let released = self.operations.finish(&mut session, claim, &result);
                    released.await.map_err(at("release"))
                }

                async fn renew(&self, claim: &Claim, lease: Duration) -> Result<Claim> {
                    let mut session = self.session();
                    let renewed = self.operations.renew(&mut session, claim, lease);
                    renewed.await.map_err(at("renew"))
                }

                async fn get(&self, key: &Key) -> Result<Option<Record>> {
                    let mut session = self.session();
                    let record = self.operations.get(&mut session, key);
                    record.await.map_err(at("get"))
                }

                async fn delete_expired(&self, limit: u32) -> Result<u64> {
                    let changed = self.maintain(Task::DeleteExpired, limit).await;
                    changed.map_err(at("delete_expired"))
                }

                async fn fail_abandoned(&self, limit: u32) -> Result<u64> {
                    let changed = self.maintain(Task::FailAbandoned, limit).await;
                    changed.map_err(at("fail_abandoned"))
                }
            }

            #[deny(clippy::missing_trait_methods)]
            #[async_trait]
            impl BatchStore for $store {
                async fn claim_many(&self, requests: &[ClaimRequest]) -> Vec<Result<ClaimOutcome>> {
                    let mut session = self.session();
                    let answers = self.operations.claim_many(&mut session, requests).await;
                    let at = at("claim_many");
                    answers
                        .into_iter()
                        .map(|answer| answer.map_err(&at))
                        .collect()
                }

                async fn finish_many(&self, items: &[Finish]) -> Vec<Result<()>> {
                    let mut session = self.session();
                    let answers = self.operations.finish_many(&mut session, items).await;
                    let at = at("finish_many");
                    answers
                        .into_iter()
                        .map(|answer| answer.map_err(&at))
                        .collect()
                }
            }

            #[deny(clippy::missing_trait_methods)]
            #[async_trait]
            impl CheckpointStore for $store {
                async fn checkpoint(&self, claim: &Claim, checkpoint: &Checkpoint) -> Result<()> {
                    let mut session = self.session();
                    let stored = self.operations.checkpoint(&mut session, claim, checkpoint);
                    stored.await.map_err(at("checkpoint"))
                }

                async fn last_checkpoint(&self, claim: &Claim) -> Result<Option<Checkpoint>> {
                    let mut session = self.session();
                    let last = self.operations.last_checkpoint(&mut session, claim);
                    last.await.map_err(at("last_checkpoint"))
                }
            }

            #[deny(clippy::missing_trait_methods)]
            #[async_trait]
            impl WatermarkStore for $store {
                async fn advance(
                    &self,
                    source: &Key,
                    version: u64,
                    retention: Duration,
                ) -> Result<Advance> {
                    let mut session = self.session();
                    let advanced =
                        self.operations
                            .advance(&mut session, source, version, retention);
                    advanced.await.map_err(at("advance"))
                }

                async fn watermark(&self, source: &Key) -> Result<Option<u64>> {
                    let mut session = self.session();
                    let mark = self.operations.watermark(&mut session, source);
                    mark.await.map_err(at("watermark"))
                }

                async fn delete_expired_watermarks(&self, limit: u32) -> Result<u64> {
                    let changed = self.maintain(Task::DeleteExpiredWatermarks, limit).await;
                    changed.map_err(at("delete_expired_watermarks"))
                }
            }
        };
    };
}

/// Implements the operations in a caller's transaction: `claim_in`, `complete_in`, `fail_in`,
/// `checkpoint_in`, `advance_in`.
///
/// `record` and `mark` make the session for a record's key and for a watermark's source.
#[macro_export]
macro_rules! store_in_transaction {
    (
        $(#[$about:meta])*
        $store:ty, $backend:expr, $transaction:ident: $Transaction:ty,
        cancellation: $cancellation:literal,
        claim: $claim_errors:literal,
        advance: $advance_errors:literal,
        record: |$in_record:ident, $key:ident| $record:expr,
        mark: |$in_mark:ident, $source:ident| $mark:expr $(,)?
    ) => {
        const _: () = {
            use std::time::Duration;

            use $crate::macros::idem_core::backend::FinalResult;
            use $crate::macros::idem_core::{
                Advance, Checkpoint, Claim, ClaimOutcome, ClaimRequest, Failure, Key, Response,
                Result,
            };
            use $crate::operations::Operations as _;

            $(#[$about])*
            impl $store {
                /// [`claim`](idem_core::IdempotencyStore::claim) in the caller's transaction.
                ///
                /// # Errors
                ///
                #[doc = $claim_errors]
                ///
                /// # Cancellation
                ///
                #[doc = $cancellation]
                pub async fn claim_in(
                    &self,
                    $transaction: $Transaction,
                    request: &ClaimRequest,
                ) -> Result<ClaimOutcome> {
                    let claimed = async {
                        let ($in_record, $key) = (self, request.key());
                        let mut session = $record?;
                        self.operations.claim(&mut session, request).await
                    };
                    claimed.await.map_err(|error| error.at($backend, "claim_in"))
                }

                /// [`complete`](idem_core::IdempotencyStore::complete) in the caller's transaction.
                /// When it returns `ClaimLost`, roll back: another attempt does the work.
                ///
                /// A commit without an answer may have taken effect. Claim again before you repeat
                /// such a transaction. With the claim of before, this method finds the same result
                /// and returns `Ok`, so your rows would be committed twice.
                ///
                /// # Errors
                ///
                /// As for `complete`.
                ///
                /// # Cancellation
                ///
                #[doc = $cancellation]
                pub async fn complete_in(
                    &self,
                    $transaction: $Transaction,
                    claim: &Claim,
                    response: &Response,
                    retention: Duration,
                ) -> Result<()> {
                    let sealed = async {
                        let limits = self.operations.config.limits();
                        let result = FinalResult::completed(
                            response, retention, &limits,
                        )?;
                        let ($in_record, $key) = (self, claim.key());
                        let mut session = $record?;
                        self.operations.finish(&mut session, claim, &result).await
                    };
                    sealed.await.map_err(|error| error.at($backend, "complete_in"))
                }

                /// [`fail`](idem_core::IdempotencyStore::fail) in the caller's transaction.
                ///
                /// # Errors
                ///
                /// As for `fail`.
                ///
                /// # Cancellation
                ///
                #[doc = $cancellation]
                pub async fn fail_in(
                    &self,
                    $transaction: $Transaction,
                    claim: &Claim,
                    failure: &Failure,
                    retention: Duration,
                ) -> Result<()> {
                    let sealed = async {
                        let limits = self.operations.config.limits();
                        let result = FinalResult::failed(
                            failure, retention, &limits,
                        )?;
                        let ($in_record, $key) = (self, claim.key());
                        let mut session = $record?;
                        self.operations.finish(&mut session, claim, &result).await
                    };
                    sealed.await.map_err(|error| error.at($backend, "fail_in"))
                }

                /// [`checkpoint`](idem_core::CheckpointStore::checkpoint) in the caller's
                /// transaction: the recovery point and the rows that belong to it commit together.
                /// When it returns `ClaimLost`, roll back: another attempt does the work.
                ///
                /// # Errors
                ///
                /// As for `checkpoint`.
                ///
                /// # Cancellation
                ///
                #[doc = $cancellation]
                pub async fn checkpoint_in(
                    &self,
                    $transaction: $Transaction,
                    claim: &Claim,
                    checkpoint: &Checkpoint,
                ) -> Result<()> {
                    let stored = async {
                        let ($in_record, $key) = (self, claim.key());
                        let mut session = $record?;
                        self.operations.checkpoint(&mut session, claim, checkpoint).await
                    };
                    stored.await.map_err(|error| error.at($backend, "checkpoint_in"))
                }

                /// [`advance`](idem_core::WatermarkStore::advance) in the caller's transaction: the
                /// mark and the event's rows commit together, and a rollback leaves the mark where
                /// it was.
                ///
                /// # Errors
                ///
                #[doc = $advance_errors]
                ///
                /// # Cancellation
                ///
                #[doc = $cancellation]
                pub async fn advance_in(
                    &self,
                    $transaction: $Transaction,
                    source: &Key,
                    version: u64,
                    retention: Duration,
                ) -> Result<Advance> {
                    let advanced = async {
                        let ($in_mark, $source) = (self, source);
                        let mut session = $mark?;
                        self.operations.advance(&mut session, source, version, retention).await
                    };
                    advanced.await.map_err(|error| error.at($backend, "advance_in"))
                }
            }
        };
    };
}
