//! [`TracingObserver`].

use std::time::Duration;

use tracing::{Level, Span, enabled, event, field, info_span};

use super::retry::kind_name;
use super::scope_class::ScopeClass;
use super::{Decision, Ended, Ending, LeaseLoss, Observer, Retry};
use crate::Key;

/// Opens a span around each run, and logs.
///
/// The span `idem.run` (level info) encloses the claim, the work and the last step, so that what
/// the work logs is within it. Its fields are `operation`, `key`, `scope_class`, and, once they are
/// known, `decision` and `ending`. Events carry `operation` and `key` as well:
///
/// | level | event |
/// | --- | --- |
/// | warn | a claim is lost; its last step was not taken; a key is in use for another request; the store gave no decision |
/// | info | the work of another attempt is taken over |
/// | debug | any other decision or ending; a call of the store is repeated; a wait has ended |
///
/// `key` is the beginning of the key's hash ([`Key::hashed`]): scope and id are not shown, except
/// [with plain keys](Self::with_plain_keys).
#[derive(Debug, Clone, Default)]
pub struct TracingObserver {
    plain_keys: bool,
    scope_class: ScopeClass,
}

impl TracingObserver {
    /// Creates an observer with hashed keys, and `all` as the class of every scope.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Shows keys as they are, in the form of [`Key::path`]: scope and id go to the log.
    #[must_use]
    pub fn with_plain_keys(mut self) -> Self {
        self.plain_keys = true;
        self
    }

    /// Shows this class of a key's scope.
    #[must_use]
    pub fn with_scope_class(
        mut self,
        class: impl Fn(&str) -> &'static str + Send + Sync + 'static,
    ) -> Self {
        self.scope_class = ScopeClass::by(class);
        self
    }

    fn shown(&self, key: &Key) -> String {
        if self.plain_keys {
            return key.path();
        }
        let mut hash = key.hashed();
        hash.truncate(12);
        hash
    }
}

/// Logs an event about a key; computes nothing when no subscriber sees it.
macro_rules! emit {
    ($self:ident, $level:ident, $key:ident, $($rest:tt)+) => {
        if enabled!(Level::$level) {
            event!(Level::$level, operation = $key.operation(), key = $self.shown($key), $($rest)+);
        }
    };
}

impl Observer for TracingObserver {
    fn decided(&self, key: &Key, decision: Decision) {
        let name = decision.name();
        match decision {
            Decision::Conflict | Decision::Unknown => {
                emit!(self, WARN, key, decision = name, "decided");
            }
            Decision::Takeover => emit!(self, INFO, key, decision = name, "decided"),
            _ => emit!(self, DEBUG, key, decision = name, "decided"),
        }
    }

    fn ended(&self, key: &Key, ended: &Ended) {
        let (name, error) = (ended.ending.name(), ended.error.map(kind_name));
        let seconds = ended.since_first_seen.as_ref().map(Duration::as_secs_f64);
        match ended.ending {
            Ending::Unsettled => emit!(self, WARN, key, ending = name, error, "ended"),
            _ => emit!(self, DEBUG, key, ending = name, seconds, "ended"),
        }
    }

    fn lease_lost(&self, key: &Key, loss: LeaseLoss) {
        emit!(self, WARN, key, cause = loss.name(), "lease lost");
    }

    fn retried(&self, key: &Key, retry: Retry) {
        emit!(
            self,
            DEBUG,
            key,
            call = retry.call,
            kind = retry.kind_name(),
            "asked again"
        );
    }

    fn wait_ended(&self, key: &Key, waited: Duration) {
        emit!(self, DEBUG, key, seconds = waited.as_secs_f64(), "waited");
    }

    fn span(&self, key: &Key) -> Span {
        let span = info_span!(
            "idem.run",
            operation = key.operation(),
            key = field::Empty,
            scope_class = field::Empty,
            decision = field::Empty,
            ending = field::Empty,
        );
        if !span.is_disabled() {
            span.record("key", self.shown(key));
            span.record("scope_class", self.scope_class.of(key.scope()));
        }
        span
    }
}
