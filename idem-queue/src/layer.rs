//! [`JobLayer`]: a consumer as a tower layer.

use std::fmt;
use std::sync::Arc;

use idem_core::{BoxError, Result};
use tower_layer::Layer;

use crate::{Consumer, JobService, Message, NotDone};

pub(crate) type Identify<R> = dyn Fn(&R) -> Result<Message> + Send + Sync;
pub(crate) type Convert = dyn Fn(NotDone) -> BoxError + Send + Sync;

/// Puts a [`Consumer`] in front of a service that works on jobs (`R` is its request), such as a
/// worker of `apalis`.
///
/// What the job queue sees:
///
/// | | the service's answer |
/// | --- | --- |
/// | done now; done before | `Ok` with the value; the inner service is not called for a duplicate |
/// | anything else | `Err` with [`NotDone`], or what [`with_error`](Self::with_error) makes of it |
///
/// The store keeps the value, so it has to be `Serialize + DeserializeOwned`. An inner error that
/// is [`WorkError::Permanent`](crate::WorkError::Permanent) is recorded as failed; every other
/// error releases the job. Inside the job, [`current_work`](crate::current_work) returns its claim.
pub struct JobLayer<R> {
    consumer: Consumer,
    identify: Arc<Identify<R>>,
    convert: Arc<Convert>,
}

impl<R> JobLayer<R> {
    /// Creates a layer. `identify` returns which job a request is, and how often it was tried.
    #[must_use]
    pub fn new(
        consumer: Consumer,
        identify: impl Fn(&R) -> Result<Message> + Send + Sync + 'static,
    ) -> Self {
        Self {
            consumer,
            identify: Arc::new(identify),
            convert: Arc::new(BoxError::from),
        }
    }

    /// Sets the conversion into an error that the queue understands. `apalis` takes a
    /// `RetryAfterError` for a job to try again, and an `AbortError` for one that is not.
    #[must_use]
    pub fn with_error(
        mut self,
        convert: impl Fn(NotDone) -> BoxError + Send + Sync + 'static,
    ) -> Self {
        self.convert = Arc::new(convert);
        self
    }
}

impl<S, R> Layer<S> for JobLayer<R> {
    type Service = JobService<S, R>;

    fn layer(&self, inner: S) -> Self::Service {
        JobService {
            inner,
            consumer: self.consumer.clone(),
            identify: Arc::clone(&self.identify),
            convert: Arc::clone(&self.convert),
        }
    }
}

impl<R> Clone for JobLayer<R> {
    fn clone(&self) -> Self {
        Self {
            consumer: self.consumer.clone(),
            identify: Arc::clone(&self.identify),
            convert: Arc::clone(&self.convert),
        }
    }
}

impl<R> fmt::Debug for JobLayer<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobLayer")
            .field("consumer", &self.consumer)
            .finish_non_exhaustive()
    }
}
