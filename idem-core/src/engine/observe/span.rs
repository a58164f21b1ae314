//! [`RunSpan`]: the span of a run, where there is one.

use std::future::Future;
use std::sync::Arc;

#[cfg(feature = "tracing")]
use tracing::Instrument;

use super::Observer;
use crate::Key;

/// Encloses the parts of a run; does nothing without the feature `tracing`.
#[derive(Debug, Clone)]
pub(super) struct RunSpan {
    #[cfg(feature = "tracing")]
    span: tracing::Span,
}

#[cfg(feature = "tracing")]
impl RunSpan {
    pub(super) fn of(observers: &[Arc<dyn Observer>], key: &Key) -> Self {
        let mut spans = observers.iter().map(|observer| observer.span(key));
        let span = spans.find(|span| !span.is_none());
        Self {
            span: span.unwrap_or_else(tracing::Span::none),
        }
    }

    pub(super) fn around<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        future.instrument(self.span.clone())
    }

    pub(super) fn enter<T>(&self, act: impl FnOnce() -> T) -> T {
        self.span.in_scope(act)
    }

    pub(super) fn record(&self, field: &'static str, value: &'static str) {
        self.span.record(field, value);
    }
}

#[cfg(not(feature = "tracing"))]
impl RunSpan {
    pub(super) fn of(_observers: &[Arc<dyn Observer>], _key: &Key) -> Self {
        Self {}
    }

    pub(super) fn around<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        future
    }

    pub(super) fn enter<T>(&self, act: impl FnOnce() -> T) -> T {
        act()
    }

    pub(super) fn record(&self, _field: &'static str, _value: &'static str) {}
}
