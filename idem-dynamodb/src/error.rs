//! The meaning of the SDK's errors for the caller.

use std::error::Error as StdError;

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
pub(crate) use idem_core::backend::Access;
use idem_core::backend::Meaning;
use idem_core::{Effect, Error, ErrorKind};

use crate::codes::by_code;

/// A request that failed after all of the SDK's retries.
#[derive(Debug)]
pub(crate) struct Failed<E> {
    pub(crate) error: SdkError<E, HttpResponse>,
    /// Whether a try was sent whose answer did not come, or says that it may have had an effect.
    /// The SDK reports only its last try.
    pub(crate) is_unknown: bool,
}

impl<E: ProvideErrorMetadata + StdError + Send + Sync + 'static> Failed<E> {
    /// Returns the service's error, if it has answered.
    pub(crate) fn service_error(&self) -> Option<&E> {
        self.error.as_service_error()
    }

    /// Returns the code of the service's error.
    pub(crate) fn code(&self) -> Option<&str> {
        self.service_error().and_then(ProvideErrorMetadata::code)
    }

    /// Converts the error, and keeps it as the source. The caller has handled errors that quote an
    /// item.
    pub(crate) fn classify(self, access: Access) -> Error {
        let (kind, effect, message) = self.meaning();
        let effect = match access {
            Access::Read => Effect::None,
            Access::Write if self.is_unknown => Effect::Unknown,
            Access::Write => effect,
        };
        Error::new(kind, effect, message).with_source(self.error)
    }

    fn meaning(&self) -> Meaning {
        match &self.error {
            SdkError::ServiceError(error) => match error.err().code() {
                Some("ValidationException") if is_too_large(error.err().message()) => (
                    ErrorKind::InvalidInput,
                    Effect::None,
                    "the item would be above 400 KiB, DynamoDB's limit; store the result elsewhere \
                     and keep a reference",
                ),
                code => by_code(code.unwrap_or_default()),
            },
            SdkError::ConstructionFailure(_) => (
                ErrorKind::Misconfigured,
                Effect::None,
                "the SDK could not make the request: no region, or a setting that it refuses; see \
                 the source",
            ),
            SdkError::DispatchFailure(_) if !self.is_unknown => (
                ErrorKind::Unavailable,
                Effect::None,
                "nothing was sent: no credentials, no HTTP client, or the operation's time was over; \
                 see the source",
            ),
            SdkError::ResponseError(_) => (
                ErrorKind::Unavailable,
                Effect::Unknown,
                "the service's answer was cut short or makes no sense",
            ),
            _ => (
                ErrorKind::Unavailable,
                Effect::Unknown,
                "the service cannot be reached, or did not answer in time",
            ),
        }
    }
}

fn is_too_large(message: Option<&str>) -> bool {
    message.is_some_and(|message| message.contains("Item size"))
}

/// Returns the error of a store that cannot bound the service's clock.
pub(crate) fn clock_unknown(has_date: bool) -> Error {
    if !has_date {
        return Error::new(
            ErrorKind::Misconfigured,
            Effect::None,
            "the service's answers have no `Date` header, so its clock is not known and no lease \
             can be judged; does a proxy remove the header?",
        );
    }
    Error::new(
        ErrorKind::Unavailable,
        Effect::None,
        "the service answers too slowly to know its clock within `with_max_clock_skew`, so no lease \
         can be judged; ask again",
    )
}

/// Returns the error of a record that others changed at each try.
pub(crate) fn changed_too_often(tries: u32) -> Error {
    Error::new(
        ErrorKind::Contention,
        Effect::None,
        format!("the record changed {tries} times meanwhile; ask again"),
    )
}
