//! The service's error codes: what each means for the caller, whether the request may have had an
//! effect, and what to do.
//!
//! Codes: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html>
//! and
//! <https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/CommonErrors.html>.

use idem_core::backend::{Codes, Meaning, error_codes};
use idem_core::{Effect, ErrorKind};

/// Another transaction, or another region of a table, is changing the item. The service has
/// refused the request.
pub(crate) const CONFLICTS: [&str; 3] = [
    "TransactionConflictException",
    "TransactionInProgressException",
    "ReplicatedWriteConflictException",
];

const CODES: Codes<&str> = error_codes! {
    Contention None CONFLICTS =>
        "another transaction is changing the item, or another region of the table; ask again";
    Unavailable None [
        "ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded",
        "Throttling", "ThrottledException", "TooManyRequestsException", "SlowDown",
        "RequestThrottled", "RequestThrottledException", "LimitExceededException",
        "ResourceInUseException",
    ] => "the service throttles this table, partition or account; ask again later, and look at the \
          table's capacity";
    // "The server-side operation may have succeeded", says the table of errors.
    Unavailable Unknown ["InternalServerError", "InternalFailure", "ServiceUnavailable"] =>
        "the service failed; ask again";
    Misconfigured None ["ResourceNotFoundException", "TableNotFoundException"] =>
        "the table does not exist, or is being created or deleted: run `migrate()`, or create it as \
         `schema_commands` prints, and check region and account";
    Misconfigured None [
        "AccessDeniedException", "UnrecognizedClientException", "MissingAuthenticationTokenException",
        "MissingAuthenticationToken", "InvalidClientTokenId", "NotAuthorized", "OptInRequired",
        "ExpiredTokenException", "ExpiredToken",
    ] => "the service refused the credentials, or they do not permit the request";
    Misconfigured None [
        "InvalidSignatureException", "IncompleteSignatureException", "IncompleteSignature",
        "SignatureDoesNotMatch", "RequestExpired", "RequestTimeTooSkewed",
    ] => "the service refused the request's signature: a wrong secret key, or this machine's clock \
          is more than some minutes wrong";
    Misconfigured None [
        "ValidationException", "SerializationException", "UnknownOperationException",
        "InvalidEndpointException", "InvalidAction",
    ] => "the service refused the request: the table has another key than this store's, or the \
          endpoint is not a current DynamoDB; run `verify()`";
    Misconfigured None ["IdempotentParameterMismatchException"] =>
        "the transaction's client token was used for another transaction; take a new one";
    InvalidInput None ["ItemCollectionSizeLimitExceededException"] =>
        "the items under one partition key are above 10 GB";
};

/// Returns the meaning of a code. A request with an unlisted one may have had an effect.
pub(crate) fn by_code(code: &str) -> Meaning {
    let other = (
        ErrorKind::Other,
        Effect::Unknown,
        "the service refused the request with an unlisted code; see the source",
    );
    CODES.find(|listed| *listed == code).unwrap_or(other)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn codes_have_their_meaning() {
        let of = |code| {
            let (kind, effect, _) = by_code(code);
            (kind, effect)
        };
        use Effect::{None, Unknown};
        assert_eq!(of("ThrottlingException"), (ErrorKind::Unavailable, None));
        assert_eq!(of("InternalServerError"), (ErrorKind::Unavailable, Unknown));
        assert_eq!(
            of("TransactionConflictException"),
            (ErrorKind::Contention, None)
        );
        assert_eq!(
            of("ResourceNotFoundException"),
            (ErrorKind::Misconfigured, None)
        );
        assert_eq!(of("Unheard"), (ErrorKind::Other, Unknown));
    }

    #[test]
    fn no_code_is_listed_twice() {
        let mut seen = HashSet::new();
        for code in CODES.all() {
            assert!(seen.insert(code), "{code}");
        }
    }
}
