//! [`RunError`]: why a run has no sealed value.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use crate::{BoxError, Conflict, Error, Failed, InFlight};

/// Why a run gave no sealed value: `E` is the work's error, `T` its value. The guide says
/// [what to do](crate::guide::errors#errors-of-runs) about each.
///
/// `Debug` and `Display` show neither the value, nor stored data, nor the text of a store's or
/// codec's source. The work's own error is shown by its own `Debug` and `Display`, so the
/// application decides what they reveal.
///
/// `?` works on a run whatever its work returns: a boxed error, or a type such as `anyhow::Error`
/// that is no [`std::error::Error`] itself. `Display` shows the work's error in its alternate form
/// (`{:#}`), in which such types show their causes.
///
/// ```
/// use idem_core::{BoxError, Idempotency, Key, MemoryStore, Work};
///
/// async fn pay(idempotency: &Idempotency) -> Result<u32, Box<dyn std::error::Error + Send + Sync>> {
///     let key = Key::new("tenant-7", "payments.create", "8f14e45f")?;
///     let charge = async |_: Work| Ok::<u32, BoxError>("1250".parse()?);
///     Ok(idempotency.run(&key, &1250, charge).await?.into_inner())
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// # assert_eq!(pay(&Idempotency::new(MemoryStore::new())).await?, 1250);
/// # Ok(())
/// # }
/// ```
///
/// [`source`](StdError::source) returns the store's error, and the source of a [`BoxError`] of the
/// work. For the source of another type, match on [`Work`](Self::Work).
#[non_exhaustive]
pub enum RunError<E, T> {
    /// The key is in use for a different request. The work was not started; nothing was changed.
    Conflict(Conflict),

    /// Another run works on this request: the caller is refused, or the wait's limit has passed.
    /// See [`retry_after`](Self::retry_after).
    InFlight(InFlight),

    /// The request failed before, for good, and this is its failure. The work was not started.
    Failed(Failed),

    /// The work returned this error in this call. The claim is released or the failure recorded, as
    /// the policy says; where the store could not be reached, the lease runs out.
    Work(E),

    /// The store gave no decision, so the work was not started. After an unknown
    /// [`effect`](Error::effect) the key may stay claimed until the lease ends. With the kind
    /// [`Contention`](crate::ErrorKind::Contention) an open transaction holds the key: another
    /// caller works under it.
    Store(Error),

    /// The work has run and this is its value, but it is unknown whether the value is stored, so a
    /// retry may not find it.
    ///
    /// The source says why: `ClaimLost` (another attempt has acquired the key, or `fail_abandoned`
    /// has failed it; the work may have run twice), `Misconfigured` (the policy demands that work
    /// [commits](crate::Work::commit) its result, and this did not), `InvalidInput` (too large, or no JSON form that
    /// reads back as the value; later callers get
    /// [`Failure::NOT_STORED`](crate::Failure::NOT_STORED)), or the store could not be reached for
    /// long.
    NotStored {
        /// The work's value.
        value: T,
        /// Why it is not known to be stored.
        source: Error,
    },

    /// The stored response cannot be read as `T`: another version of the program, or another
    /// operation, wrote it. The work was not started.
    Codec(Error),
}

impl<E, T> RunError<E, T> {
    /// Returns whether the work ran in this call.
    #[must_use]
    pub fn has_run(&self) -> bool {
        matches!(self, Self::Work(_) | Self::NotStored { .. })
    }

