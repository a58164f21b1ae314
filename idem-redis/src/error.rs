//! What an error of the driver or the server means for the caller.

pub(crate) use idem_core::backend::Access;
use std::error::Error as StdError;
use std::sync::Arc;

use idem_core::backend::Meaning;
use idem_core::{Effect, Error, ErrorKind};
use redis::RedisError;

use crate::codes::{by_code, by_text};

/// Converts the driver's error to an error of this crate, with the driver's as its source.
pub(crate) fn classify(error: RedisError, sent: Access) -> Error {
    use ErrorKind::{Corrupt, Misconfigured, Other, Unavailable};
    let meaning = match error.kind() {
        redis::ErrorKind::Server(_) | redis::ErrorKind::Extension => self::meaning(&error),
        redis::ErrorKind::Io if error.is_connection_refusal() => (
            Unavailable,
            Effect::None,
            "nothing listens there (connection refused); start the server, or correct host and port in the URL",
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
            "the server does not accept user and password; correct them in the URL",
        ),
        redis::ErrorKind::InvalidClientConfig if error.to_string().contains("feature is not") => (
            Misconfigured,
            Effect::None,
            "the URL requires TLS, and idem-redis was built without its feature `tls`; turn it on",
        ),
        redis::ErrorKind::InvalidClientConfig | redis::ErrorKind::EmptySentinelList => (
            Misconfigured,
            Effect::None,
            "the URL cannot be read; it is redis://user:password@host:port/number, or rediss://… for TLS",
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
    sent.error(meaning, error)
}

/// rustls reports a certificate that it does not trust as invalid data.
fn is_certificate(error: &RedisError) -> bool {
    let source = error.source();
    // The driver shares its sources.
    let shared = source.and_then(|source| source.downcast_ref::<Arc<dyn StdError + Send + Sync>>());
    let io = shared.and_then(|shared| shared.downcast_ref::<std::io::Error>());
    io.is_some_and(|io| io.kind() == std::io::ErrorKind::InvalidData)
}

/// Returns the code with which the server's message begins. Before version 7 that of an error
/// inside a script is within the message: `ERR Error running script (call to f_…): @user_script:9:
/// … -OOM command not allowed …`, or `… @user_script:9: WRONGTYPE Operation …`.
pub(crate) fn code_of(error: &RedisError) -> &str {
    let code = error.code().unwrap_or_default();
    let detail = error.detail().filter(|_| code == "ERR");
    let inner = detail.filter(|detail| detail.starts_with("Error running script"));
    let parts = inner.unwrap_or_default().split(": ");
    let mut words = parts.filter_map(|part| part.trim_start_matches('-').split(' ').next());
    words.find(|word| by_code(word).is_some()).unwrap_or(code)
}

/// Returns whether the server has refused because another one has the key now, or leads: nothing
/// was done, and a retry at that one may succeed at once.
pub(crate) fn is_elsewhere(error: &RedisError) -> bool {
    matches!(code_of(error), "MOVED" | "ASK" | "READONLY" | "TRYAGAIN")
}

/// Returns the driver's error behind this one.
fn cause(error: &Error) -> Option<&RedisError> {
    error.source()?.downcast_ref()
}

/// Returns whether the connection was lost, or what came over it is no answer of Redis.
pub(crate) fn is_cut(error: &Error) -> bool {
    use redis::ErrorKind::{Io, Parse};
    cause(error).is_some_and(|cause| matches!(cause.kind(), Io | Parse))
}

/// Returns whether the answer comes from a cluster behind one address, which takes commands of one
/// key only (`CROSSSLOT`): nothing was done.
pub(crate) fn routes_one_key(error: &Error) -> bool {
    cause(error).is_some_and(|cause| code_of(cause) == "CROSSSLOT")
}

/// Returns whether the connection is useless: it is lost, or the wrong server answers.
pub(crate) fn is_connection_useless(error: &RedisError) -> bool {
    error.is_unrecoverable_error() || error.is_io_error() || code_of(error) == "READONLY"
}

/// Returns the meaning of the server's answer: by its code, or, where that says nothing, by its
/// words.
fn meaning(error: &RedisError) -> Meaning {
    let code = code_of(error);
    by_code(code).unwrap_or_else(|| match error.detail() {
        Some(detail) if code == "ERR" => by_text(detail),
        // The words of a proxy, which begin with no code.
        detail => by_text(&[code, detail.unwrap_or_default()].join(" ")),
    })
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
        use ErrorKind::{Misconfigured, Unavailable};
        let cases = [
            ("MOVED 3999 127.0.0.1:6381", Unavailable),
            ("ASK 3999 127.0.0.1:6381", Unavailable),
            (
                "TRYAGAIN Multiple keys request during rehashing of slot",
                Unavailable,
            ),
            ("CLUSTERDOWN The cluster is down", Unavailable),
            ("MASTERDOWN Link with MASTER is down", Unavailable),
            (
                "LOADING Redis is loading the dataset in memory",
                Unavailable,
            ),
            ("BUSY Redis is busy running a script.", Unavailable),
            ("NOSCRIPT No matching script. Please use EVAL.", Unavailable),
            (
                "READONLY You can't write against a read only replica.",
                Unavailable,
            ),
            (
                "OOM command not allowed when used memory > 'maxmemory'.",
                Unavailable,
            ),
            ("NOREPLICAS Not enough good replicas to write.", Unavailable),
            (
                "MISCONF Redis is configured to save RDB snapshots",
                Misconfigured,
            ),
            (
                "NOPERM this user has no permissions to run the 'eval' command",
                Misconfigured,
            ),
            ("NOAUTH Authentication required.", Misconfigured),
            ("WRONGPASS invalid username-password pair", Misconfigured),
            ("WRONGTYPE Operation against a key", Misconfigured),
            (
                "CROSSSLOT Keys in request don't hash to the same slot",
                Misconfigured,
            ),
            ("DENIED Redis is running in protected mode", Misconfigured),
        ];
        for (text, kind) in cases {
            let error = classify(server_error(text), Access::Write);
            assert_eq!(
                (error.kind(), error.effect()),
                (kind, Effect::None),
                "{text}"
            );
            let code = text.split(' ').next().unwrap_or_default();
            let returned = error.to_string().contains(code) || error.kind() == Misconfigured;
            assert!(returned, "{error}");
        }
    }

    #[test]
    fn the_words_of_servers_and_proxies_are_understood() {
        use Effect::{None, Unknown};
        use ErrorKind::{Misconfigured, Other, Unavailable};
        let cases = [
            ("ERR max number of clients reached", Unavailable, None),
            (
                "ERR max number of clients + cluster connections reached",
                Unavailable,
                None,
            ),
            (
                "ERR unknown command 'EVALSHA', with args beginning with:",
                Misconfigured,
                None,
            ),
            ("ERR unsupported command 'evalsha'", Misconfigured, None),
            (
                "ERR This instance has cluster support disabled",
                Misconfigured,
                None,
            ),
            (
                "EXECABORT Transaction discarded because of previous errors.",
                Unavailable,
                Unknown,
            ),
            (
                "UNBLOCKED client unblocked via CLIENT UNBLOCK",
                Unavailable,
                Unknown,
            ),
            (
                "UNKILLABLE Sorry the script already executed write commands",
                Unavailable,
                Unknown,
            ),
            (
                "ERR ACL failure in script: User app has no permissions to run the 'set' command script: f_1, on \
                 @user_script:14.",
                Misconfigured,
                None,
            ),
            (
                "ERR Error running script (call to f_1): @user_script:9: The user executing the script can't run this \
                 command or subcommand",
                Misconfigured,
                None,
            ),
            (
                "ERR Error running script (call to f_1): @user_script:9: @user_script: 9: Write commands not allowed \
                 after non deterministic commands. Call redis.replicate_commands() at the start of your script",
                Misconfigured,
                None,
            ),
            (
                "ERR Error running script (call to f_1): @user_script:4: You can set the replication behavior only after \
                 turning on single commands replication with redis.replicate_commands().",
                Misconfigured,
                None,
            ),
            (
                "ERR This Redis command is not allowed from script script: f_1, on @user_script:1.",
                Misconfigured,
                None,
            ),
            (
                "ERR Error running script (call to f_1): @user_script:1: @user_script: 1: Unknown Redis command called \
                 from Lua script",
                Misconfigured,
                None,
            ),
            // twemproxy
            ("ERR Connection timed out", Unavailable, Unknown),
            ("ERR Connection refused", Unavailable, Unknown),
            ("ERR Host is unreachable", Unavailable, Unknown),
            // Envoy
            ("upstream failure", Unavailable, Unknown),
            ("no upstream host", Unavailable, Unknown),
            (
                "ERR Error running script (call to f_1): @user_script:1: oops",
                Other,
                Unknown,
            ),
            ("ERR something new", Other, Unknown),
            ("WHATEVER else", Other, Unknown),
        ];
        for (text, kind, effect) in cases {
            let error = classify(server_error(text), Access::Write);
            assert_eq!((error.kind(), error.effect()), (kind, effect), "{text}");
            let read = classify(server_error(text), Access::Read);
            assert_eq!(read.effect(), None, "{text}");
        }
    }

    #[test]
    fn an_older_servers_error_inside_a_script_is_found() {
        let text = "ERR Error running script (call to f_1a): @user_script:32: @user_script: 32: -OOM command not \
                    allowed when used memory > 'maxmemory'.";
        let error = classify(server_error(text), Access::Write);
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Unavailable, Effect::None)
        );
        let text = "ERR Error running script (call to f_1a): @user_script:19: WRONGTYPE Operation against a key";
        assert_eq!(code_of(&server_error(text)), "WRONGTYPE");
        assert!(is_elsewhere(&server_error(
            "ERR Error running script (call to f_1a): @user_script:9: @user_script: 9: -READONLY You can't write"
        )));
    }

    #[test]
    fn an_unknown_error_has_an_unknown_effect() {
        let error = classify(server_error("ERR something new"), Access::Write);
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Other, Effect::Unknown)
        );
        let gone = || RedisError::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        assert_eq!(classify(gone(), Access::Write).effect(), Effect::Unknown);
        assert_eq!(classify(gone(), Access::Read).effect(), Effect::None);
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let error = classify(refused.into(), Access::Write);
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Unavailable, Effect::None)
        );
    }
}
