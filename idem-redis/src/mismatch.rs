//! Why a first connection fails or hangs: TLS at one of its ends only, or a proxy that does not take
//! a command. Both close the connection without a word, or wait for more bytes.

use std::pin::pin;
use std::time::Duration;

use idem_core::{Effect, Error, ErrorKind, Result};
use redis::{Cmd, ConnectionAddr};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::connect::Connector;
use crate::error::is_cut;

/// How long a connection is awaited before its port is examined.
const SLOW: Duration = Duration::from_millis(500);

/// A TLS record with an empty `ClientHello`, to which a server with TLS answers with an alert
/// (<https://www.rfc-editor.org/rfc/rfc8446#section-5.1>).
const HELLO: &[u8] = &[22, 3, 1, 0, 4, 1, 0, 0, 0];

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

/// Waits for the attempt to connect; where it fails or hangs, returns the cause that the port shows.
pub(crate) async fn explained<T: Send>(
    connector: &Connector,
    timeout: Duration,
    attempt: impl Future<Output = Result<T>> + Send,
) -> Result<T> {
    let mut attempt = pin!(attempt);
    let slow = async {
        tokio::time::sleep(SLOW).await;
        of_tls(connector).await
    };
    let error = tokio::select! {
        biased;
        done = &mut attempt => match done {
            Err(error) if is_cut(&error) => error,
            done => return done,
        },
        Some(error) = slow => return Err(error),
    };
    // The operation's own deadline is later, so that the first error is not lost.
    let cause = tokio::time::timeout(timeout / 4, of_tls(connector)).await;
    Err(match cause {
        Ok(Some(cause)) => cause.with_source(error),
        _ => error,
    })
}

/// Returns the error of a command at which the other end closes the connection.
pub(crate) fn closes_at(cmd: &Cmd) -> Error {
    let name = match cmd.args_iter().next() {
        Some(redis::Arg::Simple(name)) => String::from_utf8_lossy(name).into_owned(),
        _ => String::new(),
    };
    misconfigured(format!(
        "the other end closes the connection at the command {name}: a proxy such as twemproxy does not take it; \
         connect to the server itself"
    ))
}

/// Returns an error if a port has TLS and its URL not, or the other way round.
async fn of_tls(connector: &Connector) -> Option<Error> {
    for address in connector.addresses() {
        let advice = match address {
            ConnectionAddr::Tcp(host, port)
                if matches!(first(host, *port, HELLO).await, Some(21 | 22)) =>
            {
                "the server requires TLS on this port; use a `rediss://` URL, or a port without TLS (`port`)"
            }
            ConnectionAddr::TcpTls { host, port, .. }
                if matches!(first(host, *port, PING).await, Some(b'+' | b'-')) =>
            {
                "the server has no TLS on this port; use its port with TLS (`tls-port`), or a `redis://` URL"
            }
            _ => continue,
        };
        return Some(misconfigured(advice.to_owned()));
    }
    None
}

/// Returns the first byte with which the port answers.
async fn first(host: &str, port: u16, question: &[u8]) -> Option<u8> {
    let mut stream = TcpStream::connect((host, port)).await.ok()?;
    stream.write_all(question).await.ok()?;
    stream.read_u8().await.ok()
}

fn misconfigured(message: String) -> Error {
    Error::new(ErrorKind::Misconfigured, Effect::None, message)
}