    /// Returns when to send the claim again, for a request that is being worked on: when the
    /// worker's lease ends. The result may be there sooner; and a lease is renewed as long as the
    /// work runs.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::InFlight(in_flight) => Some(in_flight.lease_remaining()),
            _ => None,
        }
    }

    /// Returns the work's error, if it is that.
    #[must_use]
    pub fn into_work(self) -> Option<E> {
        match self {
            Self::Work(error) => Some(error),
            _ => None,
        }
    }

    /// Returns the value of work that has run without being sealed.
    #[must_use]
    pub fn into_unsealed(self) -> Option<T> {
        match self {
            Self::NotStored { value, .. } => Some(value),
            _ => None,
        }
    }

    /// Returns the error of the store or the codec, if there is one.
    #[must_use]
    pub fn store_error(&self) -> Option<&Error> {
        match self {
            Self::Store(error) | Self::Codec(error) | Self::NotStored { source: error, .. } => {
                Some(error)
            }
            Self::Conflict(_) | Self::InFlight(_) | Self::Failed(_) | Self::Work(_) => None,
        }
    }

    /// Maps the work's error.
    #[must_use]
    pub fn map_work<F>(self, change: impl FnOnce(E) -> F) -> RunError<F, T> {
        match self {
            Self::Work(error) => RunError::Work(change(error)),
            Self::Conflict(conflict) => RunError::Conflict(conflict),
            Self::InFlight(in_flight) => RunError::InFlight(in_flight),
            Self::Failed(failed) => RunError::Failed(failed),
            Self::Store(error) => RunError::Store(error),
            Self::NotStored { value, source } => RunError::NotStored { value, source },
            Self::Codec(error) => RunError::Codec(error),
        }
    }
}

impl<E: fmt::Display, T> fmt::Display for RunError<E, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Conflict(_) => "the idempotency key is in use for a different request",
            Self::InFlight(_) => "the request is being worked on by another caller",
            Self::Failed(failed) => {
                let code = failed.failure.code();
                return write!(f, "the request failed before, recorded as `{code}`");
            }
            Self::Work(error) => return write!(f, "{error:#}"),
            Self::Store(_) => "the store gave no decision, the work was not started",
            Self::NotStored { .. } => "the work has run, but its result is not known to be stored",
            Self::Codec(_) => "the stored response cannot be read as this operation's result",
        })
    }
}

/// `E` need not be an error: a boxed one is none, and no bound fits both it and the others.
impl<E: fmt::Debug + fmt::Display + 'static, T> StdError for RunError<E, T> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Work(error) => (error as &dyn Any).downcast_ref::<BoxError>()?.source(),
            other => other.store_error().map(|error| error as _),
        }
    }
}

impl<E: fmt::Debug, T> fmt::Debug for RunError<E, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict(conflict) => f.debug_tuple("Conflict").field(conflict).finish(),
            Self::InFlight(in_flight) => f.debug_tuple("InFlight").field(in_flight).finish(),
            Self::Failed(failed) => f.debug_tuple("Failed").field(failed).finish(),
            Self::Work(error) => f.debug_tuple("Work").field(error).finish(),
            Self::Store(error) => f.debug_tuple("Store").field(error).finish(),
            Self::NotStored { source, .. } => {
                let mut shown = f.debug_struct("NotStored");
                shown.field("source", source).finish_non_exhaustive()
            }
            Self::Codec(error) => f.debug_tuple("Codec").field(error).finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// Like `anyhow::Error`: no error, converts from every one, and shows its causes in `{:#}`.
    #[derive(Debug)]
    struct Report(BoxError);

    impl fmt::Display for Report {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match self.0.source().filter(|_| f.alternate()) {
                Some(cause) => write!(f, "{}: {cause}", self.0),
                None => self.0.fmt(f),
            }
        }
    }

    impl<E: StdError + Send + Sync + 'static> From<E> for Report {
        fn from(error: E) -> Self {
            Self(error.into())
        }
    }

    #[test]
    fn a_run_of_any_error_converts_by_the_question_mark_with_its_causes() {
        let failed = || Error::corrupt("outer").with_source(io::Error::other("inner"));
        let boxed = || -> std::result::Result<(), BoxError> {
            Ok(Err(RunError::<BoxError, ()>::Work(failed().into()))?)
        };
        let error = boxed().unwrap_err();
        assert_eq!(error.to_string(), "outer");
        assert_eq!(error.source().unwrap().to_string(), "inner");
        let reported = || -> std::result::Result<(), Report> {
            Ok(Err(RunError::<Report, ()>::Work(failed().into()))?)
        };
        assert_eq!(reported().unwrap_err().to_string(), "outer: inner");
        let stored = || -> std::result::Result<(), Report> {
            Ok(Err(RunError::<Report, ()>::Store(failed()))?)
        };
        let cause = stored().unwrap_err().0;
        assert_eq!(cause.source().unwrap().to_string(), "outer");
    }
}
