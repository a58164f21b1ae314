//! Lists and forced steps: the database's, and what the cache then forgets.

use async_trait::async_trait;
use idem_core::admin::{
    Cursor, Forced, ForcedAction, ForcedStep, RecordFilter, RecordPage, RecordSummary, Rewrite,
};
use idem_core::{Effect, Error, ErrorKind, IdempotencyStore, Key, RecordAdmin, Result};

use crate::store::BACKEND;
use crate::{Cache, HybridStore};

/// Lists and summaries come from the database alone.
///
/// # What the cache forgets
///
/// The cache replays a completed record without asking the database, so a forced step is taken in
/// the database first, and then the cache is made to forget the key, whatever the database has
/// answered: see [`HybridStore::invalidate`]. An open breaker does not prevent it. That happens
/// after a refusal, too: a call that is repeated may be the second half of an earlier one.
///
/// * **A deletion** that returns `Ok` has reached every tier of this process and the shared one.
///   None of them replays the deleted record, however late an earlier promotion arrives. If the
///   cache could not be reached, the error is `Unavailable` with an unknown effect, and the database
///   may have deleted the record. Stores may replay it until its entry ends, an hour at most
///   ([`Config::with_max_lifetime`]). Repeat the call until it returns `Ok`: the answer is then
///   [`Refused`](Forced::Refused), and [`history`](idem_core::IdempotencyStoreExt::history) has the
///   step.
/// * **A release or a failure** concerns a key in flight, of which nothing is cached. The cache
///   forgets it as a safeguard, and its errors are only counted.
///
/// The deletion does not reach the in-process tiers of *other* processes (`LocalCache`). They may
/// replay the deleted record until its lifetime there ends, also to a caller that repeats a request
/// which another process has executed again meanwhile. That lifetime is 5 s by default
/// (`LocalCache::with_max_lifetime`), and counts from the read that filled the tier. Wait for as
/// long before you rely on the deletion everywhere.
///
/// [`Config::with_max_lifetime`]: crate::Config::with_max_lifetime
#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<C: Cache, S: IdempotencyStore> RecordAdmin for HybridStore<C, S> {
    async fn list(
        &self,
        filter: &RecordFilter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<RecordPage> {
        self.databases_admin("list")?
            .list(filter, after, limit)
            .await
    }

    async fn summary(&self, key: &Key) -> Result<Option<RecordSummary>> {
        self.databases_admin("summary")?.summary(key).await
    }

    /// # Cancellation
    ///
    /// The step may be taken or not, and the cache may have forgotten the key or not; repeat it.
    async fn force(&self, step: &ForcedStep) -> Result<Forced> {
        let forced = self.databases_admin("force")?.force(step).await;
        if matches!(&forced, Err(error) if error.effect() == Effect::None) {
            return forced;
        }
        // Only after the database: a ticket that is issued before it has changed would let its old
        // answer in again.
        match step.action() {
            ForcedAction::Delete => {
                let invalidated = self.front.invalidate(step.key()).await;
                forced.and_then(|forced| invalidated.map(|()| forced).map_err(still("force")))
            }
            ForcedAction::Release | ForcedAction::Fail { .. } => {
                self.front.forget(step.key()).await;
                forced
            }
        }
    }

    /// The database first, then the cache forgets the key, as after a deletion: an old form that
    /// stayed there could not be decrypted any more once its key is gone.
    async fn rewrite(&self, rewrite: &Rewrite) -> Result<bool> {
        let rewritten = self.databases_admin("rewrite")?.rewrite(rewrite).await;
        if matches!(&rewritten, Err(error) if error.effect() == Effect::None) {
            return rewritten;
        }
        let invalidated = self.front.invalidate(rewrite.key()).await;
        rewritten.and_then(|done| invalidated.map(|()| done).map_err(still("rewrite")))
    }
}

impl<C: Cache, S: IdempotencyStore> HybridStore<C, S> {
    fn databases_admin(&self, operation: &'static str) -> Result<&dyn RecordAdmin> {
        self.database.admin().ok_or_else(|| {
            let missing = "the database does not list its records: it has no `admin`";
            let error = Error::new(ErrorKind::Misconfigured, Effect::None, missing);
            error.at(BACKEND, operation)
        })
    }
}

/// Returns the error of a step that only the database knows of.
fn still(operation: &'static str) -> impl Fn(Error) -> Error {
    move |source| {
        let message = "the database has answered, but the cache could not be made to forget the key, and may replay \
                       the record as it was; repeat the step until it is answered";
        let error = Error::new(ErrorKind::Unavailable, Effect::Unknown, message);
        error.with_source(source).at(BACKEND, operation)
    }
}
