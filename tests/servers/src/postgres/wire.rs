//! As much of PostgreSQL's protocol, version 3, as it takes to see that a server is ready, in which version, and
//! to create a database. No driver: `cargo xtask` has to build in seconds.
//! <https://www.postgresql.org/docs/current/protocol-message-formats.html>

use std::io::{self, Read, Write};
use std::net::TcpStream;

use crate::error::Doing;
use crate::url::Url;
use crate::{Error, Result};

const PROTOCOL: u32 = 3 << 16;
/// No message that these few questions are answered with comes near it.
const LONGEST: usize = 1 << 20;

/// How a server answers to a log-in.
pub(crate) enum Answer {
    /// Ready for queries.
    Welcome(Session),
    /// It wants a proof that we do not give here.
    LogIn,
    /// It refuses, with SQLSTATE and text.
    Refused { code: String, message: String },
}

/// A connection that is ready for queries.
pub(crate) struct Session {
    stream: TcpStream,
    version: Option<String>,
}

impl Session {
    pub(crate) fn open(url: &Url, database: Option<&str>) -> Result<Answer> {
        let place = || format!("{}:{} does not answer", url.host, url.port);
        let mut stream = url.connect().doing(place)?;
        stream.write_all(&startup(url, database)).doing(place)?;
        let mut version = None;
        loop {
            let (kind, body) = receive(&mut stream).doing(place)?;
            match (kind, body.as_slice()) {
                (b'R', [0, 0, 0, 0]) => {}
                (b'R', [0, 0, 0, 3]) if url.password.is_some() => {
                    let password = url.password.as_deref().unwrap_or_default();
                    stream
                        .write_all(&message(b'p', &[password.as_bytes(), b"\0"]))
                        .doing(place)?;
                }
                (b'R', _) => return Ok(Answer::LogIn),
                (b'E', body) => {
                    let field = |field| error_field(body, field).unwrap_or_default();
                    return Ok(Answer::Refused {
                        code: field(b'C'),
                        message: field(b'M'),
                    });
                }
                (b'S', body) => version = version.or(parameter(body, "server_version")),
                (b'Z', _) => return Ok(Answer::Welcome(Self { stream, version })),
                _ => {}
            }
        }
    }

    /// `server_version`, as told at log-in.
    pub(crate) fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Runs one statement; its answer is the first column of the first row. Notices count as an answer too,
    /// because PgBouncer's `SHOW VERSION` was one in old versions.
    pub(crate) fn query(&mut self, sql: &str) -> Result<Option<String>> {
        let lost = || format!("the connection was lost in `{sql}`");
        self.stream
            .write_all(&message(b'Q', &[sql.as_bytes(), b"\0"]))
            .doing(lost)?;
        let (mut answer, mut refused) = (None, None);
        loop {
            let (kind, body) = receive(&mut self.stream).doing(lost)?;
            match kind {
                b'D' => answer = answer.or(first_column(&body)),
                b'N' => answer = answer.or(error_field(&body, b'M')),
                b'E' => refused = error_field(&body, b'M'),
                b'Z' => break,
                _ => {}
            }
        }
        match refused {
            Some(message) => Err(Error::failed(format!("{sql}: {message}"))),
            None => Ok(answer),
        }
    }
}

fn startup(url: &Url, database: Option<&str>) -> Vec<u8> {
    let user = url.user.as_deref().unwrap_or("postgres");
    let mut body = PROTOCOL.to_be_bytes().to_vec();
    for text in ["user", user, "database", database.unwrap_or(user)] {
        body.extend_from_slice(text.as_bytes());
        body.push(0);
    }
    body.push(0);
    [&length(body.len()), body.as_slice()].concat()
}

fn message(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    [&[kind], length(body.len()).as_slice(), &body].concat()
}

/// The length field counts itself.
fn length(body: usize) -> [u8; 4] {
    u32::try_from(body + 4).unwrap_or(u32::MAX).to_be_bytes()
}

fn receive(stream: &mut TcpStream) -> io::Result<(u8, Vec<u8>)> {
    let mut head = [0; 5];
    stream.read_exact(&mut head)?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    if !(4..LONGEST).contains(&length) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "not a PostgreSQL server",
        ));
    }
    let mut body = vec![0; length - 4];
    stream.read_exact(&mut body)?;
    Ok((head[0], body))
}

fn parameter(body: &[u8], name: &str) -> Option<String> {
    let mut parts = body.split(|byte| *byte == 0);
    (parts.next()? == name.as_bytes()).then(|| text(parts.next().unwrap_or_default()))
}

/// An error is a list of fields, each a letter and a text ended by zero.
fn error_field(body: &[u8], field: u8) -> Option<String> {
    body.split(|byte| *byte == 0)
        .find(|part| part.first() == Some(&field))
        .map(|part| text(&part[1..]))
}

fn first_column(body: &[u8]) -> Option<String> {
    let length = i32::from_be_bytes(body.get(2..6)?.try_into().ok()?);
    body.get(6..6 + usize::try_from(length).ok()?).map(text)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{error_field, first_column, message, parameter};

    #[test]
    fn a_message_carries_its_own_length() {
        assert_eq!(message(b'Q', &[b"x", b"\0"]), [b'Q', 0, 0, 0, 6, b'x', 0]);
    }

    #[test]
    fn fields_of_an_error_are_found_by_their_letter() {
        let body = b"SFATAL\0C3D000\0Mno such database\0\0";
        assert_eq!(error_field(body, b'C').as_deref(), Some("3D000"));
        assert_eq!(error_field(body, b'M').as_deref(), Some("no such database"));
        assert_eq!(error_field(body, b'X'), None);
    }

    #[test]
    fn the_first_column_of_a_row_is_read_and_null_is_none() {
        assert_eq!(
            first_column(&[0, 1, 0, 0, 0, 2, b'h', b'i']).as_deref(),
            Some("hi")
        );
        assert_eq!(first_column(&[0, 1, 255, 255, 255, 255]), None);
    }

    #[test]
    fn only_the_asked_parameter_is_taken() {
        assert_eq!(
            parameter(b"server_version\x0015.18\0", "server_version").as_deref(),
            Some("15.18")
        );
        assert_eq!(parameter(b"TimeZone\0UTC\0", "server_version"), None);
    }
}
