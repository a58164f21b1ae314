//! [`JobService`]: a service behind a consumer.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use idem_core::{BoxError, Outcome, Work};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tower_service::Service;

use crate::layer::{Convert, Identify};
use crate::{Consumer, Disposition, NotDone, Reason, WorkError};

tokio::task_local! {
    static WORK: Work;
}

/// Returns the claim of the job that the calling task works on, inside a [`JobService`]. Returns
/// `None` elsewhere, and in tasks that the job has spawned.
#[must_use]
pub fn current_work() -> Option<Work> {
    WORK.try_with(Clone::clone).ok()
}

/// A service behind a consumer, made by [`JobLayer`](crate::JobLayer).
pub struct JobService<S, R> {
    pub(crate) inner: S,
    pub(crate) consumer: Consumer,
    pub(crate) identify: Arc<Identify<R>>,
    pub(crate) convert: Arc<Convert>,
}

impl<S, R> Service<R> for JobService<S, R>
where
    R: Send + 'static,
    S: Service<R> + Clone + Send + 'static,
    S::Response: Serialize + DeserializeOwned + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: R) -> Self::Future {
        // The ready service is called; its clone waits for the next call.
        let waiting = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, waiting);
        let message = (self.identify)(&request);
        let (consumer, convert) = (self.consumer.clone(), Arc::clone(&self.convert));
        Box::pin(async move {
            let message = message.map_err(|error| convert(unidentified(error)))?;
            let job = |work: Work| {
                let call = WORK.sync_scope(work.clone(), || inner.call(request));
                WORK.scope(work, async {
                    call.await.map_err(|error| WorkError::from(error.into()))
                })
            };
            let handled = consumer.handle(&message, job).await;
            handled
                .into_result()
                .map(Outcome::into_inner)
                .map_err(|not_done| convert(not_done))
        })
    }
}

/// Without a key there is nothing to retry.
fn unidentified(error: idem_core::Error) -> NotDone {
    NotDone {
        disposition: Disposition::Reject,
        reason: Reason::Store(error),
    }
}

impl<S: Clone, R> Clone for JobService<S, R> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            consumer: self.consumer.clone(),
            identify: Arc::clone(&self.identify),
            convert: Arc::clone(&self.convert),
        }
    }
}

impl<S: fmt::Debug, R> fmt::Debug for JobService<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobService")
            .field("inner", &self.inner)
            .field("consumer", &self.consumer)
            .finish_non_exhaustive()
    }
}
