//! What an error of the driver or the server means for the caller.

use std::error::Error as StdError;
use std::sync::Arc;

use idem_core::{Effect, Error, ErrorKind};
use redis::RedisError;

/// Whether the failed call could have changed anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Nothing was sent yet, or only a read.
    Harmless,
    /// Something that writes was sent.
    Write,
}

impl Sent {
    pub(crate) fn effect(self) -> Effect {
        match self {
            Self::Harmless => Effect::None,
            Self::Write => Effect::Unknown,
        }
    }
}

/// The driver's error as one of ours; the driver's is kept as the source.
pub(crate) fn classify(error: RedisError, sent: Sent) -> Error {
    use ErrorKind::{Corrupt, Misconfigured, Other, Unavailable};
    let (kind, effect, message) = match error.kind() {
        redis::ErrorKind::Server(_) | redis::ErrorKind::Extension => by_code(code_of(&error)),
        redis::ErrorKind::Io if error.is_connection_refusal() => (
            Unavailable,
            Effect::None,
            "the server refuses connections; is it running, and is this its port?",
        ),
        redis::ErrorKind::Io if is_certificate(&error) => (
            Misconfigured,
            Effect::None,
            "the TLS connection failed; check the certificate of the server and who signed it",
        ),
        redis::ErrorKind::Io => (
            Unavailable,
            Effect::Unknown,
            "the connection to the server was lost",
        ),
        redis::ErrorKind::AuthenticationFailed => (
            Misconfigured,
            Effect::None,
            "the server does not accept user and password",
        ),
        redis::ErrorKind::InvalidClientConfig | redis::ErrorKind::EmptySentinelList => (
            Misconfigured,
            Effect::None,
            "the connection cannot be made with this URL; see the source",
        ),
        redis::ErrorKind::ClusterConnectionNotFound => (
            Unavailable,
            Effect::None,
            "no node of the cluster that has the key can be reached",
        ),
        redis::ErrorKind::MasterNameNotFoundBySentinel => (
            Unavailable,
            Effect::None,
            "no sentinel knows a master of this name that can be reached",
        ),
        redis::ErrorKind::Parse | redis::ErrorKind::UnexpectedReturnType => (
            Corrupt,
            Effect::Unknown,
            "the server's answer makes no sense",
        ),
        _ => (Other, Effect::Unknown, "the driver failed; see the source"),
    };
    let effect = match sent {
        Sent::Harmless => Effect::None,
        Sent::Write => effect,
    };
    Error::new(kind, effect, message).with_source(error)
}

/// rustls reports a certificate that it does not trust as invalid data.
fn is_certificate(error: &RedisError) -> bool {
    let source = error.source();
    // The driver shares its sources.
    let shared = source.and_then(|source| source.downcast_ref::<Arc<dyn StdError + Send + Sync>>());
    let io = shared.and_then(|shared| shared.downcast_ref::<std::io::Error>());
    io.is_some_and(|io| io.kind() == std::io::ErrorKind::InvalidData)
}

/// The code with which the server's message begins. Before version 7 that of an error inside a script is within the
/// message: `ERR Error running script (call to f_…): @user_script:9: … -OOM command not allowed …`.
pub(crate) fn code_of(error: &RedisError) -> &str {
    let code = error.code().unwrap_or_default();
    let inner = error.detail().filter(|_| code == "ERR");
    let inner = inner.and_then(|detail| detail.split_once(": -"));
    match inner {
        Some((_, inner)) => inner.split(' ').next().unwrap_or(code),
        None => code,
    }
}

/// Whether the server has refused because another one has the key now, or leads: nothing was done, and asking
/// again, of that other one, may succeed at once.
pub(crate) fn is_elsewhere(error: &RedisError) -> bool {
    matches!(code_of(error), "MOVED" | "ASK" | "READONLY" | "TRYAGAIN")
}

/// Whether what answers is a cluster behind one address, which takes commands of one key (`CROSSSLOT`): nothing was done.
pub(crate) fn routes_one_key(error: &Error) -> bool {
    let cause = error
        .source()
        .and_then(|source| source.downcast_ref::<RedisError>());
    cause.is_some_and(|cause| code_of(cause) == "CROSSSLOT")
}

/// Whether the connection is of no more use: it is gone, or what answers is not the one that should.
pub(crate) fn is_connection_useless(error: &RedisError) -> bool {
    error.is_unrecoverable_error() || error.is_io_error() || code_of(error) == "READONLY"
}

