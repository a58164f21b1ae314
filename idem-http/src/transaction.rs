//! [`Tx`]: the open transaction of a request, and how a layer makes it.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::Extensions;
use idem_core::engine::{Transactional, Tx as Lent};
use idem_core::{
    BoxError, Fingerprint, IdempotencyStore, Outcome, Response as Stored, RunError, Work,
};

use crate::guard::Guard;

/// The open transaction of a request: a smart pointer to the driver's, `T`.
///
/// A layer [in transactions](crate::IdempotencyLayer::in_transactions) makes one for each request
/// with a key. With the feature `axum` it is an extractor. Any other handler [takes](Self::take) it.
/// The layer commits it with the handler's answer, so the handler drops it before it answers, which
/// every `async fn` does by itself.
#[derive(Debug)]
pub struct Tx<T>(Lent<T>);

impl<T: Send + 'static> Tx<T> {
    /// Takes the transaction from the extensions of its request.
    ///
    /// # Errors
    ///
    /// [`NoTransaction`], which is a mistake in the program, or a key that the route does not demand.
    pub fn take(extensions: &Extensions) -> Result<Self, NoTransaction> {
        let lending = extensions.get::<Lending<T>>();
        let taken = lending.ok_or(NoTransaction::Absent)?.slot().take();
        taken.map(Self).ok_or(NoTransaction::Taken)
    }
}

impl<T> Deref for Tx<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Tx<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// Why a handler gets no [`Tx`]. As the answer of a handler it is `500`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum NoTransaction {
    /// The request went past the layer, or the layer has no transactions of this driver.
    #[error(
        "the request has no transaction of this type: its layer lacks `in_transactions`, or has another driver's, or \
         its method or its route takes no key"
    )]
    Absent,
    /// The handler has it already, or has answered.
    #[error("the transaction of the request is taken: a handler takes it once, before it answers")]
    Taken,
}

/// An error of a handler, in the extensions of its response: the layer rolls the transaction back,
/// and calls the handler again where the error calls for another try.
///
/// `?` makes it of any error. With the feature `axum` it is a response: an empty `500`. A response of
/// your own carries it so: `response.extensions_mut().insert(HandlerError::from(error))`. A layer
/// without transactions ignores it.
#[derive(Clone)]
pub struct HandlerError(Arc<dyn StdError + Send + Sync>);

impl HandlerError {
    /// Returns the error.
    #[must_use]
    pub fn get(&self) -> &(dyn StdError + Send + Sync + 'static) {
        &*self.0
    }
}

impl<E: Into<BoxError>> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self(Arc::from(error.into()))
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HandlerError").field(&self.0).finish()
    }
}

#[cfg(feature = "axum")]
mod axum {
    use axum_core::extract::FromRequestParts;
    use axum_core::response::{IntoResponse, Response};
    use http::StatusCode;
    use http::request::Parts;

    use super::{HandlerError, NoTransaction, Tx};

    impl<T: Send + 'static, S: Sync> FromRequestParts<S> for Tx<T> {
        type Rejection = NoTransaction;

        async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, NoTransaction> {
            Self::take(&parts.extensions)
        }
    }

    impl IntoResponse for NoTransaction {
        fn into_response(self) -> Response {
            tracing::error!(error = %self, "a handler got no transaction");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }

    impl IntoResponse for HandlerError {
        fn into_response(self) -> Response {
            let mut response = StatusCode::INTERNAL_SERVER_ERROR.into_response();
            response.extensions_mut().insert(self);
            response
        }
    }
}

/// The transaction in the extensions of a request, until the handler takes it or answers.
struct Lending<T>(Arc<Mutex<Option<Lent<T>>>>);

impl<T> Lending<T> {
    fn slot(&self) -> MutexGuard<'_, Option<Lent<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Clone for Lending<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

pub(crate) type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
/// Answers a request that has these extensions, too.
pub(crate) type Answers<'a> =
    dyn Fn(Extensions) -> Boxed<'a, Result<Stored, BoxError>> + Send + Sync + 'a;
pub(crate) type Ran = Result<Outcome<Stored>, RunError<BoxError, Stored>>;

/// The transactions of a layer, whatever their driver.
pub(crate) trait RunsIn: fmt::Debug + Send + Sync {
    fn is_of(&self, store: &dyn IdempotencyStore) -> bool;

    fn is_retryable(&self, error: &(dyn StdError + 'static)) -> bool;

    /// Runs in transactions until nothing gets in the way.
    fn run<'a>(
        &'a self,
        guard: &'a Guard,
        fingerprint: Fingerprint,
        answers: &'a Answers<'a>,
    ) -> Boxed<'a, Ran>;
}

#[derive(Debug)]
pub(crate) struct InTransactions<X>(pub(crate) X);

impl<X: Transactional + 'static> RunsIn for InTransactions<X> {
    fn is_of(&self, store: &dyn IdempotencyStore) -> bool {
        self.0.is_of(store)
    }

    fn is_retryable(&self, error: &(dyn StdError + 'static)) -> bool {
        self.0.is_retryable(error)
    }

    fn run<'a>(
        &'a self,
        guard: &'a Guard,
        fingerprint: Fingerprint,
        answers: &'a Answers<'a>,
    ) -> Boxed<'a, Ran> {
        let work = move |tx: Lent<X::Transaction>, work: Work| {
            let lending = Lending(Arc::new(Mutex::new(Some(tx))));
            let mut extensions = Extensions::new();
            extensions.insert(lending.clone());
            extensions.insert(work);
            let answering = answers(extensions);
            async move {
                let answer = answering.await;
                // Others may have copies of the extensions: they take nothing any more.
                drop(lending.slot().take());
                answer
            }
        };
        let engine = Arc::clone(&guard.engine);
        let (idempotency, key) = (&guard.idempotency, &guard.key);
        Box::pin(idempotency.run_response_in(engine, &self.0, key, fingerprint, work))
    }
}
