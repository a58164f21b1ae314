//! [`Hook`]: a function of a policy.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::request::Parts;

use crate::KeyedRequest;

/// A shared function of a policy.
pub(crate) struct Hook<F: ?Sized>(pub(crate) Arc<F>);

/// A function of a request's head.
pub(crate) type FromParts<T> = Hook<dyn Fn(&Parts) -> T + Send + Sync>;

/// A function of a request that was read.
pub(crate) type FromRequest<T> = Hook<dyn Fn(&KeyedRequest) -> T + Send + Sync>;

/// A function of a handler's answer.
pub(crate) type FromAnswer<T> = Hook<dyn Fn(&Response<Bytes>) -> T + Send + Sync>;

/// The future of a response.
pub(crate) type Adjusted = Pin<Box<dyn Future<Output = Response<Bytes>> + Send>>;

/// A function that adjusts a replay.
pub(crate) type ReplayHook = Hook<dyn Fn(KeyedRequest, Response<Bytes>) -> Adjusted + Send + Sync>;

impl<F: ?Sized> Deref for Hook<F> {
    type Target = F;

    fn deref(&self) -> &F {
        &self.0
    }
}

impl<F: ?Sized> Clone for Hook<F> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<F: ?Sized> fmt::Debug for Hook<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a function")
    }
}