/// What the server's code means: kind, effect, and what to do. A server that answers with an error has not run the
/// command, or it was the first write of a script that failed; scripts write once.
///
/// Codes: <https://redis.io/docs/latest/develop/reference/protocol-spec/#simple-errors>, and
/// `createSharedObjects` in the server's `server.c`.
fn by_code(code: &str) -> (ErrorKind, Effect, &'static str) {
    use ErrorKind::{Misconfigured, Other, Unavailable};
    let (kind, message) = match code {
        "MOVED" | "ASK" | "TRYAGAIN" => (
            Unavailable,
            "the key's slot is being moved to another node of the cluster; ask again (MOVED, ASK, TRYAGAIN)",
        ),
        "CLUSTERDOWN" | "MASTERDOWN" => (
            Unavailable,
            "the part of the cluster that has the key is down, or a failover is under way (CLUSTERDOWN, MASTERDOWN)",
        ),
        "LOADING" => (
            Unavailable,
            "the server is reading its data from disk (LOADING)",
        ),
        "BUSY" => (
            Unavailable,
            "the server is busy with somebody's long script (BUSY; see `SCRIPT KILL`)",
        ),
        "READONLY" => (
            Unavailable,
            "the server is a replica (READONLY): after a failover, or the URL names one; connect to the master, \
             through Sentinel, or to all nodes of the cluster",
        ),
        "NOREPLICAS" => (
            Unavailable,
            "the server has fewer good replicas than `min-replicas-to-write` (NOREPLICAS)",
        ),
        "OOM" => (
            Unavailable,
            "the server has reached `maxmemory` and takes no writes (OOM); raise it, or shorten retentions",
        ),
        "MISCONF" => (
            Misconfigured,
            "the server cannot save to disk and takes no writes (MISCONF); see its log, and \
             `stop-writes-on-bgsave-error`",
        ),
        "NOAUTH" | "WRONGPASS" => (
            Misconfigured,
            "the server does not accept user and password (NOAUTH, WRONGPASS)",
        ),
        "NOPERM" => (
            Misconfigured,
            "the user may not do this (NOPERM); it needs `~<namespace>:* +@read +@write +@scripting +info +time`, \
             and `&<namespace>:* +@pubsub` to be woken",
        ),
        "WRONGTYPE" => (
            Misconfigured,
            "a key of this namespace holds something else (WRONGTYPE); give the store a namespace of its own",
        ),
        "CROSSSLOT" => (
            Misconfigured,
            "the server is a cluster behind a proxy that cannot route scripts (CROSSSLOT)",
        ),
        _ => return (Other, Effect::Unknown, "the server refused; see the source"),
    };
    (kind, Effect::None, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server_error(text: &str) -> RedisError {
        let value = redis::parse_redis_value(format!("-{text}\r\n").as_bytes()).unwrap();
        value.extract_error().unwrap_err()
    }

    #[test]
    fn a_code_says_what_to_do() {
        let cases = [
            ("MOVED 3999 127.0.0.1:6381", ErrorKind::Unavailable),
            ("CLUSTERDOWN The cluster is down", ErrorKind::Unavailable),
            (
                "LOADING Redis is loading the dataset in memory",
                ErrorKind::Unavailable,
            ),
            (
                "READONLY You can't write against a read only replica.",
                ErrorKind::Unavailable,
            ),
            (
                "OOM command not allowed when used memory > 'maxmemory'.",
                ErrorKind::Unavailable,
            ),
            (
                "NOREPLICAS Not enough good replicas to write.",
                ErrorKind::Unavailable,
            ),
            (
                "MISCONF Redis is configured to save RDB snapshots",
                ErrorKind::Misconfigured,
            ),
            (
                "NOPERM this user has no permissions to run the 'eval' command",
                ErrorKind::Misconfigured,
            ),
            ("NOAUTH Authentication required.", ErrorKind::Misconfigured),
            (
                "WRONGTYPE Operation against a key",
                ErrorKind::Misconfigured,
            ),
        ];
        for (text, kind) in cases {
            let error = classify(server_error(text), Sent::Write);
            assert_eq!(
                (error.kind(), error.effect()),
                (kind, Effect::None),
                "{text}"
            );
            let code = text.split(' ').next().unwrap_or_default();
            assert!(error.to_string().contains(code), "{error}");
        }
    }

    #[test]
    fn an_older_servers_error_inside_a_script_is_found() {
        let text = "ERR Error running script (call to f_1a): @user_script:32: @user_script: 32: -OOM command not \
                    allowed when used memory > 'maxmemory'.";
        let error = classify(server_error(text), Sent::Write);
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Unavailable, Effect::None)
        );
        assert!(is_elsewhere(&server_error(
            "ERR Error running script (call to f_1a): @user_script:9: @user_script: 9: -READONLY You can't write"
        )));
    }

    #[test]
    fn what_is_not_known_may_have_happened() {
        let error = classify(server_error("ERR something new"), Sent::Write);
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Other, Effect::Unknown)
        );
        let gone = || RedisError::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        assert_eq!(classify(gone(), Sent::Write).effect(), Effect::Unknown);
        assert_eq!(classify(gone(), Sent::Harmless).effect(), Effect::None);
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let error = classify(refused.into(), Sent::Write);
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Unavailable, Effect::None)
        );
    }
}
